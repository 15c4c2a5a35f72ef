//! Locks that allow one daemon for each plugins directory, and for each directory of a
//! `kubelet.sock`.
//!
//! Two daemons on the same directory would register the same plugins twice. So each directory has a
//! lock file in the run directory ([`run_dir`]), which other users cannot open; a lock on the
//! directory itself could be taken by every process that can read the directory. The lock file is
//! named after the directory's device and inode, so that all paths to the directory lead to the
//! same lock. A directory inside one of another daemon has a lock of its own, so both daemons
//! start. A directory that is removed and created again is not locked, unless it has the same
//! inode.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::file_lock::{self, FileLock};
use super::run_dir::{self, RunDirProblem};
use super::scan;
use super::stat::Stat;
use crate::config::{LEFT_LOCK_TIMEOUT, LOCK_TIMEOUT};
use crate::daemon::SetupError;
use crate::watch::Identity;

/// The locks on directories, released on drop.
#[derive(Debug)]
pub(crate) struct Locks {
    /// The run directory, which contains the directory of the lock files.
    run_dir: PathBuf,
    /// The directories, by the paths with which they were added, and their locks.
    held: Vec<(PathBuf, FileLock)>,
}

/// Locks the directories. Missing directories are created. A directory that cannot be read is left
/// out: the scan reports what is wrong with it.
///
/// Waits only while another process holds a lock: for at most [`LOCK_TIMEOUT`], or
/// [`LEFT_LOCK_TIMEOUT`] if no running process is known to hold the lock.
pub(crate) fn acquire_all(dirs: &[PathBuf], run_dir: &Path) -> Result<Locks, SetupError> {
    let start = Instant::now();
    loop {
        let mut locks = Locks {
            run_dir: run_dir.to_owned(),
            held: Vec::new(),
        };
        match dirs.iter().try_for_each(|dir| locks.add(dir)) {
            Ok(()) => return Ok(locks),
            Err(SetupError::Taken { holder, .. })
                if start.elapsed() < holder.map_or(LEFT_LOCK_TIMEOUT, |_| LOCK_TIMEOUT) => {}
            Err(error) => return Err(error),
        }
        drop(locks); // Another process may be waiting for one of them.
        file_lock::pause();
    }
}

impl Locks {
    /// Locks one more directory, as [`acquire_all`] does, but without waiting. On failure, the
    /// locks stay as they are. If another directory is now at a locked path, its lock replaces the
    /// old one.
    pub(crate) fn add(&mut self, dir: &Path) -> Result<(), SetupError> {
        // Only a directory that can be read can be watched.
        let created = scan::create_dir(dir).ok();
        let readable = created.filter(|()| fs::read_dir(dir).is_ok());
        let Some(found) = readable.and_then(|()| Stat::of_path(dir).ok()) else {
            return Ok(());
        };
        let unusable = |(dir, problem)| SetupError::RunDir { dir, problem };
        let locks_dir = run_dir::open(Some(&self.run_dir))
            .and_then(|run_dir| run_dir::create_locks_dir(&run_dir))
            .map_err(unusable)?;
        let Identity { device, inode, .. } = found.identity;
        let path = locks_dir.join(format!("{device:x}:{inode}"));
        if self.held.iter().any(|(_, lock)| lock.own.path == path) {
            return Ok(());
        }
        match FileLock::acquire(&path, Instant::now()) {
            Ok(Some(lock)) => {
                self.remove(dir);
                self.held.push((dir.to_owned(), lock));
                Ok(())
            }
            Ok(None) => Err(SetupError::Taken {
                dir: dir.to_owned(),
                holder: file_lock::holder(&path),
                lock: path,
            }),
            Err(error) => Err(unusable((locks_dir, RunDirProblem::unusable(&error)))),
        }
    }

    /// Releases the lock of a directory.
    pub(crate) fn remove(&mut self, dir: &Path) {
        self.held.retain(|(held, _)| held != dir);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;

    use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};

    use super::*;

    /// Returns a temporary directory, and a function that returns paths in it.
    fn temp_dir() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        (dir, move |name: &str| path.join(name))
    }

    fn lock(dirs: &[&Path], run: &Path) -> Result<Locks, SetupError> {
        let dirs: Vec<PathBuf> = dirs.iter().map(|&dir| dir.to_owned()).collect();
        acquire_all(&dirs, run)
    }

    fn count_files(run: &Path) -> usize {
        run.join("locks").read_dir().unwrap().count()
    }

    #[test]
    fn a_directory_has_one_daemon_until_that_ends() {
        let (_dir, at) = temp_dir();
        let (dir, run) = (at("created/here"), at("run"));
        let first = lock(&[&dir], &run).unwrap();
        let Err(SetupError::Taken {
            dir: of,
            lock: file,
            holder,
        }) = lock(&[&dir], &run)
        else {
            panic!("it was locked twice");
        };
        assert_eq!(of, dir);
        assert!(file.starts_with(run.join("locks")) && file.exists());
        assert_eq!(holder, Some(std::process::id()));
        drop(first);
        assert_eq!(count_files(&run), 0);
        assert!(lock(&[&dir], &run).is_ok());
        assert_eq!(dir.read_dir().unwrap().count(), 0);
    }

    #[test]
    fn one_daemon_may_have_a_directory_twice_and_one_inside_it() {
        let (_dir, at) = temp_dir();
        let (real, link, run) = (at("real"), at("link"), at("run"));
        symlink(&real, &link).unwrap();
        let inner = real.join("inner");
        assert!(lock(&[&real, &link, &inner, &real], &run).is_ok());
    }

    #[test]
    fn a_directory_that_is_added_is_locked_until_it_is_removed() {
        let (_dir, at) = temp_dir();
        let (mine, theirs, run) = (at("a/mine"), at("a/theirs"), at("run"));
        let mut locks = lock(&[&mine], &run).unwrap();
        let other = lock(&[&theirs], &run).unwrap();
        let count = count_files(&run);
        let start = Instant::now();
        let added = locks.add(&theirs);
        assert!(matches!(added, Err(SetupError::Taken { .. })));
        assert!(start.elapsed() < LOCK_TIMEOUT);
        assert_eq!(count_files(&run), count);
        drop(other);

        locks.add(&theirs).unwrap();
        assert!(lock(&[&theirs], &run).is_err());
        locks.remove(&theirs);
        assert!(lock(&[&theirs], &run).is_ok());
        assert!(lock(&[&mine], &run).is_err());
        locks.remove(&mine);
        assert_eq!(count_files(&run), 0);
    }

    #[test]
    fn a_directory_that_was_created_again_gets_another_lock() {
        let (_dir, at) = temp_dir();
        let (dir, run) = (at("dir"), at("run"));
        let mut locks = lock(&[&dir], &run).unwrap();
        let count = count_files(&run);
        fs::rename(&dir, at("away")).unwrap();
        locks.add(&dir).unwrap();
        assert_eq!(count_files(&run), count);
        assert!(lock(&[&dir], &run).is_err() && lock(&[&at("away")], &run).is_ok());
    }

    #[test]
    fn a_path_that_is_not_a_directory_is_left_out() {
        let (_dir, at) = temp_dir();
        File::create(at("file")).unwrap();
        assert!(lock(&[&at("file")], &at("run")).unwrap().held.is_empty());
    }

    #[test]
    fn a_lock_on_the_directory_itself_does_not_prevent_a_start() {
        let (_dir, at) = temp_dir();
        let dir = at("dir");
        fs::create_dir(&dir).unwrap();
        let reader = File::open(&dir).unwrap();
        let _held = Flock::lock(reader, FlockArg::LockExclusive).unwrap();
        assert!(lock(&[&dir], &at("run")).is_ok());
    }

    #[test]
    fn a_start_waits_for_a_holder_that_is_about_to_end() {
        let (_dir, at) = temp_dir();
        let (dir, run) = (at("dir"), at("run"));
        let held = lock(&[&dir], &run).unwrap();
        let start = Instant::now();
        assert!(lock(&[&dir], &run).is_err());
        assert!(start.elapsed() >= LOCK_TIMEOUT);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&[&dir], &run).is_ok());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn a_start_waits_longer_for_the_children_of_a_killed_daemon() {
        let (_dir, at) = temp_dir();
        let (dir, run) = (at("dir"), at("run"));
        let path = lock(&[&dir], &run).unwrap().held[0].1.own.path.clone();
        // `flock` takes the lock and ends; the shell, which becomes `cat`, keeps the file open.
        let mut child = Command::new("sh")
            .args(["-c", "exec 3> \"$0\" && flock 3 && echo && exec cat"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0]).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&[&dir], &run).is_ok());
            let deadline = Instant::now() + 2 * LOCK_TIMEOUT;
            assert!(FileLock::acquire(&path, deadline).unwrap().is_none());
            assert!(!waiting.is_finished());
            drop(child.stdin.take());
            assert!(waiting.join().unwrap());
        });
        child.wait().unwrap();
    }

    #[test]
    #[expect(
        clippy::used_underscore_binding,
        reason = "only this test uses the open file"
    )]
    fn a_lock_that_a_child_inherited_ends_with_the_daemon() {
        let (_dir, at) = temp_dir();
        let (dir, run) = (at("dir"), at("run"));
        let held = lock(&[&dir], &run).unwrap();
        for (_, lock) in &held.held {
            fcntl(&*lock._file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        }
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        drop(held);
        let start = Instant::now();
        assert!(lock(&[&dir], &run).is_ok());
        assert!(start.elapsed() < LOCK_TIMEOUT);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_lock_never_has_two_holders() {
        let (_dir, at) = temp_dir();
        let (dir, run) = (at("dir"), at("run"));
        let inside = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let Ok(_held) = lock(&[&dir], &run) else {
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(count_files(&run), 0);
    }
}

//! Locks that allow one daemon for each plugins directory.
//!
//! Two daemons on the same directory, or on one inside the other, would register the same plugins
//! twice. So each directory has a lock file in the run directory ([`run_dir`]), which other users
//! cannot open; a lock on the directory itself could be taken by every process that can read the
//! directory. The lock file is named after the directory's device, inode and birth time, so that
//! all paths to the directory lead to the same lock. A daemon holds exclusive locks of its
//! directories, and shared locks of the directories above them. A directory that is removed and
//! created again is a different directory, which is not locked.
//!
//! The kernel releases a lock when the process that holds it ends, for whatever reason. A lock file
//! is removed by the last holder that ends in order; one that is left behind is harmless.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::ppoll;
use nix::sys::time::{TimeSpec, TimeValLike as _};
use rustix::fs::{AtFlags, CWD, FlockOperation, StatxFlags, flock, major, makedev, minor, statx};
use rustix::io::Errno;

use super::{SetupError, run_dir, scan};
use crate::{config, escape};

/// The locks on directories, released on drop.
#[derive(Debug, Default)]
pub(super) struct Locks(Vec<Lock>);

/// A lock file that is locked.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: File,
}

/// The device, inode and birth time of a directory. Inodes of removed directories are reused; the
/// birth time tells such directories apart, and is zero if the file system does not record it.
type Id = (u64, u64, (i64, u32));

/// Locks the directories. Missing directories are created. A directory that cannot be opened is
/// left out: the scan reports what is wrong with it.
///
/// Waits for at most [`config::LOCK_TIMEOUT`], and only while another process holds a lock.
pub(super) fn take(dirs: &[PathBuf], run_dir: Option<&Path>) -> Result<Locks, SetupError> {
    let wanted = wanted(dirs);
    if wanted.is_empty() {
        return Ok(Locks::default());
    }
    let unusable = |(dir, problem)| SetupError::RunDir { dir, problem };
    let run_dir = run_dir::open(run_dir).map_err(unusable)?;
    let locks_dir = run_dir::private(&run_dir, LOCKS).map_err(unusable)?;
    let deadline = Instant::now() + config::LOCK_TIMEOUT;
    let mut locks = Locks::default();
    for Wanted { id, dir, is_root } in wanted {
        let path = locks_dir.join(name(id));
        let operation = if is_root {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match acquire(&path, operation, deadline) {
            Ok(Some(file)) => locks.0.push(Lock { path, file }),
            Ok(None) => {
                let holder = holder(&path);
                let lock = path;
                return Err(SetupError::Taken { dir, lock, holder });
            }
            Err(error) => {
                let problem = run_dir::RunDirProblem::Unusable(error);
                return Err(unusable((locks_dir, problem)));
            }
        }
    }
    Ok(locks)
}

/// A directory that is to be locked.
#[derive(Debug)]
struct Wanted {
    id: Id,
    /// The plugins directory because of which it is locked, as the user named it.
    dir: PathBuf,
    /// Whether it is the plugins directory itself, not one above it.
    is_root: bool,
}

/// Returns the directories to lock for these plugins directories, each once. The order is the same
/// in every process, so that two processes that start at the same time do not wait for each other.
fn wanted(dirs: &[PathBuf]) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for dir in dirs {
        let real = scan::create(dir)
            .ok()
            .and_then(|()| fs::canonicalize(dir).ok());
        // Only a directory that can be read can be watched.
        let Some(real) = real.filter(|real| File::open(real).is_ok_and(|it| is_dir(&it))) else {
            continue;
        };
        for (level, above) in real.ancestors().enumerate() {
            if let Ok(id) = id(above) {
                wanted.push(Wanted {
                    id,
                    dir: dir.clone(),
                    is_root: level == 0,
                });
            }
        }
    }
    // Of several entries with one id, the first one stays: that of a plugins directory, if there is
    // one.
    wanted.sort_by_key(|it| (it.id, !it.is_root));
    wanted.dedup_by_key(|it| it.id);
    wanted
}

fn id(dir: &Path) -> io::Result<Id> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = statx(CWD, dir, AtFlags::empty(), wanted)?;
    let device = makedev(found.stx_dev_major, found.stx_dev_minor);
    let born = if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME) {
        (found.stx_btime.tv_sec, found.stx_btime.tv_nsec)
    } else {
        (0, 0)
    };
    Ok((device, found.stx_ino, born))
}

fn is_dir(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_dir())
}

/// Returns the name of a directory's lock file: device and inode in the format of /proc/locks, and
/// the birth time.
fn name((device, inode, (seconds, nanoseconds)): Id) -> String {
    let (major, minor) = (major(device), minor(device));
    format!("{major:02x}:{minor:02x}:{inode}:{seconds}.{nanoseconds:09}")
}

/// Opens and locks a file. Returns `None` if another process holds the lock until the deadline.
fn acquire(path: &Path, operation: FlockOperation, deadline: Instant) -> io::Result<Option<File>> {
    loop {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        let file = file.mode(0o600).open(path)?;
        match flock(&file, operation) {
            // The last holder may have removed the file meanwhile: a lock on a removed file
            // excludes nothing.
            Ok(()) if is_at(&file, path) => return Ok(Some(file)),
            Ok(()) | Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => pause(),
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits for [`RETRY`]. The kernel does not offer a wait for a lock with a timeout: only a signal
/// would end such a wait, and signals belong to the caller.
fn pause() {
    let pause = TimeSpec::milliseconds(RETRY.as_millis().try_into().unwrap_or(1));
    let _ = ppoll(&mut [], Some(pause), None);
}

/// Returns whether a path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Returns the id of the process that holds the lock on a file, if visible in this PID namespace
/// (proc_locks(5)):
/// `1: FLOCK  ADVISORY  WRITE 1234 00:2d:567 0 EOF`.
fn holder(path: &Path) -> Option<u32> {
    let found = fs::metadata(path).ok()?;
    let file = format!(
        "{:02x}:{:02x}:{}",
        major(found.dev()),
        minor(found.dev()),
        found.ino()
    );
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut pids = locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let pid = words.nth(3)?;
        (words.next()? == file).then(|| pid.parse().ok())?
    });
    pids.find(|pid| *pid > 0)
}

/// Removes the lock file if no other process holds the lock. A process that has opened the file and
/// not locked it yet notices the removal.
impl Drop for Lock {
    fn drop(&mut self) {
        let is_last = flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_last && is_at(&self.file, &self.path) {
            if let Err(error) = fs::remove_file(&self.path) {
                log::debug!(
                    "cannot remove a lock file: {error} lock={}",
                    escape::path(&self.path)
                );
            }
        }
    }
}

/// The directory of the lock files, in the run directory.
const LOCKS: &str = "locks";

/// The pause between two attempts to take a lock that another process holds.
const RETRY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;

    use super::*;

    /// Returns a temporary directory, and a function that returns paths in it.
    fn world() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        (dir, move |name: &str| path.join(name))
    }

    fn lock(dirs: &[&Path], run: &Path) -> Result<Locks, SetupError> {
        let dirs: Vec<PathBuf> = dirs.iter().map(|&dir| dir.to_owned()).collect();
        take(&dirs, Some(run))
    }

    fn files(run: &Path) -> usize {
        run.join(LOCKS).read_dir().unwrap().count()
    }

    #[test]
    fn a_directory_has_one_daemon_until_that_ends_and_nothing_is_left() {
        let (_dir, at) = world();
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
        assert!(file.starts_with(run.join(LOCKS)) && file.exists());
        assert_eq!(holder, Some(std::process::id()));
        drop(first);
        assert_eq!(files(&run), 0);
        assert!(lock(&[&dir], &run).is_ok());
        assert_eq!(dir.read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_directory_and_one_inside_it_exclude_each_other_and_siblings_do_not() {
        let (_dir, at) = world();
        let (outer, inner, sibling, run) = (at("a"), at("a/b/c"), at("a/d"), at("run"));
        let held = lock(&[&inner], &run).unwrap();
        assert!(lock(&[&sibling], &run).is_ok());
        assert!(matches!(
            lock(&[&outer], &run),
            Err(SetupError::Taken { .. })
        ));
        drop(held);
        let _held = lock(&[&outer], &run).unwrap();
        assert!(matches!(
            lock(&[&inner], &run),
            Err(SetupError::Taken { .. })
        ));
    }

    #[test]
    fn one_daemon_may_have_a_directory_twice_and_one_inside_it() {
        let (_dir, at) = world();
        let (real, link, run) = (at("real"), at("link"), at("run"));
        symlink(&real, &link).unwrap();
        let inner = real.join("inner");
        assert!(lock(&[&real, &link, &inner, &real], &run).is_ok());
    }

    #[test]
    fn what_cannot_be_opened_is_left_out() {
        let (_dir, at) = world();
        File::create(at("file")).unwrap();
        assert!(lock(&[&at("file")], &at("run")).unwrap().0.is_empty());
    }

    #[test]
    fn a_reader_of_the_directory_cannot_keep_the_daemon_from_it() {
        let (_dir, at) = world();
        let dir = at("dir");
        fs::create_dir(&dir).unwrap();
        let reader = File::open(&dir).unwrap();
        flock(&reader, FlockOperation::LockExclusive).unwrap();
        assert!(lock(&[&dir], &at("run")).is_ok());
    }

    #[test]
    fn a_start_waits_for_a_holder_that_is_about_to_end() {
        let (_dir, at) = world();
        let (dir, run) = (at("dir"), at("run"));
        let held = lock(&[&dir], &run).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&[&dir], &run).is_ok());
            // The second start is waiting when the lock file is open a second time.
            let path = &held
                .0
                .iter()
                .find(|it| it.path.ends_with(name_of(&dir)))
                .unwrap()
                .path;
            until(|| openings(path) > 1);
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }

    fn name_of(dir: &Path) -> String {
        name(id(dir).unwrap())
    }

    /// Returns how often this process has a file open.
    fn openings(path: &Path) -> usize {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        let targets = descriptors.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
        targets.filter(|target| target == path).count()
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    }

    #[test]
    fn a_lock_that_a_child_has_inherited_does_not_outlive_an_orderly_end() {
        let (_dir, at) = world();
        let (dir, run) = (at("dir"), at("run"));
        let held = lock(&[&dir], &run).unwrap();
        for lock in &held.0 {
            rustix::io::fcntl_setfd(&lock.file, rustix::io::FdFlags::empty()).unwrap();
        }
        let mut child = Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(held);
        let start = Instant::now();
        assert!(lock(&[&dir], &run).is_ok());
        assert!(start.elapsed() < config::LOCK_TIMEOUT);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn starts_and_ends_at_the_same_time_never_have_two_holders() {
        let (_dir, at) = world();
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
        assert_eq!(files(&run), 0);
    }
}

//! Locks that allow one daemon for each plugins directory.
//!
//! Two daemons on the same directory, or on one inside the other, would register the same plugins
//! twice. So each directory has a lock file in the run directory ([`run_dir`]), which other users
//! cannot open; a lock on the directory itself could be taken by every process that can read the
//! directory. The lock file is named after the directory's device, inode and birth time, so that
//! all paths to the directory lead to the same lock. A daemon holds exclusive locks of its
//! directories, and shared locks of the directories above them. A directory that is removed and
//! created again is a different directory, which is not locked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, StatxFlags, major, makedev, minor, statx};

use super::file_lock::{self, FileLock};
use super::{SetupError, run_dir, scan, stat};
use crate::config;

/// The locks on directories, released on drop.
#[derive(Debug)]
pub(super) struct Locks {
    /// The run directory that the user named.
    run_dir: Option<PathBuf>,
    /// The locks that each plugins directory needs.
    needs: Vec<Need>,
    held: Vec<Lock>,
}

/// A lock that a plugins directory needs.
#[derive(Clone, Debug)]
struct Need {
    /// The directory to lock.
    id: Id,
    /// The plugins directory because of which it is locked, as the user named it.
    dir: PathBuf,
    /// Whether it is the plugins directory itself, not one above it.
    is_root: bool,
}

/// A lock file that is locked.
#[derive(Debug)]
struct Lock {
    id: Id,
    file: FileLock,
}

/// The device, inode and birth time of a directory. Inodes of removed directories are reused; the
/// birth time tells such directories apart, and is zero if the file system does not record it.
type Id = (u64, u64, (i64, u32));

/// Locks the directories. Missing directories are created. A directory that cannot be opened is
/// left out: the scan reports what is wrong with it.
///
/// Waits only while another process holds a lock: for at most [`config::LOCK_TIMEOUT`], or
/// [`config::LEFT_LOCK_TIMEOUT`] if no running process is known to hold it.
pub(super) fn take(dirs: &[PathBuf], run_dir: Option<&Path>) -> Result<Locks, SetupError> {
    let mut locks = Locks {
        run_dir: run_dir.map(Path::to_owned),
        needs: dirs.iter().flat_map(|dir| needs_of(dir)).collect(),
        held: Vec::new(),
    };
    let start = Instant::now();
    let mut acquired = locks.acquire_missing(start + config::LOCK_TIMEOUT);
    if matches!(acquired, Err(SetupError::Taken { holder: None, .. })) {
        acquired = locks.acquire_missing(start + config::LEFT_LOCK_TIMEOUT);
    }
    acquired.map(|()| locks)
}

impl Locks {
    /// Locks one more directory, as [`take`] does, but without waiting. Without success, the locks
    /// stay as they are. A directory that is locked already is locked as what it is by now.
    pub(super) fn add(&mut self, dir: &Path) -> Result<(), SetupError> {
        let before = self.needs.clone();
        self.needs.retain(|need| need.dir != dir);
        self.needs.extend(needs_of(dir));
        let acquired = self.acquire_missing(Instant::now());
        if acquired.is_err() {
            self.needs = before;
        }
        self.release_unneeded();
        acquired
    }

    /// Releases the locks of a directory, except for those that others need.
    pub(super) fn remove(&mut self, dir: &Path) {
        self.needs.retain(|need| need.dir != dir);
        self.release_unneeded();
    }

    fn acquire_missing(&mut self, deadline: Instant) -> Result<(), SetupError> {
        let unusable = |(dir, problem)| SetupError::RunDir { dir, problem };
        let mut locks_dir = None;
        for Need { id, dir, is_root } in strongest(self.needs.clone()) {
            let held = self.held.iter_mut().find(|lock| lock.id == id);
            if let Some(lock) = held {
                if !is_root || lock.file.is_exclusive() || lock.file.make_exclusive() {
                    continue;
                }
                return Err(taken(dir, lock.file.path().to_owned()));
            }
            let locks_dir = match &mut locks_dir {
                Some(locks_dir) => locks_dir,
                missing => {
                    let run_dir = run_dir::open(self.run_dir.as_deref()).map_err(unusable)?;
                    missing.insert(locks_dir_in(&run_dir).map_err(unusable)?)
                }
            };
            let path = locks_dir.join(name(id));
            match FileLock::acquire(&path, is_root, deadline) {
                Ok(Some(file)) => self.held.push(Lock { id, file }),
                Ok(None) => return Err(taken(dir, path)),
                Err(error) => {
                    let problem = run_dir::RunDirProblem::Unusable(error);
                    return Err(unusable((locks_dir.clone(), problem)));
                }
            }
        }
        Ok(())
    }

    /// Releases the locks that are not needed, and shares those that need not be exclusive.
    fn release_unneeded(&mut self) {
        let needs = strongest(self.needs.clone());
        self.held.retain_mut(|lock| {
            let Some(need) = needs.iter().find(|need| need.id == lock.id) else {
                return false;
            };
            if lock.file.is_exclusive() && !need.is_root {
                lock.file.share();
            }
            true
        });
    }
}

fn taken(dir: PathBuf, lock: PathBuf) -> SetupError {
    let holder = file_lock::holder(&lock, true);
    SetupError::Taken { dir, lock, holder }
}

/// Returns the locks that a plugins directory needs: none if it cannot be opened. A missing
/// directory is created.
fn needs_of(dir: &Path) -> Vec<Need> {
    let created = scan::create(dir).ok();
    let real = created.and_then(|()| fs::canonicalize(dir).ok());
    // Only a directory that can be read can be watched.
    let Some(real) = real.filter(|real| File::open(real).is_ok_and(|it| is_dir(&it))) else {
        return Vec::new();
    };
    let levels = real.ancestors().enumerate();
    let needs = levels.filter_map(|(level, above)| {
        Some(Need {
            id: id(above).ok()?,
            dir: dir.to_owned(),
            is_root: level == 0,
        })
    });
    needs.collect()
}

/// Returns each lock once, exclusive if any of the plugins directories needs that. The order is the
/// same in every process, so that two processes that start at the same time do not wait for each
/// other.
fn strongest(mut needs: Vec<Need>) -> Vec<Need> {
    needs.sort_by_key(|need| (need.id, !need.is_root));
    needs.dedup_by_key(|need| need.id);
    needs
}

/// Returns the id of a directory. Without statx, or on a file system without birth times, the time
/// in it is zero: the modification time changes.
pub(super) fn id(dir: &Path) -> io::Result<Id> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = match statx(CWD, dir, AtFlags::empty(), wanted) {
        Err(errno) if stat::is_missing(errno) => {
            let found = fs::metadata(dir)?;
            return Ok((found.dev(), found.ino(), (0, 0)));
        }
        found => found?,
    };
    let device = makedev(found.stx_dev_major, found.stx_dev_minor);
    let btime = if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME) {
        (found.stx_btime.tv_sec, found.stx_btime.tv_nsec)
    } else {
        (0, 0)
    };
    Ok((device, found.stx_ino, btime))
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

/// Returns the id of a process that keeps others from taking a directory: it has locked that
/// directory, one inside it or one above it. Takes and changes no lock.
pub(super) fn holder_of(dir: &Path, run_dir: &Path) -> Option<u32> {
    let real = fs::canonicalize(dir).ok()?;
    let mut levels = real.ancestors().enumerate();
    levels.find_map(|(level, above)| {
        let lock = run_dir.join(LOCKS).join(name(id(above).ok()?));
        file_lock::holder(&lock, level == 0)
    })
}

/// Creates the directory of the lock files in the run directory. Returns its path.
pub(super) fn locks_dir_in(run_dir: &Path) -> Result<PathBuf, run_dir::Unusable> {
    run_dir::private(run_dir, LOCKS)
}

/// The directory of the lock files, in the run directory.
pub(super) const LOCKS: &str = "locks";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{FlockOperation, flock};

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
    fn a_directory_that_is_added_is_locked_until_it_is_removed_and_another_holder_changes_nothing()
    {
        let (_dir, at) = world();
        let (mine, theirs, run) = (at("a/mine"), at("a/theirs"), at("run"));
        let mut locks = lock(&[&mine], &run).unwrap();
        let other = lock(&[&theirs], &run).unwrap();
        let count = files(&run);
        // Another process has this one, or one inside it.
        for dir in [&theirs, &at("a")] {
            let start = Instant::now();
            assert!(matches!(locks.add(dir), Err(SetupError::Taken { .. })));
            assert!(start.elapsed() < config::LOCK_TIMEOUT);
            assert_eq!(files(&run), count);
        }
        // The one above is still shared by both, not free for a third one.
        assert!(lock(&[&at("a/third")], &run).is_ok());
        drop(other);
        assert!(matches!(
            lock(&[&at("a")], &run),
            Err(SetupError::Taken { .. })
        ));

        locks.add(&at("a")).unwrap();
        assert!(lock(&[&theirs], &run).is_err());
        locks.remove(&at("a"));
        assert!(lock(&[&theirs], &run).is_ok());
        assert!(lock(&[&mine], &run).is_err() && lock(&[&at("a")], &run).is_err());
        locks.remove(&mine);
        assert_eq!(files(&run), 0);
    }

    #[test]
    fn a_directory_that_was_created_again_is_locked_as_the_new_one() {
        let (_dir, at) = world();
        let (dir, run) = (at("dir"), at("run"));
        let mut locks = lock(&[&dir], &run).unwrap();
        let count = files(&run);
        fs::rename(&dir, at("away")).unwrap();
        locks.add(&dir).unwrap();
        assert_eq!(files(&run), count);
        assert!(lock(&[&dir], &run).is_err() && lock(&[&at("away")], &run).is_ok());
    }

    #[test]
    fn what_cannot_be_opened_is_left_out() {
        let (_dir, at) = world();
        File::create(at("file")).unwrap();
        assert!(lock(&[&at("file")], &at("run")).unwrap().held.is_empty());
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
                .held
                .iter()
                .find(|it| it.file.path().ends_with(name_of(&dir)))
                .unwrap()
                .file
                .path();
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
        for lock in &held.held {
            rustix::io::fcntl_setfd(lock.file.file(), rustix::io::FdFlags::empty()).unwrap();
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

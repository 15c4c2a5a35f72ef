//! Lock files, which keep two processes from doing the same.
//!
//! The kernel releases a lock when the process that holds it ends, for whatever reason. A lock file
//! is removed by the last holder that ends in order; one that is left behind is harmless.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::ppoll;
use nix::sys::signal::kill;
use nix::sys::time::{TimeSpec, TimeValLike as _};
use nix::unistd::Pid;
use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;

use crate::escape;

/// A lock file that is locked until this is dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    path: PathBuf,
    file: File,
    is_exclusive: bool,
}

impl FileLock {
    /// Opens and locks a file, which is created if it is missing. Returns `None` if another process
    /// holds the lock until the deadline.
    pub(super) fn acquire(
        path: &Path,
        is_exclusive: bool,
        deadline: Instant,
    ) -> io::Result<Option<Self>> {
        loop {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(false);
            let options = options.custom_flags(OFlag::O_NOFOLLOW.bits());
            let file = options.mode(0o600).open(path)?;
            match flock(&file, operation(is_exclusive)) {
                // The last holder may have removed the file meanwhile: a lock on a removed file
                // excludes nothing.
                Ok(()) if is_at(&file, path) => {
                    return Ok(Some(Self {
                        path: path.to_owned(),
                        file,
                        is_exclusive,
                    }));
                }
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => pause(),
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file is still where it was created.
    pub(super) fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// Makes a shared lock exclusive. Returns whether that was possible: it stays shared if another
    /// process shares it.
    pub(super) fn make_exclusive(&mut self) -> bool {
        self.is_exclusive = flock(&self.file, operation(true)).is_ok();
        if !self.is_exclusive {
            self.share(); // flock(2): the shared lock was released first.
        }
        self.is_exclusive
    }

    /// Makes an exclusive lock a shared one.
    pub(super) fn share(&mut self) {
        self.is_exclusive = false;
        if let Err(errno) = flock(&self.file, operation(false)) {
            let path = escape::path(&self.path);
            log::warn!("{path}: cannot share a lock: {}", io::Error::from(errno));
        }
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

fn operation(is_exclusive: bool) -> FlockOperation {
    if is_exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
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
/// (proc_locks(5)): `1: FLOCK  ADVISORY  WRITE 1234 00:2d:567 0 EOF`. A lock that is shared
/// (`READ`) counts only with `counts_shared`. A process that has ended is not returned, although
/// the kernel still names it if its children have inherited the lock.
pub(super) fn holder(path: &Path, counts_shared: bool) -> Option<u32> {
    let found = fs::metadata(path).ok()?;
    let file = format!(
        "{:02x}:{:02x}:{}",
        major(found.dev()),
        minor(found.dev()),
        found.ino()
    );
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pids = locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(3);
        let (kind, pid) = (words.next()?, words.next()?);
        let is_wanted = words.next()? == file && (counts_shared || kind == "WRITE");
        is_wanted.then(|| pid.parse().ok())?
    });
    // A lock that several processes share may be shared by this one.
    let pids = pids.filter(|pid| is_running(*pid));
    pids.max_by_key(|pid| *pid != std::process::id())
}

/// Returns whether a process with this id exists.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).unwrap_or(0);
    pid > 0 && kill(Pid::from_raw(pid), None) != Err(nix::errno::Errno::ESRCH)
}

/// Removes the lock file if no other process holds the lock. A process that has opened the file and
/// not locked it yet notices the removal.
impl Drop for FileLock {
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

/// The pause between two attempts to take a lock that another process holds.
const RETRY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &Path, deadline: Instant) -> Option<FileLock> {
        FileLock::acquire(path, true, deadline).unwrap()
    }

    #[test]
    fn a_lock_file_that_replaced_the_held_one_is_told_apart_and_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let old = lock(&path, Instant::now()).expect("the lock is free");
        assert!(old.is_in_place());
        fs::remove_file(&path).unwrap();
        assert!(!old.is_in_place());
        let new = lock(&path, Instant::now()).expect("the new file is not locked");
        assert!(!old.is_in_place());
        drop(old);
        assert!(new.is_in_place());
    }

    #[test]
    fn a_lock_that_stays_held_is_waited_for_until_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _held = lock(&path, Instant::now());
        let deadline = Instant::now() + Duration::from_millis(20);
        assert!(lock(&path, deadline).is_none());
        assert!(Instant::now() >= deadline);
    }

    #[test]
    fn the_holder_of_a_shared_lock_counts_only_if_that_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut held = lock(&path, Instant::now()).expect("the lock is free");
        let own = holder(&path, true);
        if own.is_none() {
            return crate::skip::skip("/proc does not show the locks of this process");
        }
        assert_eq!(own, Some(std::process::id()));
        assert_eq!(holder(&path, false), own);
        held.share();
        assert_eq!((holder(&path, false), holder(&path, true)), (None, own));
    }
}

//! Lock files, which keep two processes from doing the same work.
//!
//! The kernel releases a lock when the process that holds it has ended, for whatever reason, and so
//! has every child that inherited the open file. A holder that stops properly releases the lock
//! itself, and removes the lock file; a file that is left behind is harmless.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::poll::{PollTimeout, poll};
use nix::sys::signal::kill;
use nix::sys::stat::{major, minor};
use nix::unistd::Pid;

use super::own_file::OwnFile;

/// A locked file, which is removed and unlocked on drop.
#[derive(Debug)]
pub(crate) struct FileLock {
    /// Removes the file on drop, before the lock is released: a process that has opened the file
    /// but not locked it yet notices the removal.
    pub(crate) own: OwnFile,
    pub(super) _file: Flock<File>,
}

impl FileLock {
    /// Opens and locks a file, which is created if it is missing. Returns `None` if another process
    /// holds the lock until the deadline.
    pub(crate) fn acquire(path: &Path, deadline: Instant) -> io::Result<Option<Self>> {
        loop {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(false);
            let options = options.custom_flags(OFlag::O_NOFOLLOW.bits());
            let file = options.mode(0o600).open(path)?;
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => {
                    let own = OwnFile::of(path, &file.metadata()?);
                    // The last holder may have removed the file meanwhile: a lock on a removed file
                    // excludes nothing.
                    if own.is_in_place() {
                        return Ok(Some(Self { own, _file: file }));
                    }
                }
                Err((_, Errno::EINTR)) => {}
                Err((_, Errno::EWOULDBLOCK)) if Instant::now() < deadline => pause(),
                Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
                Err((_, errno)) => return Err(errno.into()),
            }
        }
    }
}

/// Waits 5 ms between two attempts to take a lock that another process holds. The kernel does not
/// offer a wait for a lock with a timeout: only a signal would end such a wait, and signals belong
/// to the caller.
pub(crate) fn pause() {
    let _ = poll(&mut [], PollTimeout::from(5_u8));
}

/// Returns the id of the process that holds the lock on a file, if visible in this PID namespace.
/// Parses proc_locks(5): `1: FLOCK  ADVISORY  WRITE 1234 00:2d:567 0 EOF`. A process that has ended
/// is not returned, although the kernel still names it if its children have inherited the lock.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    let found = fs::metadata(path).ok()?;
    let (device, inode) = (found.dev(), found.ino());
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut lines = locks.lines().map(str::split_whitespace);
    let mut of_file = lines.find(|words| words.clone().nth(5) == Some(&file))?;
    let pid = of_file.nth(4)?.parse().ok()?;
    // Signal 0 only asks whether the process exists.
    (pid > 0 && kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)).then_some(pid.unsigned_abs())
}

/// Returns ` pid=N` for the end of a message, or an empty text if the holder of the lock is not
/// known.
pub(crate) fn describe_holder(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" pid={pid}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lock(path: &Path, deadline: Instant) -> Option<FileLock> {
        FileLock::acquire(path, deadline).unwrap()
    }

    #[test]
    fn a_lock_file_that_replaced_the_held_one_is_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let old = lock(&path, Instant::now()).expect("the lock is free");
        assert!(old.own.is_in_place());
        fs::remove_file(&path).unwrap();
        assert!(!old.own.is_in_place());
        let new = lock(&path, Instant::now()).expect("the new file is not locked");
        assert!(!old.own.is_in_place());
        drop(old);
        assert!(new.own.is_in_place());
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
    fn the_process_that_holds_a_lock_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path, Instant::now()).expect("the lock is free");
        match holder(&path) {
            Some(pid) => assert_eq!(pid, std::process::id()),
            None => crate::skip::skip("/proc does not show the locks of this process"),
        }
        drop(held);
        fs::write(&path, "").unwrap();
        assert_eq!(holder(&path), None);
    }
}

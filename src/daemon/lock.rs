//! One daemon for one plugins directory.
//!
//! The lock is on the directory itself (flock(2)): nothing is left behind in it, and the kernel
//! takes the lock back however its holder ends. A directory that is removed and made again is
//! another one, which nobody has locked.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::{SetupError, scan};
use crate::escape;

/// A directory that is ours for as long as this lives.
pub(super) type Lock = Flock<File>;

/// Locks the directories, which are created if they are missing. One that can't be opened is left
/// to whoever looks at it next, to say why.
pub(super) fn take(dirs: &[PathBuf]) -> Result<Vec<Lock>, SetupError> {
    let (mut locks, mut taken) = (Vec::new(), Vec::new());
    for dir in dirs {
        let Some((file, id)) = open(dir).filter(|(_, id)| !taken.contains(id)) else {
            continue;
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                locks.push(lock);
                taken.push(id);
            }
            Err((_, Errno::EWOULDBLOCK)) => return Err(SetupError::Taken(dir.clone())),
            Err((_, errno)) => log::warn!(
                "{}: a second daemon would not be noticed, because locking failed: {errno}",
                escape::path(dir)
            ),
        }
    }
    Ok(locks)
}

/// The directory, and which one it is: two names for one are no two daemons.
fn open(dir: &Path) -> Option<(File, (u64, u64))> {
    scan::create(dir).ok()?;
    let file = File::open(dir).ok()?;
    let found = file.metadata().ok()?;
    Some((file, (found.dev(), found.ino())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_has_one_daemon_until_that_ends() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().join("created/here")];
        let first = take(&dirs).unwrap();
        let second = take(&dirs);
        assert!(matches!(second, Err(SetupError::Taken(dir)) if dir == dirs[0]));
        drop(first);
        assert_eq!(take(&dirs).unwrap().len(), 1);
        assert_eq!(dirs[0].read_dir().unwrap().count(), 0);
    }

    #[test]
    fn two_names_for_one_directory_are_no_two_daemons() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        symlink(&real, &link).unwrap();
        assert_eq!(take(&[real.clone(), link, real]).unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_opened_is_left_to_others_to_complain_about() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        File::create(&file).unwrap();
        assert!(take(&[file]).unwrap().is_empty());
    }
}

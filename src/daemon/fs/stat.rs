//! The type, the owner and the identity of a file, by statx(2).
//!
//! The standard library reads birth times only with glibc, but the static binary is linked with
//! musl. So the system call is made here, in the same way for both.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::stat::{SFlag, makedev};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;

use crate::watch::Identity;

/// A file's type, owner and identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) file_type: SFlag,
    pub(crate) identity: Identity,
    /// The id of the owner.
    pub(crate) uid: u32,
}

impl Stat {
    /// Examines the file at `path`, following symbolic links.
    pub(crate) fn of_path(path: &Path) -> io::Result<Self> {
        match statx(CWD, path, AtFlags::empty(), WANTED) {
            Err(Errno::NOSYS | Errno::PERM) => Ok(Self::from_metadata(&fs::metadata(path)?)),
            found => Ok(Self::from_statx(&found?)),
        }
    }

    /// Examines the file with this name in an open directory. Does not follow a symbolic link.
    pub(crate) fn of_name(dir: &fs::File, name: &Path) -> Option<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = statx(dir, name, flags, WANTED).ok()?;
        Some(Self::from_statx(&found))
    }

    /// Examines an open file.
    pub(crate) fn of(file: &fs::File) -> io::Result<Self> {
        match statx(file, c"", AtFlags::EMPTY_PATH, WANTED) {
            Err(Errno::NOSYS | Errno::PERM) => Ok(Self::from_metadata(&file.metadata()?)),
            found => Ok(Self::from_statx(&found?)),
        }
    }

    fn from_statx(found: &Statx) -> Self {
        let btime = if found.stx_mask & StatxFlags::BTIME.bits() != 0 {
            found.stx_btime
        } else {
            found.stx_mtime
        };
        Self {
            file_type: SFlag::from_bits_truncate(found.stx_mode.into()) & SFlag::S_IFMT,
            identity: Identity {
                device: makedev(found.stx_dev_major.into(), found.stx_dev_minor.into()),
                inode: found.stx_ino,
                btime: Identity::btime_of(btime.tv_sec, btime.tv_nsec),
            },
            uid: found.stx_uid,
        }
    }

    /// Converts the result of stat, which is used if statx is unavailable, because the kernel is
    /// older than Linux 4.11, or because a system call filter that predates statx denies the call.
    fn from_metadata(found: &fs::Metadata) -> Self {
        let nanoseconds = u32::try_from(found.mtime_nsec()).unwrap_or_default();
        Self {
            file_type: SFlag::from_bits_truncate(found.mode()) & SFlag::S_IFMT,
            identity: Identity {
                device: found.dev(),
                inode: found.ino(),
                btime: Identity::btime_of(found.mtime(), nanoseconds),
            },
            uid: found.uid(),
        }
    }
}

/// The fields that are requested from statx: those of type, owner and identity.
const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::UID)
    .union(StatxFlags::INO)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::BTIME);

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::UNIX_EPOCH;

    use nix::fcntl::AT_FDCWD;
    use nix::sys::stat::{UtimensatFlags, utimensat};
    use nix::sys::time::TimeSpec;

    use super::*;

    #[test]
    fn a_path_and_an_open_file_have_one_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        let stat = Stat::of_path(&path).unwrap();
        assert_eq!(Stat::of(&fs::File::open(&path).unwrap()).unwrap(), stat);
        let found = fs::metadata(&path).unwrap();
        let Identity { device, inode, .. } = stat.identity;
        assert_eq!((device, inode), (found.dev(), found.ino()));
        if let Ok(created) = found.created() {
            let since = created.duration_since(UNIX_EPOCH).unwrap();
            let expected = i64::try_from(since.as_nanos()).unwrap();
            assert_eq!(stat.identity.btime, expected);
        }
    }

    #[test]
    fn without_statx_the_type_of_a_file_is_found_too() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let _listener = UnixListener::bind(at("socket")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        std::os::unix::fs::symlink("socket", at("link")).unwrap();
        for (name, expected) in [
            ("socket", SFlag::S_IFSOCK),
            ("directory", SFlag::S_IFDIR),
            ("link", SFlag::S_IFLNK),
        ] {
            let found = Stat::from_metadata(&fs::symlink_metadata(at(name)).unwrap());
            assert_eq!(found.file_type, expected);
        }
    }

    #[test]
    fn a_socket_keeps_its_identity_when_its_times_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        if fs::metadata(&path).unwrap().created().is_err() {
            return; // The file system has no birth times: the identity has a modification time.
        }
        let before = Stat::of_path(&path).unwrap();
        let earlier = TimeSpec::new(1_000_000_000, 0);
        utimensat(
            AT_FDCWD,
            &path,
            &earlier,
            &earlier,
            UtimensatFlags::FollowSymlink,
        )
        .unwrap();
        assert_eq!(Stat::of_path(&path).unwrap(), before);
    }
}

//! Opens files that a plugin names, without waiting for a file system that does not answer.
//!
//! A plugin may create a symbolic link to any path, and report any path as its endpoint. If the
//! kernel resolves such a path as a whole, it may reach a FUSE mount whose process hangs, or an NFS
//! server that is down, and then the system call does not return. So, while there is such a mount,
//! the kernel resolves the path on one mount only (`RESOLVE_NO_XDEV`), and crosses to another mount
//! only by names in its lookup cache, without asking a file system (`RESOLVE_CACHED`): a socket on
//! which a process listens is always in the cache. The mount table then shows whether the file
//! system that was reached may hang. Magic links, the symbolic links on /proc that do not lead to
//! the path that they contain, are refused: they may lead to other mount namespaces, whose mounts
//! are not known.
//!
//! If `/proc` is not mounted, all file systems are assumed to answer. If openat2(2) is not
//! available (before Linux 5.6), no symbolic link is followed while a file system may not answer;
//! otherwise, magic links are followed, too, and `O_NOFOLLOW` applies only to the end of the path.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, SFlag};

use super::mounts::{Mounts, Table, open_named};
use super::stat::Stat;
use crate::escape;

/// The reason why a file is not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The path leads to a file system of this type, which may not answer.
    #[error(
        "the path leads to a file system that may not answer file_system={}",
        escape::text(.0)
    )]
    MayNotAnswer(String),
    /// The path leads through a symbolic link that is not followed, or to another mount by names
    /// that are not in the kernel's lookup cache.
    #[error(
        "the path leads through a symbolic link on /proc, or through links that cannot be followed \
         safely"
    )]
    Link,
    /// The system call failed.
    #[error("{0}")]
    System(io::Error),
}

/// Opens the file at `path` with `O_PATH`. If the path begins with a directory that the user named,
/// that part is followed wherever it leads. With `O_NOFOLLOW`, no symbolic link in the rest of the
/// path is followed; a link at its end is itself opened.
pub(crate) fn open_path(path: &Path, flags: OFlag, mounts: &Mounts) -> Result<File, OpenError> {
    let (start, rest) = match mounts.split_after_named_dir(path) {
        Some(split) => split,
        None => match path.strip_prefix("/") {
            Ok(rest) => (Path::new("/"), rest),
            Err(_) => (Path::new("."), path),
        },
    };
    if rest.as_os_str().is_empty() {
        mounts.start.take();
        return Ok(open_named(start)?);
    }
    let start = &*mounts.open_start(start)?;
    let table = mounts.load_table()?;
    let table = match &*table {
        Some(table) if table.any_may_hang => table,
        _ => {
            return match open_with_openat2(start, rest, flags, ResolveFlag::empty()) {
                Err(Errno::ENOSYS | Errno::EPERM) => {
                    Ok(openat(start, rest, PATH | flags, Mode::empty())?.into())
                }
                found => Ok(found?),
            };
        }
    };
    reject_hanging(table.hanging_file_system_above(path))?;
    match open_with_openat2(start, rest, flags, ResolveFlag::RESOLVE_NO_XDEV) {
        Err(Errno::EXDEV) => open_across_mounts(start, rest, flags, table),
        Err(Errno::ENOSYS | Errno::EPERM) => open_each_component(start, rest, flags, table),
        found => Ok(found?),
    }
}

/// Examines the file at `path`. Does not follow a symbolic link after a directory that the user
/// named. If every file system answers, a file in such a directory is not opened for this.
pub(crate) fn examine(path: &Path, mounts: &Mounts) -> Result<Stat, OpenError> {
    if let Some((dir, name)) = mounts.split_entry(path) {
        let dir = mounts.open_start(dir)?;
        let table = mounts.load_table()?;
        let may_hang = matches!(&*table, Some(table) if table.any_may_hang);
        if !may_hang {
            if let Some(found) = Stat::of_name(&dir, name) {
                return Ok(found);
            }
        }
    }
    Ok(Stat::of(&open_path(path, OFlag::O_NOFOLLOW, mounts)?)?)
}

/// Opens a path, relative to an open directory, that leads to another mount: first the part that is
/// in the kernel's lookup cache, without waiting, and then the rest, on the mount that was reached.
fn open_across_mounts(
    start: &File,
    rest: &Path,
    flags: OFlag,
    table: &Table,
) -> Result<File, OpenError> {
    for known in rest.ancestors() {
        match open_with_openat2(start, known, flags, CACHED) {
            Ok(reached) => {
                reject_hanging(table.hanging_file_system_at(&reached)?)?;
                let left = rest.strip_prefix(known).unwrap_or(rest);
                if left.as_os_str().is_empty() {
                    return Ok(reached);
                }
                return Ok(open_with_openat2(
                    &reached,
                    left,
                    flags,
                    ResolveFlag::RESOLVE_NO_XDEV,
                )?);
            }
            // The kernel is older than Linux 5.12.
            Err(Errno::EINVAL) => return open_each_component(start, rest, flags, table),
            Err(_) => {}
        }
    }
    Err(OpenError::Link)
}

/// Opens a path, relative to an open directory, component by component. Symbolic links are not
/// followed. Opening the root of a mount with `O_PATH` does not access its file system.
fn open_each_component(
    start: &File,
    rest: &Path,
    flags: OFlag,
    table: &Table,
) -> Result<File, OpenError> {
    let mut reached = start.try_clone()?;
    for name in rest {
        let found = Stat::of(&reached)?;
        if found.file_type == SFlag::S_IFLNK {
            return Err(OpenError::Link);
        }
        reached = openat(reached, name, PATH | OFlag::O_NOFOLLOW, Mode::empty())?.into();
        reject_hanging(table.hanging_file_system_at(&reached)?)?;
    }
    match Stat::of(&reached)?.file_type {
        SFlag::S_IFLNK if !flags.contains(OFlag::O_NOFOLLOW) => Err(OpenError::Link),
        _ => Ok(reached),
    }
}

fn open_with_openat2(
    start: &File,
    path: &Path,
    flags: OFlag,
    within: ResolveFlag,
) -> Result<File, Errno> {
    let links = match flags {
        OFlag::O_NOFOLLOW => ResolveFlag::RESOLVE_NO_SYMLINKS,
        _ => ResolveFlag::RESOLVE_NO_MAGICLINKS,
    };
    let how = OpenHow::new().flags(PATH | flags).resolve(links | within);
    openat2(start, path, how).map(File::from)
}

fn reject_hanging(hanging: Option<&str>) -> Result<(), OpenError> {
    match hanging {
        Some(file_system) => Err(OpenError::MayNotAnswer(file_system.to_owned())),
        None => Ok(()),
    }
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ELOOP | Errno::EXDEV => Self::Link,
            errno => Self::System(errno.into()),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// The flags with which every file is opened.
const PATH: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

/// openat2(2): `RESOLVE_CACHED` makes "the open operation fail unless all path components are
/// already present in the kernel's lookup cache" (Linux 5.12). The nix crate has no name for it.
const CACHED: ResolveFlag = ResolveFlag::from_bits_retain(0x20);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::path::PathBuf;

    use mio::Poll;

    use super::*;
    use crate::config::PathMap;
    use crate::time::Time;

    fn mounts(named: &[&Path]) -> Mounts {
        let registry = Poll::new().unwrap().registry().try_clone().unwrap();
        let named: Vec<PathBuf> = named.iter().map(|dir| (*dir).to_owned()).collect();
        Mounts::new(&named, &PathMap::default(), registry, Time::ZERO)
    }

    /// Returns a directory whose path is free of symbolic links.
    fn directory() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        (dir, real)
    }

    /// Opens a path in a directory in each of the four ways, without `O_NOFOLLOW`.
    fn open_in_all_ways(dir: &Path, path: &str) -> [Result<File, OpenError>; 4] {
        let (flags, mounts) = (OFlag::empty(), mounts(&[]));
        let table = mounts.load_table().unwrap();
        let table = table.as_ref().unwrap();
        let start = File::open(dir).unwrap();
        let rest = Path::new(path);
        let no_xdev = ResolveFlag::RESOLVE_NO_XDEV;
        [
            open_path(&dir.join(path), flags, &Mounts::default()),
            open_with_openat2(&start, rest, flags, no_xdev).map_err(OpenError::from),
            open_across_mounts(&start, rest, flags, table),
            open_each_component(&start, rest, flags, table),
        ]
    }

    fn inode(file: &File) -> (u64, u64) {
        let found = file.metadata().unwrap();
        (found.dev(), found.ino())
    }

    #[test]
    fn a_path_leads_to_the_file_that_the_kernel_finds_or_is_refused() {
        let (_dir, dir) = directory();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        fs::create_dir(dir.join("c")).unwrap();
        fs::write(dir.join("a/b/file"), "").unwrap();
        fs::write(dir.join("a/file"), "").unwrap();
        symlink("a/b", dir.join("relative")).unwrap();
        symlink("../a/b", dir.join("c/back")).unwrap();
        symlink("../../c/back/file", dir.join("a/b/link")).unwrap();
        symlink("c/back", dir.join("twice")).unwrap();
        for (path, has_links) in [
            ("a/b/file", false),
            ("a/../a/b/../file", false),
            ("relative/file", true),
            ("relative/../file", true),
            ("c/back/file", true),
            ("twice/link", true),
            ("twice", true),
            ("./twice/./file", true),
        ] {
            let expected = inode(&File::open(dir.join(path)).unwrap());
            let [whole, on_one_mount, across, each] = open_in_all_ways(&dir, path);
            for found in [whole, on_one_mount, across] {
                assert_eq!(inode(&found.unwrap()), expected, "{path}");
            }
            match each {
                Ok(found) => assert!(!has_links && inode(&found) == expected, "{path}"),
                Err(error) => assert!(has_links && matches!(error, OpenError::Link), "{path}"),
            }
        }
    }

    #[test]
    fn links_that_lead_nowhere_or_round_in_circles_are_errors() {
        let (_dir, dir) = directory();
        let at = |name: &str| dir.join(name);
        fs::write(at("file"), "").unwrap();
        symlink("nothing", at("to nothing")).unwrap();
        symlink("circle", at("circle")).unwrap();
        symlink("file/below", at("below a file")).unwrap();
        for (name, expected) in [
            ("to nothing", Some(Errno::ENOENT)),
            ("nothing", Some(Errno::ENOENT)),
            ("circle", None),
            ("below a file", Some(Errno::ENOTDIR)),
        ] {
            let [whole, on_one_mount, ..] = open_in_all_ways(&dir, name);
            for found in [whole, on_one_mount] {
                match found.unwrap_err() {
                    OpenError::System(error) => {
                        let errno = error.raw_os_error().map(Errno::from_raw);
                        assert_eq!(errno, expected, "{name}");
                    }
                    error => assert!(matches!(error, OpenError::Link) && expected.is_none()),
                }
            }
        }
    }

    #[test]
    fn a_link_at_the_end_is_opened_and_one_before_it_is_refused() {
        let (_dir, dir) = directory();
        fs::create_dir(dir.join("a")).unwrap();
        symlink("nothing", dir.join("a/link")).unwrap();
        symlink("a", dir.join("way")).unwrap();
        let mounts = mounts(&[&dir]);
        let open = |path| open_path(&dir.join(path), OFlag::O_NOFOLLOW, &mounts);
        let link = Stat::of(&open("a/link").unwrap()).unwrap();
        assert_eq!(link.file_type, SFlag::S_IFLNK);
        assert!(matches!(open("way/link"), Err(OpenError::Link)));
    }

    #[test]
    fn a_magic_link_is_refused_unless_the_user_named_it() {
        let (_dir, dir) = directory();
        fs::write(dir.join("file"), "").unwrap();
        let through = Path::new("/proc/self/root").join(dir.strip_prefix("/").unwrap());
        symlink(through.join("file"), dir.join("link")).unwrap();
        let open = |path: &Path, mounts: &Mounts| open_path(path, OFlag::empty(), mounts);
        for path in [through.join("file"), dir.join("link")] {
            let refused = open(&path, &mounts(&[]));
            assert!(matches!(refused, Err(OpenError::Link)), "{refused:?}");
        }
        let trusting = mounts(&[&through]);
        assert!(open(&through.join("file"), &trusting).is_ok());
        let refused = open(&dir.join("link"), &trusting);
        assert!(
            matches!(refused, Err(OpenError::Link)),
            "it is the plugin's"
        );
    }
}

//! Lists directories and examines paths.
//!
//! [`crate::watch`] decides what to do with the names that are found.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;

use super::mounts::Mounts;
use super::open_path::{OpenError, examine, open_path};
use super::own_file::create_plugins_dir;
use super::stat::Stat;
use crate::watch::{Cause, Entry, EntryKind, Listing, Place, Problem};
use crate::{config, escape};

/// Prepares a directory for being watched and listed. A missing root is created. A directory below
/// a root is opened, and returned to be watched and listed through the open file
/// ([`path_of_open_dir`]). Returns `None` for a root, and if the mounts are not known.
pub(crate) fn prepare(dir: &Path, place: Place, mounts: &Mounts) -> Result<Option<File>, Problem> {
    match place {
        Place::MissingRoot => create_dir(dir).map(|()| None),
        Place::Root => Ok(None),
        Place::Below => {
            let (opened, _) = open_directory(dir, OFlag::O_NOFOLLOW, mounts)?;
            Ok(Some(opened).filter(|_| mounts.is_known()))
        }
    }
}

/// Returns the kind of the file at a path below a root. A symbolic link counts only if it leads to
/// a socket. If a directory in the path was replaced by a link since it was listed, that link is
/// not followed.
pub(crate) fn examine_path(path: &Path, mounts: &Mounts) -> EntryKind {
    let kind = match examine(path, mounts) {
        Ok(found) => match found.file_type {
            SFlag::S_IFSOCK => Ok(EntryKind::Socket(found.identity)),
            SFlag::S_IFDIR => Ok(EntryKind::Directory),
            SFlag::S_IFLNK => examine_target(path, mounts),
            _ => Ok(EntryKind::Other),
        },
        Err(error) => Err(error),
    };
    match kind {
        Ok(kind) => kind,
        Err(OpenError::System(error)) => kind_after_error(path, &error),
        Err(error) => {
            log::debug!("{}: ignored: {error}", escape::path(path));
            EntryKind::Other
        }
    }
}

/// Returns the kind of a symbolic link.
fn examine_target(link: &Path, mounts: &Mounts) -> Result<EntryKind, OpenError> {
    let target = Stat::of(&open_path(link, OFlag::empty(), mounts)?)?;
    Ok(match target.file_type {
        SFlag::S_IFSOCK => EntryKind::Link(target.identity),
        _ => EntryKind::Other,
    })
}

/// Returns the kind of a path that cannot be examined: [`EntryKind::Other`] if the error proves
/// that the path does not lead to a file, else [`EntryKind::Unknown`].
fn kind_after_error(path: &Path, error: &io::Error) -> EntryKind {
    match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG => EntryKind::Other,
        _ => {
            let path = escape::path(path);
            log::debug!("{path}: cannot examine the file: {}", cause(error));
            EntryKind::Unknown
        }
    }
}

/// Converts an error of a system call to a [`Cause`]. The caller handles the errors that have a
/// special meaning for the call.
pub(crate) fn cause(error: &io::Error) -> Cause {
    match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::EACCES | Errno::EPERM => Cause::Denied,
        Errno::EROFS => Cause::ReadOnly,
        Errno::EMFILE | Errno::ENFILE => Cause::DescriptorsUsedUp,
        Errno::UnknownErrno => Cause::Other(error.to_string()),
        errno => Cause::Other(errno.desc().to_owned()),
    }
}

/// Creates a directory and those above it, unless they exist.
pub(crate) fn create_dir(dir: &Path) -> Result<(), Problem> {
    create_plugins_dir(dir).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Problem::NotADirectory,
        _ if is_absent(dir) => Problem::NotCreated(cause(&error)),
        // The directory may exist below one that cannot be searched now.
        _ => Problem::NotRead(cause(&error)),
    })
}

/// Returns whether it is certain that nothing exists at a path.
fn is_absent(path: &Path) -> bool {
    let error = fs::symlink_metadata(path).err();
    error.is_some_and(|it| matches!(it.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

/// Opens a directory with `O_PATH`. With `O_NOFOLLOW`, a symbolic link that has replaced the
/// directory, or one between it and its root, is not followed.
pub(crate) fn open_directory(
    dir: &Path,
    flags: OFlag,
    mounts: &Mounts,
) -> Result<(File, Stat), Problem> {
    let opened = open_path(dir, flags, mounts).map_err(|error| match error {
        OpenError::MayNotAnswer(file_system) => Problem::MayNotAnswer(file_system),
        OpenError::Link => Problem::NotADirectory,
        OpenError::System(error) => read_problem(&error),
    })?;
    let found = Stat::of(&opened).map_err(|error| read_problem(&error))?;
    match found.file_type {
        SFlag::S_IFDIR => Ok((opened, found)),
        _ => Err(Problem::NotADirectory),
    }
}

/// Returns a path that leads to an open directory, even if the directory is moved. The path does
/// not end in a symbolic link.
pub(crate) fn path_of_open_dir(held: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/.", held.as_raw_fd()))
}

/// Lists an existing directory through the path `at`, which leads to the same directory. Reads at
/// most [`config::MAX_NAMES`] names, and examines at most [`config::MAX_EXAMINED_NAMES`].
pub(crate) fn list(dir: &Path, at: &Path, mounts: &Mounts) -> Result<Listing, Problem> {
    let mut listing = Listing {
        entries: Vec::new(),
        is_cut: false,
        unreported: mounts.unreporting_file_system(dir),
    };
    let mut examined = 0;
    let mut path = dir.join("").into_os_string().into_vec();
    let dir_len = path.len();
    let opened = fs::read_dir(at).map_err(|error| read_problem(&error))?;
    for (count, entry) in opened.enumerate() {
        if count >= config::MAX_NAMES || examined >= config::MAX_EXAMINED_NAMES {
            listing.is_cut = true;
            break;
        }
        let entry = entry.map_err(|error| read_problem(&error))?;
        let name = entry.file_name();
        path.truncate(dir_len);
        path.extend_from_slice(name.as_bytes());
        let path = Path::new(OsStr::from_bytes(&path));
        let kind = match entry.file_type() {
            // getdents64(2) usually returns the type of an entry, so a directory is not examined.
            Ok(found) if found.is_dir() => EntryKind::Directory,
            Ok(found) if found.is_socket() || found.is_symlink() => {
                examined += 1 + usize::from(found.is_symlink());
                examine_path(path, mounts)
            }
            Ok(_) => EntryKind::Other,
            Err(error) => kind_after_error(path, &error),
        };
        // Other kinds of file are listed only for the debug log.
        if kind != EntryKind::Other || log::log_enabled!(log::Level::Debug) {
            listing.entries.push(Entry { name, kind });
        }
    }
    Ok(listing)
}

fn read_problem(error: &io::Error) -> Problem {
    match error.kind() {
        ErrorKind::NotFound => Problem::Missing,
        ErrorKind::NotADirectory => Problem::NotADirectory,
        _ => Problem::NotRead(cause(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Lists a whole directory.
    fn list(dir: &Path) -> Result<Listing, Problem> {
        super::list(dir, dir, &Mounts::default())
    }

    #[test]
    fn the_kind_of_every_directory_entry_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let _listener = UnixListener::bind(at("socket")).unwrap();
        fs::write(at("file"), "").unwrap();
        fs::create_dir(at("directory")).unwrap();
        symlink(at("socket"), at("link")).unwrap();
        symlink(at("directory"), at("link to a directory")).unwrap();
        symlink(at("nowhere"), at("link to nothing")).unwrap();

        let mut listing = list(dir.path()).unwrap();
        listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
        let socket = examine_path(&at("socket"), &Mounts::default());
        let EntryKind::Socket(identity) = socket else {
            panic!("{socket:?}");
        };
        let entry = |name: &str, kind| Entry {
            name: name.into(),
            kind,
        };
        assert_eq!(
            listing.entries,
            [
                entry("directory", EntryKind::Directory),
                entry("link", EntryKind::Link(identity)),
                entry("socket", socket)
            ]
        );
        assert!(!listing.is_cut);
        for nothing in ["file", "link to a directory", "link to nothing", "nowhere"] {
            assert_eq!(
                examine_path(&at(nothing), &Mounts::default()),
                EntryKind::Other,
                "{nothing}"
            );
        }
    }

    #[test]
    fn a_socket_whose_mode_changes_stays_the_same_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let before = examine_path(&path, &Mounts::default());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(examine_path(&path, &Mounts::default()), before);
    }

    #[test]
    fn a_directory_is_listed_up_to_its_limits() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let sub = at("sub");
        fs::create_dir(&sub).unwrap();
        for n in 0..config::MAX_EXAMINED_NAMES / 2 {
            symlink("/", sub.join(n.to_string())).unwrap();
        }
        assert!(!list(&sub).unwrap().is_cut);
        symlink("/", sub.join("more")).unwrap();
        assert!(list(&sub).unwrap().is_cut);

        for n in 1..config::MAX_NAMES {
            fs::write(at(&n.to_string()), "").unwrap();
        }
        assert!(!list(dir.path()).unwrap().is_cut);
        fs::write(at("more"), "").unwrap();
        assert!(list(dir.path()).unwrap().is_cut);
    }

    #[test]
    fn a_missing_directory_is_created_with_those_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("a/b");
        create_dir(&nested).unwrap();
        create_dir(&nested).unwrap();
        let mode = fs::metadata(&nested).unwrap().mode() & 0o777;
        assert_eq!(mode & !0o750, 0, "{mode:o}");
    }

    #[test]
    fn problems_with_a_directory_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(create_dir(&file), Err(Problem::NotADirectory));
        let too_long = dir.path().join("n".repeat(300));
        let unknown = create_dir(&too_long);
        assert!(matches!(unknown, Err(Problem::NotRead(_))), "{unknown:?}");
        let below = create_dir(&file.join("below"));
        assert!(matches!(below, Err(Problem::NotCreated(_))), "{below:?}");
        assert_eq!(list(&file), Err(Problem::NotADirectory));
        assert_eq!(list(&dir.path().join("none")), Err(Problem::Missing));
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        assert_eq!(
            open_directory(&link, OFlag::O_NOFOLLOW, &Mounts::default()).map(drop),
            Err(Problem::NotADirectory)
        );
    }
}

//! Lists directories and examines paths.
//!
//! Does not judge what is found: [`crate::watch`] decides which names count.

use std::fs::{self, DirBuilder, DirEntry, File, ReadDir};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::errno::Errno;
use rustix::fs::FileType;

use super::hold::{self, HoldError};
use super::mounts::Mounts;
use super::stat::Stat;
use crate::watch::{Cause, Entry, EntryKind, Listing, Place, Problem, Rest};
use crate::{config, escape};

/// Prepares a directory for being watched and listed. A missing root is created. Returns the
/// directory as an open file if a file system may not answer.
pub(super) fn prepare(dir: &Path, place: Place, mounts: &Mounts) -> Result<Option<File>, Problem> {
    match place {
        Place::MissingRoot => create(dir).map(|()| None),
        Place::Root => Ok(None),
        Place::Below => hold_directory(dir, mounts),
    }
}

/// Examines a path below a root; if it is a symbolic link, its target. Adds the number of names
/// that were opened to follow the link to `steps`.
pub(super) fn examine_path(path: &Path, mounts: &Mounts, steps: &mut usize) -> EntryKind {
    match examine(path, mounts) {
        Ok(found) if found.file_type == FileType::Symlink => target_of(path, mounts, steps),
        Ok(found) => found.kind(),
        Err(HoldError::System(error)) => unexamined(path, &error),
        Err(error) => refused(path, &error),
    }
}

/// Examines a path below a root without following a symbolic link at its end.
///
/// A directory on the way may have been replaced by a symbolic link that the watch has not seen
/// yet. That is harmless while all file systems answer: the watch sees the link next.
fn examine(path: &Path, mounts: &Mounts) -> Result<Stat, HoldError> {
    if mounts.all_answer() {
        may_answer(path, mounts)?;
        return Ok(Stat::no_follow(path)?);
    }
    Ok(Stat::of(&hold::hold_below_root(path, mounts)?)?)
}

/// Examines the target of a symbolic link. Only a socket counts: a link to a directory is not
/// followed.
fn target_of(link: &Path, mounts: &Mounts, steps: &mut usize) -> EntryKind {
    if !mounts.is_known() {
        return target(link, Stat::follow(link));
    }
    match hold::hold_counting(link, mounts, steps) {
        Ok(held) => target(link, Stat::of(&held)),
        Err(HoldError::System(error)) => unexamined(link, &error),
        Err(error) => refused(link, &error),
    }
}

fn target(link: &Path, examined: io::Result<Stat>) -> EntryKind {
    match examined {
        Ok(target) if target.is_socket() => EntryKind::Link(target.identity),
        Ok(_) => EntryKind::Other,
        Err(error) => unexamined(link, &error),
    }
}

/// Logs why a path is not examined. Returns [`EntryKind::Other`].
fn refused(path: &Path, error: &HoldError) -> EntryKind {
    log::debug!("{}: ignored: {error}", escape::path(path));
    EntryKind::Other
}

/// Returns the kind of a path that cannot be examined: [`EntryKind::Other`] if the error proves
/// that there is nothing at the path, or [`EntryKind::Unknown`], because other errors do not show
/// what the file is.
fn unexamined(path: &Path, error: &io::Error) -> EntryKind {
    match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG => EntryKind::Other,
        _ => {
            let path = escape::path(path);
            log::debug!("{path}: cannot examine the file: {}", cause(error));
            EntryKind::Unknown
        }
    }
}

/// Returns the obstacle behind an error that does not have a special meaning for its system call.
pub(super) fn cause(error: &io::Error) -> Cause {
    match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::EACCES | Errno::EPERM => Cause::Denied,
        Errno::EROFS => Cause::ReadOnly,
        Errno::EMFILE | Errno::ENFILE => Cause::DescriptorsUsedUp,
        Errno::UnknownErrno => Cause::Other(error.to_string()),
        errno => Cause::Other(errno.desc().to_owned()),
    }
}

/// Creates a directory and those above it, unless they exist.
pub(super) fn create(dir: &Path) -> Result<(), Problem> {
    let created = DirBuilder::new().recursive(true).mode(MODE).create(dir);
    created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Problem::NotADirectory,
        _ if is_absent(dir) => Problem::NotCreated(cause(&error)),
        // The directory may exist below one that cannot be searched now.
        _ => Problem::NotRead(cause(&error)),
    })
}

/// Returns whether it is certain that nothing exists at a path.
fn is_absent(path: &Path) -> bool {
    let error = fs::symlink_metadata(path).err();
    error.is_some_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
    })
}

/// Checks that a path is a directory, and not a symbolic link to one.
fn is_directory_itself(dir: &Path) -> Result<(), Problem> {
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Problem::NotADirectory),
        Err(error) => Err(cannot_read(&error)),
    }
}

/// Checks that a path below a root is a directory itself. Returns the directory as an open file if
/// a file system may not answer: then a symbolic link that replaces the directory, or one above it,
/// is not followed from now on.
fn hold_directory(dir: &Path, mounts: &Mounts) -> Result<Option<File>, Problem> {
    if mounts.all_answer() {
        may_answer(dir, mounts).map_err(|error| cannot_hold(&error))?;
        return is_directory_itself(dir).map(|()| None);
    }
    let held = hold::hold_below_root(dir, mounts).map_err(|error| cannot_hold(&error))?;
    let found = Stat::of(&held).map_err(|error| cannot_read(&error))?;
    match found.file_type {
        FileType::Directory => Ok(Some(held)),
        _ => Err(Problem::NotADirectory),
    }
}

/// Returns the problem with a directory that cannot be opened.
pub(super) fn cannot_hold(error: &HoldError) -> Problem {
    match error {
        HoldError::MayNotAnswer(file_system) => Problem::MayNotAnswer(file_system.clone()),
        HoldError::MagicLink | HoldError::LeadsOut => Problem::NotADirectory,
        HoldError::System(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
            Problem::NotADirectory // A directory above it is a symbolic link by now.
        }
        HoldError::System(error) => cannot_read(error),
    }
}

/// Fails if a path below a root is on a file system that may not answer. The path itself is not
/// touched.
fn may_answer(path: &Path, mounts: &Mounts) -> Result<(), HoldError> {
    match mounts.remote_below_root(path) {
        Some(file_system) => Err(HoldError::MayNotAnswer(file_system.to_owned())),
        None => Ok(()),
    }
}

/// Returns a path that leads to an open directory wherever the directory is moved. The path does
/// not end in a symbolic link.
pub(super) fn within(held: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/.", held.as_raw_fd()))
}

/// Lists an existing directory to the end, or until the budget of `names` is used up: the number of
/// names that may still be opened, one more piece included. The listing then has a rest that is
/// ignored.
pub(super) fn list(
    dir: &Path,
    place: Place,
    mounts: &Mounts,
    names: &mut usize,
) -> Result<Listing, Problem> {
    let held = prepare(dir, place, mounts)?;
    let mut open = Names::open(dir, held)?;
    let mut listed = open.next_piece(None, mounts)?;
    while listed.rest == Rest::Follows && open.cost() < *names {
        let piece = open.next_piece(None, mounts)?;
        listed.entries.extend(piece.entries);
        listed.rest = piece.rest;
    }
    *names = names.saturating_sub(open.cost());
    if listed.rest == Rest::Follows {
        listed.rest = Rest::Ignored;
    }
    Ok(listed)
}

/// The names in a directory, read piece by piece.
#[derive(Debug)]
pub(super) struct Names {
    /// The path of the directory; `listed` may have been opened by a path on /proc.
    dir: PathBuf,
    /// The path of the name that is being examined, in `dir`.
    path: PathBuf,
    listed: ReadDir,
    /// Keeps the path on /proc valid: for some file systems, the standard library uses it to find
    /// the type of an entry.
    _held: Option<File>,
    /// The number of names that were read.
    count: usize,
    /// The number of names that were opened to follow symbolic links.
    steps: usize,
}

impl Names {
    /// Opens a directory, through `held` if the directory is open already.
    pub(super) fn open(dir: &Path, held: Option<File>) -> Result<Self, Problem> {
        let opened = match &held {
            Some(held) => fs::read_dir(within(held)),
            None => fs::read_dir(dir),
        };
        Ok(Self {
            dir: dir.into(),
            path: PathBuf::new(),
            listed: opened.map_err(|error| cannot_read(&error))?,
            _held: held,
            count: 0,
            steps: 0,
        })
    }

    /// Returns how many names were read, plus those opened to follow symbolic links.
    pub(super) fn cost(&self) -> usize {
        self.count + self.steps
    }

    /// Reads and examines the next names: up to [`config::LISTED_AT_ONCE`], fewer if symbolic links
    /// take many steps or `until` has passed, but at least one.
    pub(super) fn next_piece(
        &mut self,
        until: Option<Instant>,
        mounts: &Mounts,
    ) -> Result<Listing, Problem> {
        let mut entries = Vec::new();
        let start = self.cost();
        while self.cost() < start + config::LISTED_AT_ONCE {
            // A single name may take as long as other processes hold the lock of the directory.
            let is_over = until.is_some_and(|until| until <= Instant::now());
            if is_over && self.cost() > start {
                break;
            }
            let Some(entry) = self.listed.next() else {
                return Ok(piece(entries, Rest::None));
            };
            if self.count == config::MAX_NAMES {
                return Ok(piece(entries, Rest::Ignored));
            }
            self.count += 1;
            let entry = entry.map_err(|error| cannot_read(&error))?;
            let name = entry.file_name();
            self.path.clone_from(&self.dir);
            self.path.push(&name);
            let kind = kind_of(&entry, &self.path, mounts, &mut self.steps);
            // Files that do not count matter only to the log.
            if kind != EntryKind::Other || log::log_enabled!(log::Level::Debug) {
                entries.push(Entry { name, kind });
            }
        }
        Ok(piece(entries, Rest::Follows))
    }
}

/// Returns a piece of a listing.
pub(super) fn piece(entries: Vec<Entry>, rest: Rest) -> Listing {
    Listing {
        entries,
        rest,
        unreported: None,
    }
}

/// Returns the kind of a directory entry. The file system is asked only about possible sockets: the
/// directory itself contains the type of each entry.
fn kind_of(entry: &DirEntry, path: &Path, mounts: &Mounts, steps: &mut usize) -> EntryKind {
    match entry.file_type() {
        Ok(found) if found.is_dir() => EntryKind::Directory,
        Ok(found) if found.is_socket() || found.is_symlink() => examine_path(path, mounts, steps),
        Ok(_) => EntryKind::Other,
        Err(error) => unexamined(path, &error),
    }
}

fn cannot_read(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::NotFound => Problem::Missing,
        io::ErrorKind::NotADirectory => Problem::NotADirectory,
        _ => Problem::NotRead(cause(error)),
    }
}

/// The mode of a plugins directory that is created here (kubelet's root set-up: the same).
const MODE: u32 = 0o750;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use mio::Poll;

    use super::*;
    use crate::time::Time;

    /// Lists a whole directory.
    fn list(dir: &Path) -> Result<Listing, Problem> {
        super::list(
            dir,
            Place::Root,
            &Mounts::default(),
            &mut usize::MAX.clone(),
        )
    }

    #[test]
    fn the_kind_of_everything_in_a_directory_is_told() {
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
        let socket = examine_path(&at("socket"), &Mounts::default(), &mut 0);
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
        assert_eq!(listing.rest, Rest::None);
        for nothing in ["file", "link to a directory", "link to nothing", "nowhere"] {
            assert_eq!(
                examine_path(&at(nothing), &Mounts::default(), &mut 0),
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
        let before = examine_path(&path, &Mounts::default(), &mut 0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(examine_path(&path, &Mounts::default(), &mut 0), before);
    }

    #[test]
    fn a_large_directory_is_listed_in_pieces_that_hold_each_name_once() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..600).map(|n| format!("{n:03}")).collect();
        for name in &names {
            symlink("/", dir.path().join(name)).unwrap();
            fs::create_dir(dir.path().join(format!("d{name}"))).unwrap();
        }
        let mut open = Names::open(dir.path(), None).unwrap();
        let (mut seen, mut lengths) = (Vec::new(), Vec::new());
        loop {
            let before = open.count;
            let piece = open.next_piece(None, &Mounts::default()).unwrap();
            lengths.push(open.count - before);
            seen.extend(
                piece
                    .entries
                    .into_iter()
                    .filter(|it| it.kind == EntryKind::Directory),
            );
            if piece.rest == Rest::None {
                break;
            }
            assert_eq!(piece.rest, Rest::Follows);
        }
        seen.sort_by(|a, b| a.name.cmp(&b.name));
        let expected = names.iter().map(|name| format!("d{name}"));
        assert!(seen.iter().map(|it| it.name.to_str().unwrap()).eq(expected));
        let (last, others) = lengths.split_last().unwrap();
        assert!(others.iter().all(|it| *it == config::LISTED_AT_ONCE));
        assert_eq!(*last, 1200 % config::LISTED_AT_ONCE);
        let mut hurried = Names::open(dir.path(), None).unwrap();
        let rest = hurried
            .next_piece(Some(Instant::now()), &Mounts::default())
            .unwrap()
            .rest;
        assert_eq!((hurried.count, rest), (1, Rest::Follows));
        let mut whole = list(dir.path()).unwrap();
        whole.entries.retain(|it| it.kind == EntryKind::Directory);
        assert_eq!((whole.entries.len(), whole.rest), (600, Rest::None));
    }

    #[test]
    fn a_piece_ends_with_the_links_that_take_many_steps() {
        let dir = tempfile::tempdir().unwrap();
        let deep = "d/".repeat(40);
        fs::create_dir_all(dir.path().join(".deep").join(&deep)).unwrap();
        let linking = dir.path().join("linking");
        fs::create_dir(&linking).unwrap();
        for name in ["a", "b", "c", "d", "e"] {
            let target = Path::new("../.deep").join(&deep).join("a.sock");
            symlink(target, linking.join(name)).unwrap();
        }
        let registry = Poll::new().unwrap().registry().try_clone().unwrap();
        let roots = [linking.clone()];
        let mounts = Mounts::new(&roots, [].into_iter(), registry, Time::ZERO);
        for (until, expected) in [(None, [2, 4, 5]), (Some(Instant::now()), [1, 2, 3])] {
            let mut names = Names::open(&linking, None).unwrap();
            let counts = [(); 3].map(|()| {
                names.next_piece(until, &mounts).unwrap();
                names.count
            });
            assert_eq!(counts, expected);
            assert!(names.cost() > 40 * names.count);
        }
    }

    #[test]
    fn a_missing_directory_is_created_with_those_above_it_and_is_not_open_to_all() {
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("a/b");
        create(&nested).unwrap();
        create(&nested).unwrap();
        let mode = fs::metadata(&nested).unwrap().mode() & 0o777;
        assert_eq!(mode & !MODE, 0, "{mode:o}");
    }

    #[test]
    fn what_is_wrong_with_a_directory_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(create(&file), Err(Problem::NotADirectory));
        let too_long = dir.path().join("n".repeat(300));
        let unknown = create(&too_long);
        assert!(matches!(unknown, Err(Problem::NotRead(_))), "{unknown:?}");
        let below = create(&file.join("below"));
        assert!(matches!(below, Err(Problem::NotCreated(_))), "{below:?}");
        assert_eq!(list(&file), Err(Problem::NotADirectory));
        assert_eq!(list(&dir.path().join("none")), Err(Problem::Missing));
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        assert_eq!(is_directory_itself(&link), Err(Problem::NotADirectory));
    }
}

//! The mount table, read at the start and after changes.
//!
//! The kernel reports a change of the mounts on `/proc/self/mountinfo` as a priority event
//! (proc_pid_mounts(5)). The table is then read again, at most once in [`config::MOUNTS_INTERVAL`],
//! and in pieces if it is long. Between the event and the read, changes are not polled: a node that
//! mounts all the time causes one wakeup and one read per interval, and a node that does not mount
//! causes none.
//!
//! The kernel reports a change once to each open file, in the first system call that polls the
//! file. That may be a call on the loop's own descriptor, by a caller with another loop, which does
//! not return what made the loop ready. So the file is open twice: such a call stops at the first
//! descriptor that is ready, and leaves the second one to the loop. A third descriptor is polled
//! directly when a path leads onto another mount ([`Mounts::check_entered`]): the table may be
//! older than the mount, and even then a file system that does not answer must not be entered.

mod now;
mod table;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::{Path, PathBuf};

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::table::{Builder, Root, Table};
use super::source::Source;
use crate::config;
use crate::time::Time;

/// The mounts that are visible to this process, as far as they matter. By default none are known.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    roots: Vec<Root>,
    /// Other directories that the user named.
    mapped: Vec<Root>,
    table: Table,
    /// The descriptors that report changes; `None` if `/proc` is not mounted, or could not be
    /// opened yet.
    polled: Option<Polled>,
    /// The registry of the loop for these descriptors.
    registry: Option<Registry>,
    /// Whether the table has ever been read.
    is_read: bool,
    /// Whether the table must be read again.
    is_changed: bool,
    /// Whether the kernel has reported a change that the loop has not reported yet.
    is_outdated: Cell<bool>,
    /// The time before which the table is not read again.
    read_after: Time,
    /// The table that is being read, and the lines that are left.
    reading: Option<(Builder, BufReader<File>)>,
    /// Whether the table was opened since the last [`Mounts::take_is_opened`].
    is_opened: bool,
}

impl Mounts {
    /// Reads the table for these roots. `mapped` are other directories that the user named.
    pub(super) fn new<'a>(
        roots: &[PathBuf],
        mapped: impl Iterator<Item = &'a Path>,
        registry: Registry,
        now: Time,
    ) -> Self {
        let mut mounts = Self {
            roots: roots.iter().map(|named| Root::new(named)).collect(),
            mapped: mapped.map(Root::new).collect(),
            table: Table::default(),
            polled: None,
            registry: Some(registry),
            is_read: false,
            is_changed: true,
            is_outdated: Cell::new(false),
            read_after: now,
            reading: None,
            is_opened: false,
        };
        mounts.read_pieces(usize::MAX, now);
        mounts
    }

    /// Replaces the other directories that the user named. [`Mounts::set_roots`] has to follow.
    pub(super) fn set_mapped<'a>(&mut self, mapped: impl Iterator<Item = &'a Path>) {
        self.mapped = mapped.map(Root::new).collect();
    }

    /// Replaces the roots, and reads the table again for the new ones: a long table only in part,
    /// and the rest in the next turns. Returns the roots to scan again.
    pub(super) fn set_roots(&mut self, roots: &[PathBuf], now: Time) -> Vec<PathBuf> {
        let before = std::mem::take(&mut self.roots);
        let place = |named: &PathBuf| before.iter().position(|root| root.named == *named);
        let places: Vec<_> = roots.iter().map(place).collect();
        let resolved = roots.iter().zip(&places);
        self.roots = resolved
            .map(|(named, place)| place.map_or_else(|| Root::new(named), |at| before[at].clone()))
            .collect();
        self.table.set_roots(&places);
        // A table that is being read is for the roots before.
        (self.reading, self.is_changed) = (None, true);
        self.read_after = now;
        self.read_pieces(PIECES, now)
    }

    /// Reads up to `most` pieces of the table. Returns the roots to scan again.
    fn read_pieces(&mut self, most: usize, now: Time) -> Vec<PathBuf> {
        let mut changed = self.advance(now);
        for _ in 1..most {
            if self.reading.is_none() {
                break;
            }
            changed = self.advance(now);
        }
        changed
    }

    /// Records that the kernel has reported a change.
    pub(super) fn report(&mut self) {
        self.is_changed = true;
        if let Some(polled) = &mut self.polled {
            polled.deregister();
        }
    }

    /// Returns when to call [`Mounts::advance`], or `None` until a change is reported.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if self.reading.is_some() {
            return Some(Time::ZERO);
        }
        self.is_changed.then_some(self.read_after)
    }

    /// Reads the table, or a part of it, if that is due. Returns the roots to scan again, because a
    /// mount above, at or below them was added or removed.
    pub(super) fn advance(&mut self, now: Time) -> Vec<PathBuf> {
        if self.reading.is_none() && self.is_changed && self.read_after <= now {
            self.read_after = now + config::MOUNTS_INTERVAL;
            match self.begin() {
                Ok(reading) => self.reading = Some(reading),
                Err(error) => {
                    log::debug!("cannot read {MOUNTINFO}: {error}");
                    // Without /proc the table can never be read; any other error may pass.
                    let is_missing = error.kind() == io::ErrorKind::NotFound;
                    self.is_changed = self.polled.is_some() || !is_missing;
                }
            }
        }
        let Some((mut builder, mut lines)) = self.reading.take() else {
            return Vec::new();
        };
        match read_some(&mut builder, &mut lines) {
            Ok(true) => self.replace(builder.finish()),
            Ok(false) => {
                self.reading = Some((builder, lines));
                Vec::new()
            }
            Err(error) => {
                log::debug!("cannot read {MOUNTINFO}: {error}");
                self.is_changed = true;
                Vec::new()
            }
        }
    }

    /// Starts to poll for changes again and then opens the table, in this order, so that no change
    /// is missed.
    fn begin(&mut self) -> io::Result<(Builder, BufReader<File>)> {
        if let (None, Some(registry)) = (&self.polled, &self.registry) {
            self.polled = Some(Polled::open(registry)?);
        }
        if let Some(polled) = &mut self.polled {
            polled.register()?;
            polled.has_changed();
        }
        self.is_outdated.set(false);
        let lines = BufReader::with_capacity(BUFFER, File::open(MOUNTINFO)?);
        self.is_changed = false;
        self.is_opened = true;
        Ok((Builder::new(self.roots.clone()), lines))
    }

    /// Returns whether the table was opened since the last call: changes are polled again, so a
    /// path that is examined now leads elsewhere only after a change that is reported.
    pub(super) fn take_is_opened(&mut self) -> bool {
        std::mem::take(&mut self.is_opened)
    }

    fn replace(&mut self, table: Table) -> Vec<PathBuf> {
        self.is_read = true;
        let before = std::mem::replace(&mut self.table, table);
        let differing = self.table.differing(&before).into_iter();
        differing.map(|at| self.roots[at].named.clone()).collect()
    }

    /// Prepares for a scan of a directory. If it is a root, symbolic links in its path may lead
    /// elsewhere by now, so the path is resolved again.
    pub(super) fn scanning(&mut self, dir: &Path) {
        let Some(root) = self.roots.iter_mut().find(|root| root.named == *dir) else {
            return;
        };
        let now = Root::new(dir);
        if now.real != root.real {
            *root = now;
            self.is_changed |= self.polled.is_some();
        }
    }

    /// Returns the type of the file system of a directory below a root, if that file system does
    /// not report all changes to inotify. An unknown file system is assumed to report them.
    pub(super) fn unreported(&self, dir: &Path) -> Option<String> {
        let silent = self.table.unreported(dir, &self.roots);
        silent.map(str::to_owned)
    }

    /// Returns the type of the innermost file system on the way to a path below a root that may not
    /// answer. The way from the root to the path must be free of symbolic links.
    pub(super) fn remote_below_root(&self, path: &Path) -> Option<&str> {
        if self.table.is_empty() {
            return None;
        }
        let (root, _) = self.root_of(path)?;
        self.table.remote_on_the_way(&root.real_path(path)?)
    }

    /// Returns the path of a directory below a root with the root's symbolic links resolved, or
    /// `None` if the directory is below none.
    pub(super) fn real_path(&self, dir: &Path) -> Option<PathBuf> {
        self.root_of(dir)?.0.real_path(dir)
    }

    /// Returns the root that a path lies below (the longest if there are several), and the rest of
    /// the path.
    pub(super) fn root_of<'a>(&self, path: &'a Path) -> Option<(&Root, &'a Path)> {
        longest(self.roots.iter(), path)
    }

    /// Returns the type of the innermost file system on the way to `path` that may not answer. The
    /// path must be free of symbolic links and of `..`.
    pub(super) fn remote_on_the_way(&self, path: &Path) -> Option<&str> {
        self.table.remote_on_the_way(path)
    }

    /// Returns the type of the file system that is mounted at `path`, if that file system may not
    /// answer. The path must be free of symbolic links and of `..`.
    pub(super) fn remote_at(&self, path: &Path) -> Option<&str> {
        self.table.remote_at(path)
    }

    /// Returns the type of the file system that was entered by opening a file at `path`, if that
    /// file system may not answer. The path must be free of symbolic links and of `..`. The file
    /// system itself is not accessed.
    ///
    /// If the table is older than a change, the kernel is asked what is mounted now. Fails with
    /// `EAGAIN` if that cannot be found out.
    pub(super) fn check_entered(&self, file: impl AsFd, path: &Path) -> io::Result<Option<String>> {
        if self.is_current() {
            return Ok(self.remote_at(path).map(str::to_owned));
        }
        now::remote(file, &self.roots)
    }

    /// Returns whether no mount has changed since the table was read. Takes one system call.
    pub(super) fn is_current(&self) -> bool {
        let Some(polled) = &self.polled else {
            return true; // Nothing is known of the mounts.
        };
        if !self.is_outdated() && polled.has_changed() {
            self.is_outdated.set(true);
        }
        !self.is_outdated()
    }

    /// Returns whether the table is known to be older than a change.
    fn is_outdated(&self) -> bool {
        let is_due = self.is_changed || self.reading.is_some() || self.is_outdated.get();
        self.polled.is_some() && is_due
    }

    /// Returns whether all file systems answer, so that the kernel may resolve a path that was
    /// examined a moment ago: even if the path leads elsewhere by now, the system call returns. If
    /// nothing is known of the mounts, all are assumed to answer.
    pub(super) fn all_answer(&self) -> bool {
        self.table.has_no_remote() && !self.is_outdated()
    }

    /// Returns whether the table is known, or will be soon. If not, `/proc` is not mounted.
    pub(super) fn is_known(&self) -> bool {
        self.polled.is_some() || self.is_unread()
    }

    /// Returns whether the table could not be read at the start and will be read soon. Until then,
    /// symbolic links are not followed.
    pub(super) fn is_unread(&self) -> bool {
        !self.is_read && (self.is_changed || self.reading.is_some())
    }

    /// Returns the longest directory that the user named and that `path` begins with, and the rest
    /// of `path`. The way to such a directory is the user's decision.
    pub(super) fn trusted_part<'a>(&self, path: &'a Path) -> Option<(&Root, &'a Path)> {
        longest(self.roots.iter().chain(&self.mapped), path)
    }
}

/// Returns the longest of the named paths that `path` begins with, and the rest of `path`.
fn longest<'m, 'p>(
    named: impl Iterator<Item = &'m Root>,
    path: &'p Path,
) -> Option<(&'m Root, &'p Path)> {
    let begins = named.filter_map(|it| Some((it, path.strip_prefix(&it.named).ok()?)));
    begins.max_by_key(|(it, _)| it.named.as_os_str().len())
}

/// The descriptors that report changes.
#[derive(Debug)]
struct Polled {
    files: [File; 2],
    /// The descriptor that is polled directly, not by the loop.
    asked: File,
    registry: Registry,
    is_registered: bool,
}

impl Polled {
    fn open(registry: &Registry) -> io::Result<Self> {
        Ok(Self {
            files: [File::open(MOUNTINFO)?, File::open(MOUNTINFO)?],
            asked: File::open(MOUNTINFO)?,
            registry: registry.try_clone()?,
            is_registered: false,
        })
    }

    fn register(&mut self) -> io::Result<()> {
        for file in self.files.iter().filter(|_| !self.is_registered) {
            let (fd, token) = (file.as_raw_fd(), Source::Mounts.token());
            let mut source = SourceFd(&fd);
            let registered = self
                .registry
                .register(&mut source, token, Interest::PRIORITY);
            registered.or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Ok(()), // The last attempt got that far.
                _ => Err(error),
            })?;
        }
        self.is_registered = true;
        Ok(())
    }

    /// Returns whether the kernel reports a change since the last call. A failed poll counts as a
    /// change.
    fn has_changed(&self) -> bool {
        let mut polled = [PollFd::new(self.asked.as_fd(), PollFlags::POLLPRI)];
        poll(&mut polled, PollTimeout::ZERO) != Ok(0)
    }

    fn deregister(&mut self) {
        for file in self.files.iter().filter(|_| self.is_registered) {
            let fd = file.as_raw_fd();
            if let Err(error) = self.registry.deregister(&mut SourceFd(&fd)) {
                log::debug!("cannot stop watching {MOUNTINFO}: {error}");
            }
        }
        self.is_registered = false;
    }
}

/// Reads as many lines as one turn may take. Returns whether the last line has been read.
fn read_some(builder: &mut Builder, lines: &mut BufReader<File>) -> io::Result<bool> {
    let mut line = Vec::new();
    for _ in 0..LINES {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(true);
        }
        builder.add(line.trim_ascii_end());
    }
    Ok(false)
}

/// The kernel's list of the mounts that are visible to this process.
const MOUNTINFO: &str = "/proc/self/mountinfo";

/// The size of the read buffer (bytes). The kernel returns a page at most at a time.
const BUFFER: usize = 4096;

/// The number of mounts that are read in one turn: a millisecond's work. A node has tens, and some
/// for each pod; the kernel allows 100,000 (`fs.mount-max`).
const LINES: usize = 512;

/// The number of such pieces that are read at once when a root is added or removed.
const PIECES: usize = 8;

#[cfg(test)]
mod tests {
    use mio::Poll;

    use super::*;
    use crate::daemon::hold::{self, HoldError};

    fn mounts(root: &Path) -> Mounts {
        let poll = Poll::new().unwrap();
        let registry = poll.registry().try_clone().unwrap();
        Mounts::new(&[root.to_owned()], [].into_iter(), registry, Time::ZERO)
    }

    #[test]
    fn proc_is_known_not_to_report_all_changes() {
        let mounts = mounts(Path::new("/proc/sys"));
        let unreported = |dir: &str| mounts.unreported(Path::new(dir));
        assert_eq!(unreported("/proc/sys/kernel"), Some("proc".into()));
        assert_eq!(unreported("/"), None, "it is not below a root");
    }

    #[test]
    fn the_table_is_read_at_once_after_a_pause_and_then_once_in_an_interval() {
        let dir = tempfile::tempdir().unwrap();
        let mut mounts = mounts(dir.path());
        assert_eq!(mounts.poll_timeout(), None);
        let due = Time::ZERO + config::MOUNTS_INTERVAL;
        mounts.report();
        mounts.report();
        assert_eq!(mounts.poll_timeout(), Some(due));
        assert_eq!(mounts.advance(Time::ZERO), [] as [PathBuf; 0]);
        assert!(mounts.is_changed && !mounts.polled.as_ref().unwrap().is_registered);
        let later = due + config::MOUNTS_INTERVAL * 2;
        while mounts.poll_timeout().is_some() {
            assert_eq!(mounts.advance(later), [] as [PathBuf; 0]);
        }
        assert!(mounts.polled.as_ref().unwrap().is_registered);
        mounts.report();
        assert_eq!(mounts.poll_timeout(), Some(later + config::MOUNTS_INTERVAL));
    }

    #[test]
    fn a_table_that_could_not_be_opened_at_the_start_is_opened_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut mounts = mounts(dir.path());
        // The state after a start with all descriptors used up.
        mounts.polled = None;
        (mounts.is_read, mounts.is_changed) = (false, true);
        let due = Time::ZERO + config::MOUNTS_INTERVAL;
        assert_eq!(mounts.poll_timeout(), Some(due));
        let refused = hold::hold(dir.path(), &mounts);
        assert!(mounts.is_known() && matches!(refused, Err(HoldError::System(_))));
        while mounts.poll_timeout().is_some() {
            mounts.advance(due);
        }
        assert!(mounts.polled.as_ref().unwrap().is_registered);
        assert!(hold::hold(dir.path(), &mounts).is_ok());
    }

    #[test]
    fn a_change_while_the_table_is_read_has_it_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut mounts = mounts(dir.path());
        let due = Time::ZERO + config::MOUNTS_INTERVAL;
        mounts.report();
        mounts.reading = Some(mounts.begin().unwrap());
        mounts.report();
        assert_eq!(mounts.poll_timeout(), Some(Time::ZERO));
        mounts.advance(Time::ZERO);
        assert_eq!(mounts.poll_timeout(), Some(due));
    }

    #[test]
    fn roots_are_replaced_and_only_those_that_are_new_are_scanned_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut mounts = mounts(dir.path());
        let roots = ["/proc/sys".into(), dir.path().to_owned()];
        let new = mounts.set_roots(&roots, Time::ZERO);
        assert_eq!(new, [PathBuf::from("/proc/sys")]);
        let unreported = |mounts: &Mounts| mounts.unreported(Path::new("/proc/sys/kernel"));
        assert_eq!(unreported(&mounts), Some("proc".into()));
        // A table that is being read for other roots is given up.
        mounts.reading = Some(mounts.begin().unwrap());
        let left = mounts.set_roots(&roots[1..], Time::ZERO);
        assert_eq!(left, [] as [PathBuf; 0]);
        assert_eq!(unreported(&mounts), None);
        assert!(mounts.root_of(&dir.path().join("a")).is_some());
        let due = Time::ZERO + config::MOUNTS_INTERVAL;
        assert_eq!((mounts.poll_timeout(), mounts.read_after), (None, due));
    }

    #[test]
    fn the_longest_of_the_paths_that_the_user_named_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let mounts = mounts(dir.path());
        let path = dir.path().join("a/b");
        let (trusted, rest) = mounts.trusted_part(&path).unwrap();
        assert_eq!((&*trusted.named, rest), (dir.path(), Path::new("a/b")));
        assert!(mounts.trusted_part(Path::new("/elsewhere")).is_none());
    }
}

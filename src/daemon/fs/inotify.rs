//! The inotify instance: adds and removes watches, and decodes the kernel's events.
//!
//! Events are interpreted in [`crate::watch`].
//!
//! The removal of a directory is not reported on its own watch while any process has the directory
//! open or a socket bound in it. The watch of the parent directory reports the removal at once. So
//! the parent of each root is watched, too, for events about the root's name. If the parent cannot
//! be watched, the removal is noticed by the next periodic scan.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use inotify::{EventMask, WatchDescriptor, WatchMask};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::errno::Errno;

use super::scan;
use crate::escape;
use crate::watch::{Cause, Event, Place, Problem, WatchId};

/// A plugins directory, or the directory of `kubelet.sock`, whose parent directory is watched, too.
#[derive(Debug)]
struct Root {
    /// The watch of the directory.
    watch: WatchId,
    /// The watch of its parent directory.
    above: WatchId,
}

/// An inotify instance that is part of a poll loop.
#[derive(Debug)]
pub(crate) struct Inotify {
    /// `None` until the system provides an instance. Creation is retried with each new watch.
    instance: Option<inotify::Inotify>,
    /// The watches of the kernel. A directory has one watch, even if it is a root and the parent of
    /// another root.
    watched: BTreeMap<WatchId, WatchDescriptor>,
    /// The roots whose parent directories are watched, by path.
    roots: BTreeMap<PathBuf, Root>,
    /// The buffer for the events of one read.
    buffer: Box<[u8]>,
    registry: Registry,
    token: Token,
}

impl Inotify {
    /// Returns an instance that reports readiness to the loop of `registry` with `token`.
    pub(crate) fn new(registry: Registry, token: Token) -> Self {
        Self {
            instance: None,
            watched: BTreeMap::new(),
            roots: BTreeMap::new(),
            // Enough for an event with the longest name, or for a hundred with usual names.
            buffer: vec![0; 8192].into(),
            registry,
            token,
        }
    }

    /// Watches a directory and, if it is a root, its parent directory for the root's name; if that
    /// fails, only logs the failure. A directory that is already watched keeps its watch.
    pub(crate) fn watch(&mut self, dir: &Path, place: Place) -> Result<WatchId, Problem> {
        if place == Place::Below {
            return self.add_watch(dir, INTERESTS | WatchMask::DONT_FOLLOW);
        }
        let watch = self.add_watch(dir, INTERESTS)?;
        self.watch_parent_of(dir, watch);
        Ok(watch)
    }

    /// Stops watching the parent directory of a root for the root's name.
    pub(crate) fn unwatch_parent_of(&mut self, root: &Path) {
        if let Some(root) = self.roots.remove(root) {
            self.unwatch(root.above);
        }
    }

    /// Watches the parent directory of a root for the root's name. `watch` is the watch of the
    /// root.
    fn watch_parent_of(&mut self, root: &Path, watch: WatchId) {
        let before = self.roots.remove(root);
        let Some(dir) = root.parent() else {
            return; // `/` has no parent directory.
        };
        match self.add_watch(dir, INTERESTS) {
            Ok(above) => {
                self.roots.insert(root.to_owned(), Root { watch, above });
            }
            Err(problem) => log::debug!(
                "{}: cannot watch the parent directory, so the removal of the plugins directory \
                 may be noticed late: {}",
                escape::path(root),
                describe(&problem)
            ),
        }
        if let Some(before) = before {
            self.unwatch(before.above);
        }
    }

    fn add_watch(&mut self, dir: &Path, mask: WatchMask) -> Result<WatchId, Problem> {
        let instance = self.open_instance()?;
        let descriptor = instance.watches().add(dir, mask);
        let descriptor = descriptor.map_err(|error| watch_problem(&error))?;
        let id = WatchId(descriptor.get_watch_descriptor_id());
        self.watched.insert(id, descriptor);
        Ok(id)
    }

    /// Stops watching a directory, unless it is the parent directory of a root. It is not an error
    /// if the kernel has already removed the watch.
    ///
    /// A plugins directory is the parent of another one only if the other one is a symbolic link in
    /// it. If the link is removed as a root, its parent is unwatched, too; the kernel reports that,
    /// and the parent is watched again as a root.
    pub(crate) fn unwatch(&mut self, id: WatchId) {
        if self.roots.values().any(|root| root.above == id) {
            return;
        }
        if let (Some(descriptor), Some(instance)) = (self.watched.remove(&id), &self.instance) {
            if let Err(error) = instance.watches().remove(descriptor) {
                log::debug!("cannot remove an inotify watch: {error} watch={}", id.0);
            }
        }
    }

    /// Reads the events that fit in the buffer, and passes them to `report`. An event after which
    /// the path of a root may lead to another directory is preceded by an [`Event::Moved`] of that
    /// root. Returns whether there may be more events.
    ///
    /// The kernel fills the buffer until no event is left or the next one does not fit. If an event
    /// of any size would still have fitted, all events have been read, and the loop reports when
    /// there are new ones.
    pub(crate) fn read(&mut self, report: &mut dyn FnMut(Event)) -> io::Result<bool> {
        let Some(instance) = &mut self.instance else {
            return Ok(false);
        };
        let events = match instance.read_events(&mut self.buffer) {
            Ok(events) => events,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        let mut taken = 0;
        for event in events {
            taken += event.name.unwrap_or_default().len() + MAX_SIZE_WITHOUT_NAME;
            let Some(event) = decode(&event) else {
                continue;
            };
            if let Event::Unwatched { watch } = event {
                self.watched.remove(&watch);
            }
            for (path, root) in &self.roots {
                if moves_root(&event, path, root.above) {
                    report(Event::Moved { watch: root.watch });
                }
            }
            report(event);
        }
        Ok(taken + LONGEST_NAME + MAX_SIZE_WITHOUT_NAME > self.buffer.len())
    }

    fn open_instance(&mut self) -> Result<&mut inotify::Inotify, Problem> {
        if self.instance.is_none() {
            let instance = inotify::Inotify::init().map_err(|error| instance_problem(&error))?;
            let (fd, token) = (instance.as_raw_fd(), self.token);
            let registry = &self.registry;
            let registered = registry.register(&mut SourceFd(&fd), token, Interest::READABLE);
            registered.map_err(|error| Problem::NotWatched(scan::cause(&error)))?;
            self.instance = Some(instance);
        }
        Ok(self.instance.as_mut().expect("it was just created"))
    }
}

/// Decodes an event. Returns `None` for events that do not matter, and for `IN_UNMOUNT`, which is
/// always followed by `IN_IGNORED`.
fn decode(event: &inotify::Event<&OsStr>) -> Option<Event> {
    let watch = WatchId(event.wd.get_watch_descriptor_id());
    let name = event.name.unwrap_or_default().to_owned();
    let mask = event.mask;
    if mask.contains(EventMask::Q_OVERFLOW) {
        Some(Event::Overflowed)
    } else if mask.contains(EventMask::IGNORED) {
        Some(Event::Unwatched { watch })
    } else if mask.contains(EventMask::MOVE_SELF) {
        Some(Event::Moved { watch })
    } else if mask.intersects(EventMask::CREATE | EventMask::MOVED_TO) {
        Some(Event::Appeared {
            watch,
            name,
            is_directory: mask.contains(EventMask::ISDIR),
        })
    } else if mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
        Some(Event::Vanished { watch, name })
    } else {
        None
    }
}

/// Returns whether, after an event, the path of a root may lead to another directory. `above` is
/// the watch of the root's parent directory.
fn moves_root(event: &Event, root: &Path, above: WatchId) -> bool {
    match event {
        Event::Appeared { watch, name, .. } | Event::Vanished { watch, name } => {
            *watch == above && root.file_name() == Some(name)
        }
        Event::Moved { watch } | Event::Unwatched { watch } => *watch == above,
        Event::Overflowed => false, // Everything is scanned.
    }
}

/// Returns the text of a problem with watching a directory. Unlike the problem's own text, it does
/// not promise periodic scans, for directories that are not scanned.
pub(crate) fn describe(problem: &Problem) -> &dyn fmt::Display {
    match problem {
        Problem::NotWatched(cause) => cause,
        other => other,
    }
}

fn instance_problem(error: &io::Error) -> Problem {
    Problem::NotWatched(match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        // inotify_init(2): "The user limit on the total number of inotify instances has been
        // reached." The per-process limit of descriptors has the same error, but is rarely lower.
        Errno::EMFILE => Cause::InstancesUsedUp,
        _ => scan::cause(error),
    })
}

fn watch_problem(error: &io::Error) -> Problem {
    match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::ENOENT => Problem::Missing,
        Errno::ENOTDIR => Problem::NotADirectory,
        // inotify_add_watch(2): "The user limit on the total number of inotify watches was
        // reached".
        Errno::ENOSPC => Problem::NotWatched(Cause::WatchesUsedUp),
        _ => Problem::NotWatched(scan::cause(error)),
    }
}

/// The events that are requested from the kernel. `IN_DELETE_SELF` is left out: it is followed by
/// `IN_IGNORED`, which needs no request.
const INTERESTS: WatchMask = WatchMask::CREATE
    .union(WatchMask::MOVED_TO)
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVED_FROM)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR);

/// The largest size of an event without its name, in bytes: its header, and the zeros, at least
/// one, with which the kernel pads the name to a multiple of the size of the header.
const MAX_SIZE_WITHOUT_NAME: usize = 16 + 16;

/// The length in bytes of the longest name in any file system: since Linux 6.14, a name in FUSE may
/// be as long as a path. Usually the limit is 255.
const LONGEST_NAME: usize = 4095;

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use mio::Poll;

    use super::*;

    #[test]
    fn all_events_are_read() {
        let poll = Poll::new().unwrap();
        let mut inotify = Inotify::new(poll.registry().try_clone().unwrap(), Token(0));
        let dir = tempfile::tempdir().unwrap();
        inotify.watch(dir.path(), Place::Below).unwrap();
        for count in [1, 15, 60, 64, 65, 1000] {
            for n in 0..count {
                let name = format!("{count}-{n:0length$}", length = 1 + n % 250);
                File::create(dir.path().join(name)).unwrap();
            }
            let (mut reported, mut reads) = (0, 1);
            while inotify.read(&mut |_| reported += 1).unwrap() {
                reads += 1;
            }
            assert_eq!(reported, count);
            assert!(reads == 1 || count > 15, "{reads}");
            assert!(!inotify.read(&mut |event| panic!("{event:?}")).unwrap());
        }
    }

    /// Returns the watches of the roots that are reported as moved.
    fn read_moved_roots(inotify: &mut Inotify) -> Vec<WatchId> {
        let mut moved = Vec::new();
        let mut note = |event| {
            if let Event::Moved { watch } = event {
                moved.push(watch);
            }
        };
        while inotify.read(&mut note).unwrap() {}
        moved
    }

    #[test]
    fn two_roots_in_one_directory_share_its_watch() {
        let poll = Poll::new().unwrap();
        let mut inotify = Inotify::new(poll.registry().try_clone().unwrap(), Token(0));
        let dir = tempfile::tempdir().unwrap();
        let (above, away) = (dir.path().join("above"), dir.path().join("away"));
        let (a, b) = (above.join("a"), above.join("b"));
        for root in [&a, &b] {
            fs::create_dir_all(root).unwrap();
        }
        let [_, of_b] = [&a, &b].map(|root| inotify.watch(root, Place::Root).unwrap());
        let shared = inotify.roots.get(&b);
        let shared = shared.expect("it is watched").above;
        // After another scan, their parent is still watched for both names.
        inotify.watch(&a, Place::Root).unwrap();
        inotify.watch(&b, Place::Root).unwrap();
        assert_eq!(read_moved_roots(&mut inotify), []);
        fs::rename(&b, above.join("c")).unwrap();
        assert!(read_moved_roots(&mut inotify).contains(&of_b));
        fs::rename(above.join("c"), &b).unwrap();
        read_moved_roots(&mut inotify);

        // The parent of one root was replaced: the old parent is still watched for the other root.
        fs::rename(&above, &away).unwrap();
        fs::create_dir_all(&a).unwrap();
        inotify.watch(&a, Place::Root).unwrap();
        assert!(inotify.watched.contains_key(&shared));
        fs::create_dir(&b).unwrap();
        inotify.watch(&b, Place::Root).unwrap();
        assert!(!inotify.watched.contains_key(&shared));
    }

    #[test]
    fn used_up_watches_are_distinguished_from_other_errors() {
        let error = |errno: Errno| watch_problem(&io::Error::from(errno));
        let used_up = error(Errno::ENOSPC);
        assert_eq!(used_up, Problem::NotWatched(Cause::WatchesUsedUp));
        assert!(used_up.remedy().contains("fs.inotify.max_user_watches"));
        let instances = instance_problem(&io::Error::from(Errno::EMFILE));
        assert!(instances.remedy().contains("fs.inotify.max_user_instances"));
        assert_eq!(error(Errno::ENOENT), Problem::Missing);
        assert_eq!(error(Errno::ENOTDIR), Problem::NotADirectory);
        assert_eq!(error(Errno::EACCES), Problem::NotWatched(Cause::Denied));
    }

    #[test]
    fn an_event_in_the_parent_may_move_the_root_of_that_name() {
        let (root, above) = (Path::new("/above/root"), WatchId(1));
        let name = |name: &str| name.into();
        for (watch, name, expected) in [
            (above, name("root"), true),
            (above, name("other"), false),
            (WatchId(2), name("root"), false),
        ] {
            let vanished = Event::Vanished { watch, name };
            assert_eq!(moves_root(&vanished, root, above), expected, "{vanished:?}");
        }
        assert!(moves_root(&Event::Moved { watch: above }, root, above));
        assert!(!moves_root(&Event::Overflowed, root, above));
    }
}

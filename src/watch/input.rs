//! The inputs of the watch, provided by the shell, which decodes the events of the kernel.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{EntryKind, Listing, Problem, WatchId};

/// An input of the watch.
#[derive(Debug)]
pub enum Input {
    /// The kernel reported a change.
    Event(Event),
    /// The answer to [`super::Output::Scan`].
    Scanned {
        /// The directory of the request.
        dir: Arc<Path>,
        /// The watch of the directory, which was added before the directory was listed.
        watch: Result<WatchId, Problem>,
        /// The entries of the directory.
        entries: Result<Listing, Problem>,
    },
    /// The answer to [`super::Output::Examine`].
    Examined {
        /// The path of the request.
        path: Arc<Path>,
        /// The kind of file at the path.
        kind: EntryKind,
    },
    /// The file at this path may not be the one that was reported last.
    Doubted {
        /// The path.
        path: Arc<Path>,
    },
    /// Something may have been mounted or unmounted above, at or below this directory.
    Remounted {
        /// The directory.
        dir: PathBuf,
    },
}

/// An event that inotify reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A name was added to the directory (`IN_CREATE`, `IN_MOVED_TO`).
    Appeared {
        /// The directory's watch.
        watch: WatchId,
        /// The name.
        name: OsString,
        /// Whether the name is that of a directory (`IN_ISDIR`).
        is_directory: bool,
    },
    /// A name was removed from the directory (`IN_DELETE`, `IN_MOVED_FROM`).
    Vanished {
        /// The directory's watch.
        watch: WatchId,
        /// The name.
        name: OsString,
    },
    /// The directory itself was renamed, and its watch moved with it (`IN_MOVE_SELF`); or, for a
    /// root, the directory above reported a change of the root's name.
    Moved {
        /// The directory's watch.
        watch: WatchId,
    },
    /// The watch has ended: the directory was removed or unmounted, or the daemon has removed the
    /// watch (`IN_IGNORED`).
    Unwatched {
        /// The watch that ended.
        watch: WatchId,
    },
    /// The queue was full and an unknown number of events was lost (`IN_Q_OVERFLOW`).
    Overflowed,
}

//! Events that the kernel reports about a watched directory; the shell decodes them.

use std::ffi::OsString;

/// An inotify watch descriptor. An inotify instance does not reuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub i32);

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

//! What the kernel reports about a watched directory. Pure: decoded by the shell.

use std::ffi::OsString;

/// The kernel's number for one watch. Never given out twice by an inotify instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub i32);

/// A change, as inotify tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A name came into the directory (`IN_CREATE`, `IN_MOVED_TO`).
    Appeared {
        /// The directory's watch.
        watch: WatchId,
        /// The name.
        name: OsString,
        /// Whether it is a directory itself (`IN_ISDIR`).
        is_directory: bool,
    },
    /// A name went out of the directory (`IN_DELETE`, `IN_MOVED_FROM`).
    Vanished {
        /// The directory's watch.
        watch: WatchId,
        /// The name.
        name: OsString,
    },
    /// The directory itself got another name, and the watch goes with it (`IN_MOVE_SELF`); or, of a
    /// root, something happened to its name, as the directory above it tells.
    Moved {
        /// The directory's watch.
        watch: WatchId,
    },
    /// The kernel ended the watch: the directory was removed or unmounted (`IN_IGNORED`).
    Unwatched {
        /// The watch that is no more.
        watch: WatchId,
    },
    /// The queue was full and an unknown number of events is lost (`IN_Q_OVERFLOW`).
    Overflowed,
}

//! The inputs of the watch, provided by the shell.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{EntryKind, Event, Listing, Problem, WatchId};

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

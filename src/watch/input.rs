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
    /// The file at this path is not the one that was last reported.
    Doubted {
        /// The path.
        path: Arc<Path>,
    },
    /// Something was mounted or unmounted above this directory, at it or below it.
    Remounted {
        /// The directory.
        dir: PathBuf,
    },
}

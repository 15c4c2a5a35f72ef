//! What the shell tells the watch.
//!
//! Pure.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Event, Kind, Listing, Problem, WatchId};

/// What the shell tells the machine.
#[derive(Debug)]
pub enum Input {
    /// The kernel reported a change.
    Event(Event),
    /// The answer to [`super::Output::Scan`].
    Scanned {
        /// The directory of the request.
        dir: Arc<Path>,
        /// Its watch, placed before it was listed.
        watch: Result<WatchId, Problem>,
        /// What is in it.
        entries: Result<Listing, Problem>,
    },
    /// The answer to [`super::Output::List`].
    Listed {
        /// The directory of the request.
        dir: Arc<Path>,
        /// What else is in it.
        entries: Result<Listing, Problem>,
    },
    /// The answer to [`super::Output::List`] if no listing of the directory is open.
    Unlisted {
        /// The directory of the request.
        dir: Arc<Path>,
    },
    /// The answer to [`super::Output::Look`].
    Looked {
        /// The path of the request.
        path: Arc<Path>,
        /// What is there.
        kind: Kind,
    },
    /// Nothing listens on the socket at this path, or something does again. One on which nothing
    /// listens makes room for others when there are too many.
    Refused {
        /// The path.
        path: Arc<Path>,
        /// Whether nothing listens.
        is_refused: bool,
    },
    /// Something else was met at this path than was last reported.
    Doubted {
        /// The path.
        path: Arc<Path>,
    },
    /// A mount came or went above this directory, at it or below it.
    Remounted {
        /// The directory.
        dir: PathBuf,
    },
}

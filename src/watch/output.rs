//! What the watch wants done, and what it makes known. Pure: values, carried out by the shell.

use std::path::Path;
use std::sync::Arc;

use super::{Identity, Problem, WatchId};

/// What the machine wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Watch this directory first, then list it or its first piece, and answer with
    /// [`super::Input::Scanned`].
    Scan {
        /// The directory.
        dir: Arc<Path>,
        /// Whose directory it is, and so how to open it.
        place: Place,
    },
    /// List the next piece of this directory, of which more was to follow, and answer with
    /// [`super::Input::Listed`].
    List {
        /// The directory.
        dir: Arc<Path>,
    },
    /// Nothing more is wanted of this directory's listing.
    Close {
        /// The directory.
        dir: Arc<Path>,
    },
    /// See what is at this path and answer with [`super::Input::Looked`].
    Look {
        /// The path.
        path: Arc<Path>,
    },
    /// Nothing behind this watch is of interest any more.
    Unwatch {
        /// The watch to remove.
        watch: WatchId,
    },
    /// A plugin socket exists at this path, or has another identity than before, and no other path
    /// that was reported leads to it.
    Found {
        /// Its path.
        path: Arc<Path>,
        /// Which socket it is.
        identity: Identity,
        /// Whether the path is a symbolic link.
        is_link: bool,
    },
    /// Another path leads to a plugin socket that was reported: a hard link or a symbolic link.
    Alias {
        /// The other path.
        path: Arc<Path>,
        /// Which socket it is.
        identity: Identity,
        /// Whether the path is a symbolic link.
        is_link: bool,
    },
    /// A plugin socket, or another path of one, does not exist any more.
    Lost {
        /// Its path.
        path: Arc<Path>,
    },
    /// Something an operator should know; once per change.
    Report(Report),
}

/// Whose directory is to be scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One that the user named: create it if it is missing; it may be reached through a symbolic
    /// link.
    MissingRoot,
    /// One that the user named, which was there a moment ago: leave a swap by its owner the time to
    /// finish.
    Root,
    /// One below it: do not follow a symbolic link.
    Below,
}

/// A change in how well a directory can be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The directory cannot be watched as it should be.
    Trouble {
        /// The directory.
        dir: Arc<Path>,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The directory's problem is over.
    Recovered {
        /// The directory.
        dir: Arc<Path>,
    },
    /// The directory cannot be listed as a whole, so expected sockets below it
    /// ([`super::Watch::expect`]) are neither found nor lost.
    Undecided {
        /// The directory.
        dir: Arc<Path>,
        /// How many sockets.
        sockets: usize,
    },
}

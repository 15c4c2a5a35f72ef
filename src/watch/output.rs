//! The requests and reports of the watch. Pure: values, carried out by the shell.

use std::path::Path;
use std::sync::Arc;

use super::{Identity, Problem, WatchId};

/// A request or a report of the watch. They are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Watch this directory first, then list it or its first piece, and answer with
    /// [`super::Input::Scanned`].
    Scan {
        /// The directory.
        dir: Arc<Path>,
        /// The position of the directory in the tree, which determines how to open it.
        place: Place,
    },
    /// List the next piece of this directory, whose listing has more, and answer with
    /// [`super::Input::Listed`].
    List {
        /// The directory.
        dir: Arc<Path>,
    },
    /// Close the listing of this directory.
    Close {
        /// The directory.
        dir: Arc<Path>,
    },
    /// Examine this path and answer with [`super::Input::Examined`].
    Examine {
        /// The path.
        path: Arc<Path>,
    },
    /// Remove this watch: its directory is not of interest any more.
    Unwatch {
        /// The watch to remove.
        watch: WatchId,
    },
    /// A plugin socket exists at this path, or has another identity than before, and none of the
    /// paths reported so far leads to it.
    Found {
        /// The path of the socket.
        path: Arc<Path>,
        /// The identity of the socket.
        identity: Identity,
        /// Whether the path is a symbolic link.
        is_link: bool,
    },
    /// Another path leads to a reported plugin socket: a hard link or a symbolic link.
    Alias {
        /// The other path.
        path: Arc<Path>,
        /// The identity of the socket.
        identity: Identity,
        /// Whether the path is a symbolic link.
        is_link: bool,
    },
    /// A plugin socket, or another path of one, does not exist any more.
    Lost {
        /// The path of the socket.
        path: Arc<Path>,
    },
    /// A change that an operator should know; reported once.
    Report(Report),
}

/// The position of a directory that has to be scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory that the user named: create it if it is missing; its path may contain a symbolic
    /// link.
    MissingRoot,
    /// A directory that the user named and that existed a moment ago: if its owner is replacing it,
    /// allow the replacement some time to finish.
    Root,
    /// A directory below one of those: do not follow a symbolic link.
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
    /// The problem of the directory is solved.
    Recovered {
        /// The directory.
        dir: Arc<Path>,
    },
    /// The directory cannot be listed completely, so expected sockets below it
    /// ([`super::Watch::expect`]) are neither found nor lost.
    Undecided {
        /// The directory.
        dir: Arc<Path>,
        /// The number of those sockets.
        sockets: usize,
    },
}

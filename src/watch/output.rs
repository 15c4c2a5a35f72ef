//! The requests and reports of the watch, which the shell carries out.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::{Identity, Problem, WatchId};
use crate::escape;

/// A request or a report of the watch. Outputs are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Watch this directory first, then list it, and answer with [`super::Input::Scanned`].
    Scan {
        /// The directory.
        dir: Arc<Path>,
        /// The position of the directory in the tree, which determines how to open it.
        place: Place,
    },
    /// Examine this path and answer with [`super::Input::Examined`].
    Examine {
        /// The path.
        path: Arc<Path>,
    },
    /// Remove this watch, which is not needed any more.
    Unwatch {
        /// The watch to remove.
        watch: WatchId,
    },
    /// A plugin socket exists at this path, and is new or has another identity than before. It is
    /// not reported at a second path until it is lost at the first one.
    Found {
        /// The path of the socket.
        path: Arc<Path>,
        /// The identity of the socket.
        identity: Identity,
    },
    /// A known or expected plugin socket does not exist any more, or its path is not used any more:
    /// for example, the socket is known under another path, or its root was removed.
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
    /// A directory that the user named: if it is missing, it may be about to be replaced, so allow
    /// some time for that.
    Root,
    /// A directory below a root: do not follow a symbolic link.
    Below,
}

/// A change in how well a directory can be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The directory cannot be watched as it should be.
    Trouble {
        /// The directory.
        dir: Arc<Path>,
        /// The problem.
        problem: Problem,
    },
    /// The problem of the directory is solved.
    Recovered {
        /// The directory.
        dir: Arc<Path>,
    },
}

impl Report {
    /// Returns the directory.
    pub fn dir(&self) -> &Arc<Path> {
        match self {
            Self::Trouble { dir, .. } | Self::Recovered { dir } => dir,
        }
    }

    /// Returns the reason in CamelCase, as in Kubernetes events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Trouble { problem, .. } if problem.is_limit() => "DirectoryLimited",
            Self::Trouble { problem, .. } if problem.causes_polling() => "DirectoryPolled",
            Self::Trouble { .. } => "DirectoryLost",
            Self::Recovered { .. } => "DirectoryRecovered",
        }
    }

    /// Returns whether the report is a warning.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::Recovered { .. })
    }

    /// Returns the report as one sentence, without its directory.
    pub fn message(&self) -> String {
        match self {
            Self::Trouble { problem, .. } => format!("{problem}; {}", problem.remedy()),
            Self::Recovered { .. } => "directory is being watched again".to_owned(),
        }
    }
}

/// Shows the report as a log line: `/r: directory is being watched again`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", escape::path(self.dir()), self.message())
    }
}

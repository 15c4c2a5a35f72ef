//! The states of directories, as shown to an operator.

use std::path::Path;
use std::sync::Arc;

use super::{Problem, Watch};

/// A directory, and how changes in it are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory<'a> {
    /// The path.
    pub path: &'a Arc<Path>,
    /// Whether the user named it.
    pub is_root: bool,
    /// The way in which changes are noticed.
    pub state: DirectoryState,
    /// The problem of the directory, if it has one. A watched directory has one only if a limit is
    /// exceeded.
    pub problem: Option<&'a Problem>,
}

/// The way in which changes in a directory are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryState {
    /// The kernel reports the changes.
    Watched,
    /// The directory is scanned at short intervals.
    Polled,
    /// Changes are not noticed: for example, the directory does not exist, cannot be read or was
    /// not read yet.
    Lost,
}

impl DirectoryState {
    /// Returns the name that an operator sees.
    pub fn name(self) -> &'static str {
        match self {
            Self::Watched => "Watched",
            Self::Polled => "Polled",
            Self::Lost => "Lost",
        }
    }
}

impl Watch {
    /// Returns the roots in the order in which they were added, and then at most [`MAX_TROUBLED`]
    /// of the other directories that have a problem which their parent does not have.
    pub fn directories(&self) -> impl Iterator<Item = Directory<'_>> {
        let roots = self.tree.roots().iter();
        let troubled = self.tree.paths_with_own_problem().take(MAX_TROUBLED);
        roots.chain(troubled).map(|path| {
            let problem = self.tree.problem(path);
            let state = match problem {
                None if !self.tree.get(path).is_some_and(|it| it.is_listed) => DirectoryState::Lost,
                None => DirectoryState::Watched,
                Some(problem) if problem.causes_polling() => DirectoryState::Polled,
                Some(problem) if problem.is_limit() => DirectoryState::Watched,
                Some(_) => DirectoryState::Lost,
            };
            Directory {
                path,
                is_root: self.tree.is_root(path),
                state,
                problem,
            }
        })
    }
}

/// The maximum number of directories below the roots that are shown with their problems: any plugin
/// may create directories.
pub const MAX_TROUBLED: usize = 64;

//! The results of checks.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How serious it is.
    pub level: Level,
    /// The name of the check: one word, or two with a hyphen.
    pub check: &'static str,
    /// What was found, about each path if there are any. Texts from outside are escaped.
    pub message: String,
    /// What helps; empty if nothing has to be done.
    pub remedy: String,
    /// The directory, file or process that it concerns, or the first of several sockets.
    pub paths: Vec<PathBuf>,
    /// The number of all paths that it concerns.
    pub count: usize,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing is wrong.
    Ok,
    /// A fact that needs no action.
    Note,
    /// Something works in part, or for some plugins only.
    Warning,
    /// Something does not work.
    Problem,
}

impl Level {
    /// Returns the name of the level.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The findings of one check after the other.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// Adds a finding. It keeps the first of the paths, and their number.
    #[inline(never)]
    pub(super) fn add(
        &mut self,
        level: Level,
        check: &'static str,
        paths: &[&Path],
        message: &dyn Display,
        remedy: &dyn Display,
    ) {
        let first = paths.iter().take(MAX_SHOWN);
        self.0.push(Finding {
            level,
            check,
            message: message.to_string(),
            remedy: remedy.to_string(),
            paths: first.map(|&path| path.to_owned()).collect(),
            count: paths.len(),
        });
    }

    /// Returns a line for each finding, and empties the list.
    #[cfg(test)]
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        let line = |it: Finding| {
            let path = it.paths.first().map_or("", |path| path.to_str().unwrap());
            format!("{} {path}: {}; {}", it.level.name(), it.message, it.remedy)
        };
        std::mem::take(&mut self.0).into_iter().map(line).collect()
    }
}

/// The most paths that a finding keeps: enough to see what they have in common.
pub(super) const MAX_SHOWN: usize = 8;

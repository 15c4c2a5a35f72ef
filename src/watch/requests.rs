//! Requests for scans and examinations of paths, each made once and not too often.
//!
//! Pure. Repeated changes of the same path wait for pauses that double ([`super::pauses`]).

use std::path::Path;
use std::sync::Arc;

use super::pauses::Rule;
use super::{Output, Place, Watch};
use crate::config;
use crate::time::Time;

impl Watch {
    /// Scans a directory that has changed: now, or after a pause if that was done a moment ago.
    pub(super) fn rescan(&mut self, dir: Arc<Path>, now: Time) {
        if self.scans.ask(&dir, now) {
            let place = self.place(&dir);
            self.want_scan(dir, place);
        }
    }

    /// Scans these directories.
    pub(super) fn rescan_each(&mut self, dirs: Vec<Arc<Path>>, now: Time) {
        for dir in dirs {
            self.rescan(dir, now);
        }
    }

    pub(super) fn place(&self, dir: &Path) -> Place {
        if self.tree.is_root(dir) {
            Place::Root
        } else {
            Place::Below
        }
    }

    /// Scans a directory, unless a scan is pending.
    pub(super) fn want_scan(&mut self, dir: Arc<Path>, place: Place) {
        if !self.tree.set_scan_wanted(&dir, true) {
            self.outputs.push_back(Output::Scan { dir, place });
        }
    }

    /// Drops the scans of directories that were given up: a directory that is added again under the
    /// same path gets a scan of its own, and must not be scanned twice.
    pub(super) fn drop_scans(&mut self) {
        let tree = &self.tree;
        let is_needed =
            |it: &Output| !matches!(it, Output::Scan { dir, .. } if !tree.contains(dir));
        self.outputs.retain(is_needed);
    }

    /// Examines a path that has changed, or is doubted: now, or after a pause if that was done a
    /// moment ago.
    pub(super) fn examine_again(&mut self, path: Arc<Path>, now: Time) {
        if self.examinations.ask(&path, now) {
            self.examine(path);
        }
    }

    /// Examines the paths whose directories are known.
    pub(super) fn examine_each(&mut self, paths: Vec<Arc<Path>>) {
        for path in paths {
            if self.tree.contains(super::path::split(&path).0) {
                self.examine(path);
            }
        }
    }

    /// Examines a path. A request that is still pending also covers all changes before it.
    pub(super) fn examine(&mut self, path: Arc<Path>) {
        let octets = path.as_os_str();
        let is_this = |output: &Output| {
            // Comparing `Path`s takes ten times as long.
            matches!(output, Output::Examine { path } if path.as_os_str() == octets)
        };
        let mut last = self.outputs.iter().rev().take(LAST_EXAMINATIONS);
        if !last.any(is_this) {
            self.outputs.push_back(Output::Examine { path });
        }
    }
}

/// The rule for directories that are scanned because of a change.
pub(super) const SCANS: Rule = Rule {
    pauses: config::SCAN_PAUSES,
    calm: config::SCAN_CALM,
    paths: 2 * config::MAX_DIRECTORIES,
};

/// The rule for known names that have changed, because a rename may happen again before the
/// examination, and for paths whose identity is doubted. inotify reports added and removed names,
/// but not a change of the file behind a name: a link that now leads to another socket, or, on a
/// file system without birth times, a socket whose modification time is set. A dial notices the
/// change.
pub(super) const EXAMINATIONS: Rule = Rule {
    pauses: config::EXAMINE_PAUSES,
    calm: config::EXAMINE_CALM,
    paths: config::MAX_SOCKETS,
};

/// The number of latest outputs that are searched for the same path: enough for a few names that
/// are added and removed repeatedly.
const LAST_EXAMINATIONS: usize = 16;

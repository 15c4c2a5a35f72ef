//! Scans and looks that are wanted, each once and not too often.
//!
//! Pure. What happens again and again to the same path waits for pauses that double
//! ([`super::pauses`]), and what concerns all directories is done for some at a time.

use std::path::Path;
use std::sync::Arc;

use super::pauses::Rule;
use super::{Output, Place, Watch};
use crate::config;
use crate::time::Time;

impl Watch {
    pub(super) fn rescan(&mut self, dir: Arc<Path>, now: Time) {
        let place = self.place(&dir);
        self.scan(dir, place, now);
    }

    pub(super) fn place(&self, dir: &Path) -> Place {
        if self.tree.is_root(dir) {
            Place::Root
        } else {
            Place::Below
        }
    }

    /// Has a known path looked at, to which something happened: at once, unless that was so a
    /// moment ago.
    pub(super) fn look_again(&mut self, path: Arc<Path>, now: Time) {
        if self.looks.ask(&path, now) {
            self.look(path);
        }
    }

    /// Has a path looked at. A look that is still to come serves for all that has happened before.
    pub(super) fn look(&mut self, path: Arc<Path>) {
        let is_this = |output: &Output| matches!(output, Output::Look { path: it } if *it == path);
        if !self.outputs.iter().rev().take(LAST_LOOKS).any(is_this) {
            self.outputs.push_back(Output::Look { path });
        }
    }

    /// Has a directory scanned because something happened to it: at once, unless that was so a
    /// moment ago, or it is being listed.
    pub(super) fn scan(&mut self, dir: Arc<Path>, place: Place, now: Time) {
        if self.listings.is_open(&dir) {
            self.listings.repeat(&dir);
        } else if self.scans.ask(&dir, now) {
            self.want_scan(dir, place);
        }
    }

    /// Has a directory scanned, unless it is about to be, or is being listed.
    pub(super) fn want_scan(&mut self, dir: Arc<Path>, place: Place) {
        if !self.listings.is_open(&dir) && !self.tree.set_scan_wanted(&dir, true) {
            self.outputs.push_back(Output::Scan { dir, place });
        }
    }

    /// Drops the scans of directories that were given up: a directory that comes again under the
    /// same path is scanned for itself, and must not be scanned twice.
    pub(super) fn drop_scans(&mut self) {
        let tree = &self.tree;
        let is_needed =
            |it: &Output| !matches!(it, Output::Scan { dir, .. } if !tree.contains(dir));
        self.outputs.retain(is_needed);
        self.admit_next();
    }
}

/// Paths whose identity is doubted. inotify reports names that come and go, not a change of the
/// file behind a name: a link that leads to another socket than before, or, on a file system
/// without birth times, a socket whose modification time is set. A dial notices, and the path is
/// examined again.
pub(super) const DOUBTS: Rule = Rule {
    least: config::DOUBT_PAUSE,
    most: config::RESYNC_INTERVAL,
    calm: config::DOUBT_FORGOTTEN,
    paths: config::MAX_SOCKETS,
};

/// Directories that are scanned because something happens to them.
pub(super) const SCANS: Rule = Rule {
    least: config::SCAN_PAUSE,
    most: config::MAX_SCAN_PAUSE,
    calm: config::SCAN_CALM,
    paths: 2 * config::MAX_DIRECTORIES,
};

/// Known names to which something happens: a look may have to wait for what renames them.
pub(super) const LOOKS: Rule = Rule {
    least: config::LOOK_PAUSE,
    most: config::MAX_LOOK_PAUSE,
    calm: config::LOOK_CALM,
    paths: config::MAX_DIRECTORIES,
};

/// How many directories are looked after at once when something concerns all: the others follow in
/// the next turns.
pub(super) const AT_ONCE: usize = config::LISTED_AT_ONCE;

/// How many outputs are searched for a look at the same path, from the last one backwards: enough
/// for a few names that come and go.
const LAST_LOOKS: usize = 16;

//! Roots that are added and removed while others are followed.
//!
//! Pure. A root inside another one has a tree of its own, so each can be added and removed alone:
//! - What is known of a directory stays known when it becomes a root, and when a root inside
//!   another one is removed: its sockets are followed all the time.
//! - Everything below a root that is inside none is lost with it. Requests that concern it are
//!   dropped, and late answers and events find neither its paths nor its watches.

use std::path::{Component, Path};
use std::sync::Arc;

use super::path::split;
use super::{Listing, Output, Problem, Report, Watch, WatchId, is_hidden};
use crate::time::Time;

impl Watch {
    /// Adds a root that was created if it was missing, watched, and then listed, or its first
    /// piece: `watch` and `entries` are the results, as for [`super::Input::Scanned`]. All requests
    /// have been answered before.
    ///
    /// Fails, and changes nothing, if the root has a problem that would prevent a start
    /// ([`Problem::prevents_start`]), or is known under another path ([`Problem::SameAs`]).
    pub fn add_root(
        &mut self,
        dir: &Arc<Path>,
        watch: Result<WatchId, Problem>,
        entries: Result<Listing, Problem>,
        now: Time,
    ) -> Result<(), Problem> {
        if let Some(problem) = self.prevents(dir, &watch, &entries) {
            if let Ok(watch) = watch {
                self.outputs.push_back(Output::Unwatch { watch });
            }
            self.close(dir, &entries);
            return Err(problem);
        }
        let is_known = self.tree.contains(dir);
        if !self.tree.is_root(dir) {
            self.drop_scan(dir);
            self.tree.add_root(dir);
        }
        self.on_scanned(dir, watch, entries, now);
        if is_known {
            // Other limits hold for it.
            self.rescan_below(dir, now);
        }
        self.check_invariants();
        Ok(())
    }

    /// Returns the problem that keeps a directory from being a root.
    fn prevents(
        &self,
        dir: &Path,
        watch: &Result<WatchId, Problem>,
        entries: &Result<Listing, Problem>,
    ) -> Option<Problem> {
        let problems = watch
            .as_ref()
            .err()
            .into_iter()
            .chain(entries.as_ref().err());
        if let Some(problem) = problems.clone().find(|it| it.prevents_start()) {
            return Some(problem.clone());
        }
        let watched = watch.as_ref().ok().and_then(|it| self.tree.watched_by(*it));
        watched.filter(|other| **other != *dir).map(Problem::SameAs)
    }

    /// Removes a root, if it is one. Its sockets are lost, and expected ones below it, too, unless
    /// it lies in a directory that is known: then it is followed as part of that one.
    pub fn remove_root(&mut self, dir: &Path, now: Time) {
        let Some(dir) = self.tree.known(dir).filter(|dir| self.tree.is_root(dir)) else {
            return;
        };
        self.drop_scan(&dir);
        let removed = self.tree.remove_root(&dir);
        self.drop_requests();
        self.announce(removed, now);
        self.lose_uncovered();
        if self.tree.contains(&dir) {
            // Other rules hold for it: it may be a symbolic link.
            self.rescan_below(&dir, now);
        }
        self.retry_at = self.tree.next_retry();
        self.check_invariants();
    }

    /// Returns whether a root leads to a path, if the directories on the way exist.
    pub fn covers(&self, path: &Path) -> bool {
        self.is_covered_by(path, |_| true)
    }

    /// Returns whether one of these roots leads to a path, if the directories on the way exist.
    pub fn is_covered_by(&self, path: &Path, roots: impl Fn(&Path) -> bool) -> bool {
        let leads = |root: &Arc<Path>| path.strip_prefix(root).is_ok_and(is_scanned);
        self.tree.roots().iter().any(|it| roots(it) && leads(it))
    }

    /// Returns whether a root inside a directory leads to a path.
    pub(super) fn is_in_root_inside(&self, dir: &Path, path: &Path) -> bool {
        let is_inside = |root: &Arc<Path>| root.starts_with(dir) && **root != *dir;
        let mut roots = self.tree.roots().iter();
        roots.any(|root| is_inside(root) && path.starts_with(root))
    }

    /// Reports the expected sockets as lost that no root leads to.
    pub(super) fn lose_uncovered(&mut self) {
        for path in self.expected.outside(|path| self.covers(path)) {
            self.report_lost(path);
        }
    }

    /// Drops the pending scan of a directory: its place in the tree changes.
    fn drop_scan(&mut self, dir: &Path) {
        self.tree.set_scan_wanted(dir, false);
        let is_other = |it: &Output| !matches!(it, Output::Scan { dir: it, .. } if **it == *dir);
        self.outputs.retain(is_other);
    }

    /// Drops the requests and reports about directories that were given up, and their pauses.
    fn drop_requests(&mut self) {
        let tree = &self.tree;
        let is_in_tree = |path: &Path| tree.contains(split(path).0);
        self.outputs.retain(|output| match output {
            Output::Examine { path } | Output::Found { path, .. } => is_in_tree(path),
            Output::Report(
                Report::Trouble { dir, .. }
                | Report::Recovered { dir }
                | Report::Undecided { dir, .. },
            ) => tree.contains(dir),
            // Scans are dropped when the directories are announced.
            Output::Scan { .. }
            | Output::List { .. }
            | Output::Close { .. }
            | Output::Unwatch { .. }
            | Output::Lost { .. } => true,
        });
        self.scans.retain(|dir| tree.contains(dir));
        self.examinations.retain(is_in_tree);
        self.doubts.retain(is_in_tree);
    }
}

/// Returns whether a scan of a root follows this relative path: it only descends, and skips hidden
/// names.
fn is_scanned(way: &Path) -> bool {
    way.components()
        .all(|part| matches!(part, Component::Normal(name) if !is_hidden(name)))
}

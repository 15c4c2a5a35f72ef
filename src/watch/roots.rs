//! Roots that are added and removed while others are followed.
//!
//! Pure. None is inside another. Everything below a root is lost with it: requests that concern it
//! are dropped, and late answers and events find neither its paths nor its watches.

use std::path::{Component, Path};
use std::sync::Arc;

use super::path::split;
use super::{Listing, Output, Problem, Report, Watch, WatchId, is_hidden};
use crate::time::Time;

impl Watch {
    /// Adds a root that was created if it was missing, watched, and then listed: `watch` and
    /// `entries` are the results, as for [`super::Input::Scanned`]. All requests have been answered
    /// before.
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
            return Err(problem);
        }
        if !self.tree.is_root(dir) {
            self.tree.add_root(dir);
        }
        self.on_scanned(dir, watch, entries, now);
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
        let mut roots = self.tree.roots().iter().filter(|root| ***root != *dir);
        let is_nested = |root: &&Arc<Path>| root.starts_with(dir) || dir.starts_with(root);
        if let Some(root) = roots.find(is_nested) {
            return Some(Problem::Nested(Arc::clone(root)));
        }
        let problems = watch.as_ref().err().into_iter();
        let mut problems = problems.chain(entries.as_ref().err());
        if let Some(problem) = problems.find(|it| it.prevents_start()) {
            return Some(problem.clone());
        }
        let watched = watch.as_ref().ok().and_then(|it| self.tree.watched_by(*it));
        watched.filter(|other| **other != *dir).map(Problem::SameAs)
    }

    /// Removes a root, if it is one. Its sockets are lost, and expected ones below it, too.
    pub fn remove_root(&mut self, dir: &Path, now: Time) {
        if !self.tree.is_root(dir) {
            return;
        }
        let removed = self.tree.remove_root(dir);
        self.drop_requests();
        self.announce(removed, now);
        self.lose_uncovered();
        self.retry_at = self.tree.next_retry();
        self.check_invariants();
    }

    /// Returns whether a root leads to a path, if the directories on the way exist.
    pub fn covers(&self, path: &Path) -> bool {
        let leads = |root: &Arc<Path>| path.strip_prefix(root).is_ok_and(is_scanned);
        self.tree.roots().iter().any(leads)
    }

    /// Reports the expected sockets as lost that no root leads to.
    pub(super) fn lose_uncovered(&mut self) {
        for path in self.expected.outside(|path| self.covers(path)) {
            self.report_lost(path);
        }
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
            )
            | Output::Scan { dir, .. } => tree.contains(dir),
            Output::Unwatch { .. } | Output::Lost { .. } => true,
        });
        self.scans.retain(|dir| tree.contains(dir));
        self.examinations.retain(is_in_tree);
    }
}

/// Returns whether a scan of a root follows this relative path: it only descends, and skips hidden
/// names.
fn is_scanned(way: &Path) -> bool {
    way.components()
        .all(|part| matches!(part, Component::Normal(name) if !is_hidden(name)))
}

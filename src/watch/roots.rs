//! Roots that are added and removed while others are watched.
//!
//! No root is inside another. When a root is removed, all sockets below it are lost and pending
//! requests for it are dropped. Late answers and events change nothing, because the root's paths
//! and watches are unknown by then; a watch that was added too late is removed.

use std::path::{Component, Path};
use std::sync::Arc;

use super::{Listing, Output, Problem, Watch, WatchId, is_hidden};
use crate::time::Time;

impl Watch {
    /// Adds a root that was created if it was missing, watched, and then listed: `watch` and
    /// `entries` are the results, as for [`super::Input::Scanned`]. The caller has answered all
    /// earlier requests.
    ///
    /// Fails, and changes nothing, if the root has a problem that would prevent a start
    /// ([`Problem::prevents_start`]). The caller ensures that the directory is not inside another
    /// root, does not contain one, and is not a root already under another path.
    pub fn add_root(
        &mut self,
        dir: &Arc<Path>,
        watch: Result<WatchId, Problem>,
        entries: Result<Listing, Problem>,
        now: Time,
    ) -> Result<(), Problem> {
        let problems = [watch.as_ref().err(), entries.as_ref().err()];
        let problem = problems
            .into_iter()
            .flatten()
            .find(|it| it.prevents_start());
        if let Some(problem) = problem.cloned() {
            let unwatch = watch.ok().map(|watch| Output::Unwatch { watch });
            self.outputs.extend(unwatch);
            return Err(problem);
        }
        if !self.tree.is_root(dir) {
            self.tree.add_root(dir);
        }
        self.handle_scanned(dir, watch, entries, now);
        #[cfg(test)]
        self.tree.check_invariants();
        Ok(())
    }

    /// Removes a root; does nothing if `dir` is not a root. The sockets below it are lost,
    /// including the expected ones.
    pub fn remove_root(&mut self, dir: &Path, now: Time) {
        if !self.tree.is_root(dir) {
            return;
        }
        let removed = self.tree.remove_root(dir);
        self.report_removed(removed, now);
        self.report_uncovered_lost();
        self.retry_at = self.tree.next_retry();
        #[cfg(test)]
        self.tree.check_invariants();
    }

    /// Returns whether scans from a root reach a path, if the directories on the way exist.
    pub fn covers(&self, path: &Path) -> bool {
        let leads = |root: &Arc<Path>| path.strip_prefix(root).is_ok_and(is_followed);
        self.tree.roots().iter().any(leads)
    }

    /// Reports the expected sockets that no root covers as lost.
    pub(super) fn report_uncovered_lost(&mut self) {
        let paths = self.expected.iter();
        let uncovered: Vec<_> = paths.filter(|path| !self.covers(path)).cloned().collect();
        for path in uncovered {
            self.expected.remove(&path);
            self.outputs.push_back(Output::Lost { path });
        }
    }
}

/// Returns whether a scan of a root follows this relative path: a scan only descends, and skips
/// hidden names.
fn is_followed(way: &Path) -> bool {
    way.components()
        .all(|part| matches!(part, Component::Normal(name) if !is_hidden(name)))
}

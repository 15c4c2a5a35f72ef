//! What it means that a directory was scanned: which watch it has, and what is in it.
//!
//! Pure. What a listing holds is taken in; what it does not hold is looked at, because it may have
//! come after the listing.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::{
    Child, Entry, HIDDEN, Kind, Listing, OTHER, Output, Problem, Report, Watch, WatchId, is_hidden,
};
use crate::time::Time;
use crate::{config, escape};

impl Watch {
    pub(super) fn on_scanned(
        &mut self,
        dir: &Arc<Path>,
        watch: Result<WatchId, Problem>,
        entries: Result<Listing, Problem>,
        now: Time,
    ) {
        self.resync_at.get_or_insert(now + config::RESYNC_INTERVAL);
        if !self.tree.contains(dir) {
            // Given up between the request and the answer. A watch that serves another directory
            // stays.
            if let Ok(watch) = watch {
                if self.tree.watched_by(watch).is_none() {
                    self.outputs.push_back(Output::Unwatch { watch });
                }
            }
            return;
        }
        let mut problem = match watch {
            Ok(watch) => match self.claim(dir, watch) {
                Ok(()) => None,
                Err(conflict) => return self.give_up_children(dir, conflict, now),
            },
            Err(problem) => Some(problem),
        };
        match entries {
            Ok(listing) => {
                let unknown = unknown_names(&listing);
                let unexamined = (!unknown.is_empty()).then_some(Problem::NotExamined);
                let unreported = listing.unreported.clone().map(Problem::NotReported);
                let misfit = self.compare(dir, listing).err();
                self.settle_expected(dir, misfit.is_none(), &unknown);
                problem = problem.or(misfit).or(unexamined).or(unreported);
            }
            Err(gone) if gone.means_gone() => return self.on_dir_gone(dir, gone, now),
            // What is not readable now may still be there: healthy plugins stay.
            Err(unreadable) => {
                problem = Some(unreadable);
                self.settle_expected(dir, false, &[]);
            }
        }
        self.set_problem(dir, problem, now);
    }

    /// Decides about the expected sockets below a directory that has just been read, as a whole or
    /// not, and with these names that could not be examined. Those below a sub directory are left
    /// to that one's own scan.
    fn settle_expected(&mut self, dir: &Arc<Path>, is_whole: bool, unknown: &[OsString]) {
        let Some(children) = self
            .tree
            .children(dir)
            .filter(|_| !self.expected.is_empty())
        else {
            return;
        };
        let (mut missing, mut undecided) = (Vec::new(), 0);
        for path in self.expected.below(dir) {
            let rest = path.strip_prefix(dir).ok();
            let Some(name) = rest.and_then(|rest| rest.iter().next()) else {
                continue;
            };
            match children.get(name) {
                Some(Child::Directory(_)) => {}
                _ if is_whole && !unknown.iter().any(|it| it == name) => {
                    missing.push(name.to_owned());
                }
                _ => undecided += 1,
            }
        }
        if self.expected.is_news(dir, undecided) {
            let dir = Arc::clone(dir);
            let sockets = undecided;
            let report = Report::Undecided { dir, sockets };
            self.outputs.push_back(Output::Report(report));
        }
        missing.dedup();
        for name in missing {
            let path = self.joint.join(dir, &name);
            self.look(path);
        }
    }

    /// Makes `watch` the watch of `dir`. The kernel gives one watch per directory and instance,
    /// whatever its path.
    ///
    /// If another path had it, the directory has come from there to here, as a rule: that path is
    /// scanned again and keeps what is known of it until then, because two directories may have
    /// changed places. Two paths that take the watch from each other all the time are the same
    /// directory, mounted twice.
    fn claim(&mut self, dir: &Arc<Path>, watch: WatchId) -> Result<(), Problem> {
        match self.tree.watched_by(watch) {
            Some(same) if same == *dir => return Ok(()),
            Some(other) => {
                let is_below = self.tree.is_root(&other) || dir.starts_with(&other);
                let same = Problem::SameAs(Arc::clone(&other));
                let is_known = self.tree.problem(dir) == Some(&same);
                if !is_known {
                    self.rescan(Arc::clone(&other));
                }
                if is_known || is_below || self.tree.disputes(dir) >= MAX_DISPUTES {
                    return Err(same);
                }
                self.tree.set_watch(&other, None);
                self.tree.dispute(&other);
            }
            None => self.tree.settle(dir),
        }
        if let Some(old) = self.tree.set_watch(dir, Some(watch)) {
            self.outputs.push_back(Output::Unwatch { watch: old });
            self.rescan_same_as(dir);
        }
        Ok(())
    }

    /// Scans the directories that were taken for `dir` under another path: it is another one now.
    pub(super) fn rescan_same_as(&mut self, dir: &Path) {
        for same in self.tree.same_as(dir) {
            self.rescan(same);
        }
    }

    /// Brings what is known of `dir` in line with what was listed, and says what did not fit.
    fn compare(&mut self, dir: &Path, listing: Listing) -> Result<(), Problem> {
        let mut outcome = Ok(());
        if self.tree.set_listed(dir) {
            log_ignored(dir, &listing);
        }
        if listing.complete {
            let names = listing.entries.iter().map(|entry| &*entry.name);
            for unseen in self.tree.names_except(dir, names.collect()) {
                let path = self.joint.join(dir, &unseen);
                self.look(path);
            }
        } else {
            outcome = Err(Problem::TooManyNames);
        }
        for Entry { name, kind } in listing.entries {
            if !is_hidden(&name) {
                let seen = self.see(dir, &name, None, kind);
                outcome = outcome.and(seen);
            }
        }
        outcome
    }
}

/// Returns the names in a listing that could not be examined.
fn unknown_names(listing: &Listing) -> Vec<OsString> {
    let unknown = listing.entries.iter().filter(|entry| {
        let is_hidden = is_hidden(&entry.name);
        entry.kind == Kind::Unknown && !is_hidden
    });
    unknown.map(|entry| entry.name.clone()).collect()
}

/// Logs what a directory holds besides plugin sockets and directories.
fn log_ignored(dir: &Path, listing: &Listing) {
    for Entry { name, kind } in &listing.entries {
        let why = match kind {
            _ if is_hidden(name) => HIDDEN,
            Kind::Other => OTHER,
            _ => continue,
        };
        log::debug!("{}: ignored: {why}", escape::path(&dir.join(name)));
    }
}

/// How many times the watch of a directory may turn out to be that of another path before both are
/// taken for the same directory: two that change places once in between are not.
pub(super) const MAX_DISPUTES: u8 = 3;

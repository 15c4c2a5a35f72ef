//! Handling of scan results: which watch a directory has, and which entries it holds.
//!
//! Pure. The directory is watched before it is listed: a change that the listing missed is reported
//! as an event, and examined. Known entries may have been examined after the listing, so it only
//! adds:
//! - A listed name that is unknown is added.
//! - A known name that is listed as another kind of file is examined, and so is, at the end, a
//!   known name that is not listed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use super::path;
use super::tree::Child;
use super::{
    Entry, EntryKind, HIDDEN, Listing, OTHER, Output, Problem, Report, Watch, WatchId, is_hidden,
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
        self.tree.set_scan_wanted(dir, false);
        if !self.tree.contains(dir) {
            // Given up between the request and the answer. A watch that serves another directory is
            // kept.
            if let Ok(watch) = watch {
                self.outputs.push_back(Output::Unwatch { watch });
            }
            return;
        }
        let unwatched = match watch {
            Ok(watch) => match self.claim(dir, watch, now) {
                Ok(()) => None,
                Err(conflict) => return self.give_up_children(dir, conflict, now),
            },
            Err(problem) => Some(problem),
        };
        match entries {
            Ok(listing) => {
                self.rounds.count_directory();
                self.compare(dir, listing, unwatched, now);
            }
            Err(gone) if gone.means_gone() => return self.on_dir_gone(dir, gone, now),
            // An unreadable directory may still exist: healthy plugins stay.
            Err(unreadable) => {
                self.settle_expected(dir, false, &BTreeSet::new());
                self.set_problem(dir, Some(unreadable), now);
            }
        }
        self.scans.restart(dir, now);
    }

    /// Applies the listing of a directory. `unwatched` is the reason why it is not watched.
    fn compare(
        &mut self,
        dir: &Arc<Path>,
        listing: Listing,
        unwatched: Option<Problem>,
        now: Time,
    ) {
        if self.tree.set_listed(dir) {
            log_ignored(dir, &listing);
        }
        let mut unlisted = self.tree.names(dir);
        let mut unexamined = BTreeSet::new();
        let mut misfit = listing.is_cut.then_some(Problem::TooManyNames);
        for Entry { name, kind } in listing.entries {
            if is_hidden(&name) {
                continue;
            }
            if kind != EntryKind::Other {
                unlisted.remove(&name);
            }
            if let Err(problem) = self.see_listed(dir, &name, kind, now) {
                misfit.get_or_insert(problem);
            }
            if kind == EntryKind::Unknown {
                unexamined.insert(name);
            }
        }
        for name in unlisted {
            let path = path::join(dir, &name);
            self.examine(path);
        }
        if self.expected.remove(dir) {
            // It is a directory now, as a container runtime creates to mount a socket that is gone.
            self.push_lost(Arc::clone(dir));
        }
        self.settle_expected(dir, misfit.is_none(), &unexamined);
        let not_examined = (!unexamined.is_empty()).then_some(Problem::NotExamined);
        let not_reported = listing.unreported.map(Problem::NotReported);
        let problem = unwatched.or(misfit).or(not_examined).or(not_reported);
        self.set_problem(dir, problem, now);
    }

    /// Applies one entry of a listing.
    fn see_listed(
        &mut self,
        dir: &Path,
        name: &OsStr,
        kind: EntryKind,
        now: Time,
    ) -> Result<(), Problem> {
        match (self.tree.child(dir, name), kind) {
            (_, EntryKind::Other | EntryKind::Unknown)
            | (Some(Child::Directory { .. }), EntryKind::Directory) => Ok(()),
            (None, kind) => {
                let path = path::join(dir, name);
                self.add(path, kind, now)
            }
            (Some(Child::Socket { .. }), EntryKind::Socket(_) | EntryKind::Link(_)) => {
                let path = path::join(dir, name);
                self.see(&path, kind, now)
            }
            (Some(_), _) => {
                let path = path::join(dir, name);
                self.examine(path);
                Ok(())
            }
        }
    }

    /// Decides about the expected sockets below a directory that has just been read, completely
    /// (`is_whole`) or not; the names in `unknown` could not be examined. Sockets below a
    /// subdirectory are left to the scan of that directory.
    fn settle_expected(&mut self, dir: &Arc<Path>, is_whole: bool, unknown: &BTreeSet<OsString>) {
        let (mut missing, mut undecided) = (BTreeSet::new(), 0);
        for path in self.expected.below(dir) {
            let rest = path.strip_prefix(dir).ok();
            let Some(name) = rest.and_then(|rest| rest.iter().next()) else {
                continue;
            };
            match self.tree.child(dir, name) {
                Some(Child::Directory { .. }) => {}
                _ if is_whole && !unknown.contains(name) => {
                    missing.insert(name.to_owned());
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
        for name in missing {
            let path = path::join(dir, &name);
            self.examine(path);
        }
    }

    /// Makes `watch` the watch of `dir`. The kernel has one watch per directory and instance,
    /// whatever the path.
    ///
    /// If the watch belonged to another path, the directory has usually been moved from there to
    /// here. The other path is scanned again; what is known of it stays until then, because two
    /// directories may have been exchanged. If two paths keep taking the watch from each other,
    /// they are the same directory, mounted twice.
    fn claim(&mut self, dir: &Arc<Path>, watch: WatchId, now: Time) -> Result<(), Problem> {
        match self.tree.watched_by(watch) {
            Some(same) if same == *dir => return Ok(()),
            Some(other) => {
                let is_below = self.tree.is_root(&other) || dir.starts_with(&other);
                let same = Problem::SameAs(Arc::clone(&other));
                let is_known = self.tree.problem(dir) == Some(&same);
                if !is_known {
                    self.rescan(Arc::clone(&other), now);
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
            self.rescan_each(self.tree.same_as(dir), now);
        }
        // Another directory is at the path now, so its subdirectories of the same names are others,
        // too.
        self.rescan_each(self.tree.subdirectories(dir), now);
        Ok(())
    }
}

/// Logs the entries of a listing that are neither plugin sockets nor directories.
fn log_ignored(dir: &Path, listing: &Listing) {
    for Entry { name, kind } in &listing.entries {
        let why = match kind {
            _ if is_hidden(name) => HIDDEN,
            EntryKind::Other => OTHER,
            _ => continue,
        };
        log::debug!("{}: ignored: {why}", escape::path(&dir.join(name)));
    }
}

/// The number of times that the watch of a directory may turn out to be that of another path before
/// both are considered the same directory: directories that are merely exchanged once in between
/// stay below.
pub(super) const MAX_DISPUTES: u8 = 3;

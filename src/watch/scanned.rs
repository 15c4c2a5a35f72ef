//! Handling of scan results: the watch of a directory, and its entries.
//!
//! The directory is watched before it is listed: a change that the listing missed is reported as an
//! event, and examined. A known name that is not listed is examined, too.

use std::ffi::OsString;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use super::tree::{self, Child};
use super::{Entry, EntryKind, HIDDEN, Listing, OTHER, Output, Problem, Watch, WatchId, is_hidden};
use crate::octets::PathKey;
use crate::time::Time;
use crate::{config, escape};

impl Watch {
    pub(super) fn handle_scanned(
        &mut self,
        dir: &Arc<Path>,
        watch: Result<WatchId, Problem>,
        entries: Result<Listing, Problem>,
        now: Time,
    ) {
        self.resync_at.get_or_insert(now + config::RESYNC_INTERVAL);
        let Some(known) = self.tree.get_mut(dir) else {
            // The directory was removed from the tree before the answer. The new watch is removed,
            // unless it is the watch of another path.
            let unwatch = watch.ok().map(|watch| Output::Unwatch { watch });
            return self.outputs.extend(unwatch);
        };
        known.is_scan_wanted = false;
        let watched = watch.and_then(|watch| self.claim_watch(dir, watch, now));
        let entries = match &watched {
            Err(same @ Problem::SameAs(_)) => Err(same.clone()),
            _ => entries,
        };
        match entries {
            Ok(listing) => self.apply_listing(dir, listing, watched.err(), now),
            Err(gone) if gone.means_gone() && self.tree.is_root(dir) => {
                let removed = self.tree.clear(dir);
                self.report_removed(removed, now);
                self.report_expected_lost(dir);
                self.set_problem(dir, Some(gone), now);
            }
            Err(gone) if gone.means_gone() => self.remove_path(dir, now),
            // An unreadable directory may still exist, so its plugins stay.
            Err(unreadable) => self.set_problem(dir, Some(unreadable), now),
        }
    }

    /// Applies the listing of a directory. `unwatched` is the reason why the directory is not
    /// watched, if it is not.
    fn apply_listing(
        &mut self,
        dir: &Arc<Path>,
        listing: Listing,
        unwatched: Option<Problem>,
        now: Time,
    ) {
        if let Some(known) = self.tree.get_mut(dir) {
            if !mem::replace(&mut known.is_listed, true) {
                log_ignored(dir, &listing);
            }
        }
        let mut unlisted = self.tree.children(dir);
        let mut unexamined = Vec::new();
        let mut misfit = listing.is_cut.then_some(Problem::TooManyNames);
        for Entry { name, kind } in listing.entries {
            if is_hidden(&name) || kind == EntryKind::Other {
                continue;
            }
            let path = PathKey(tree::join(dir, &name));
            unlisted.remove(&path);
            if kind == EntryKind::Unknown {
                unexamined.push(name);
            } else if let Err(problem) = self.apply_kind(dir, &path.0, kind, now) {
                misfit.get_or_insert(problem);
            }
        }
        for PathKey(path) in unlisted {
            self.examine(path);
        }
        if self.expected.remove(dir) {
            // A container runtime that is to mount a socket which does not exist creates a
            // directory in its place.
            self.outputs.push_back(Output::Lost {
                path: Arc::clone(dir),
            });
        }
        unexamined.sort_unstable();
        if misfit.is_none() {
            self.examine_expected(dir, &unexamined);
        }
        let not_examined = (!unexamined.is_empty()).then_some(Problem::NotExamined);
        let not_reported = listing.unreported.map(Problem::NotReported);
        let problem = unwatched.or(misfit).or(not_examined).or(not_reported);
        self.set_problem(dir, problem, now);
    }

    /// Examines the expected sockets below a directory that was just listed completely, except
    /// those whose names could not be examined (`unknown`, sorted). Sockets below a subdirectory
    /// are left to the scan of that subdirectory.
    fn examine_expected(&mut self, dir: &Arc<Path>, unknown: &[OsString]) {
        let mut missing = Vec::<Arc<Path>>::new();
        for path in self.expected.at_and_below(dir) {
            let rest = path.strip_prefix(dir).ok();
            let Some(name) = rest.and_then(|rest| rest.iter().next()) else {
                continue;
            };
            let is_unknown = unknown.binary_search_by(|it| (**it).cmp(name)).is_ok();
            let path = tree::join(dir, name);
            let is_directory = self.tree.child(dir, &path) == Some(Child::Directory);
            if !is_unknown && !is_directory && missing.last() != Some(&path) {
                missing.push(path);
            }
        }
        for path in missing {
            self.examine(path);
        }
    }

    /// Makes `watch` the watch of `dir`. An inotify instance has one watch per directory, whatever
    /// the path.
    ///
    /// Fails if the watch belongs to another path: the directory is mounted at both paths, or was
    /// moved from there a moment ago.
    fn claim_watch(&mut self, dir: &Arc<Path>, watch: WatchId, now: Time) -> Result<(), Problem> {
        let owner = self.tree.dir_of_watch(watch);
        if owner.as_ref() == Some(dir) {
            return Ok(());
        }
        if let Some(watch) = self.tree.set_watch(dir, None) {
            self.outputs.push_back(Output::Unwatch { watch });
        }
        if let Some(other) = owner {
            return Err(Problem::SameAs(other));
        }
        self.tree.set_watch(dir, Some(watch));
        // Another directory may be at the path now, so its subdirectories may not be the known
        // ones, even if they have the same names.
        let below = self.tree.paths_at_and_below(dir).into_iter().skip(1);
        self.rescan_each(below, now);
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

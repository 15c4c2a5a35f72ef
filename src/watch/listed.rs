//! Handling of scan results: which watch a directory has, and which entries it holds.
//!
//! Pure. A directory is listed in pieces, and other changes occur between them, so a piece can
//! contradict what is known by then. Known entries were examined a moment ago; a listing may be
//! older. So a listing only adds:
//! - A listed name that is unknown is added.
//! - A known name that is listed as another kind of file is examined, and so is, at the end, a
//!   known name that is not listed.
//!
//! The directory is watched before it is listed: a change that the listing missed is reported as an
//! event, and examined, too.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use super::{
    Child, Children, Entry, EntryKind, HIDDEN, Listing, OTHER, Output, Problem, Report, Rest,
    Watch, WatchId, is_hidden,
};
use crate::time::Time;
use crate::{config, escape};

/// The listings in progress.
#[derive(Debug, Default)]
pub(super) struct Listings {
    /// At most [`config::MAX_OPEN_LISTINGS`], in the order in which they continue.
    open: Vec<Open>,
    /// The directories whose first piece arrived when there were too many open listings.
    waiting: VecDeque<Arc<Path>>,
    /// The number of other outputs since the last piece was requested.
    others: usize,
}

/// A listing in progress.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
struct Open {
    dir: Arc<Path>,
    /// Whether the next piece was requested.
    is_asked: bool,
    /// Whether the directory has to be scanned again afterwards.
    is_again: bool,
    /// Whether a round reached the directory meanwhile (`rounds`).
    is_late: bool,
    /// The number of the rescan that was in progress at the beginning.
    rescan: u64,
    /// Whether this is the first listing of the directory.
    is_first: bool,
    /// The reason why the directory is not watched.
    unwatched: Option<Problem>,
    /// The limit that an entry exceeded.
    misfit: Option<Problem>,
    unreported: Option<String>,
    /// Whether any entries could not be examined.
    is_unexamined: bool,
    /// The names of those entries, while sockets are expected.
    unexamined: Vec<OsString>,
}

impl Listings {
    pub(super) fn is_open(&self, dir: &Path) -> bool {
        self.open.iter().any(|open| *open.dir == *dir)
    }

    /// Returns whether any listing is waiting to continue.
    pub(super) fn is_any_to_go_on(&self) -> bool {
        self.open.iter().any(|open| !open.is_asked)
    }

    /// Schedules another scan of a directory after its listing, if one is in progress.
    pub(super) fn repeat(&mut self, dir: &Path) {
        for open in &mut self.open {
            open.is_again |= *open.dir == *dir;
        }
    }

    /// Records that a round reached a directory during its listing.
    pub(super) fn set_late(&mut self, dir: &Path) {
        for open in &mut self.open {
            open.is_late |= *open.dir == *dir;
        }
    }

    /// Counts an output that does not belong to a listing.
    pub(super) fn count_output(&mut self) {
        self.others = self.others.saturating_add(1);
    }

    /// Returns whether there were enough other outputs for a listing to continue.
    pub(super) fn is_turn(&self) -> bool {
        self.others >= OTHERS
    }

    /// Returns the directory whose next piece is to be requested, in rotation.
    pub(super) fn next_listing(&mut self) -> Option<Arc<Path>> {
        let place = self.open.iter().position(|open| !open.is_asked)?;
        let mut open = self.open.remove(place);
        open.is_asked = true;
        let dir = Arc::clone(&open.dir);
        self.open.push(open);
        self.others = 0;
        Some(dir)
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    #[cfg(test)]
    pub(super) fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert!(self.open.len() <= config::MAX_OPEN_LISTINGS);
        for (place, open) in self.open.iter().enumerate() {
            let others = &self.open[place + 1..];
            assert!(others.iter().all(|it| it.dir != open.dir), "{open:?}");
        }
    }

    fn take(&mut self, dir: &Path) -> Option<Open> {
        let place = self.open.iter().position(|open| *open.dir == *dir)?;
        Some(self.open.remove(place))
    }
}

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
        let is_again = self.begin_anew(dir, &entries);
        if !self.tree.contains(dir) {
            // Given up between the request and the answer. A watch that serves another directory is
            // kept.
            if let Ok(watch) = watch {
                self.outputs.push_back(Output::Unwatch { watch });
            }
            self.close(dir, &entries);
            return self.admit_next();
        }
        let unwatched = match watch {
            Ok(watch) => match self.claim(dir, watch, now) {
                Ok(()) => None,
                Err(conflict) => {
                    self.close(dir, &entries);
                    self.give_up_children(dir, conflict, now);
                    self.rescans.read(dir, self.rescans.number(), false);
                    return self.admit_next();
                }
            },
            Err(problem) => Some(problem),
        };
        let open = Open {
            dir: Arc::clone(dir),
            is_asked: false,
            is_again,
            is_late: false,
            rescan: self.rescans.number(),
            is_first: entries.is_ok() && self.tree.begin_listing(dir),
            unwatched,
            misfit: None,
            unreported: None,
            is_unexamined: false,
            unexamined: Vec::new(),
        };
        self.take_piece(open, entries, now);
    }

    pub(super) fn on_listed(
        &mut self,
        dir: &Arc<Path>,
        entries: Result<Listing, Problem>,
        now: Time,
    ) {
        match self.listings.take(dir) {
            Some(open) => self.take_piece(open, entries, now),
            None => self.close(dir, &entries),
        }
    }

    /// Scans a directory again if the shell has closed the listing that the watch wants to
    /// continue.
    pub(super) fn on_unlisted(&mut self, dir: Arc<Path>, now: Time) {
        if self.listings.take(&dir).is_some() {
            self.rescan(dir, now);
            self.admit_next();
        }
    }

    /// Ends the listing of a directory that was in progress before this answer to a scan. Returns
    /// whether the directory has to be scanned once more.
    fn begin_anew(&mut self, dir: &Arc<Path>, entries: &Result<Listing, Problem>) -> bool {
        let Some(before) = self.listings.take(dir) else {
            return false;
        };
        // The shell has closed the old listing if a new one continues.
        let rest = entries.as_ref().map(|listing| listing.rest);
        if rest != Ok(Rest::Follows) {
            self.outputs.push_back(Output::Close { dir: before.dir });
        }
        before.is_again || before.is_late
    }

    /// Closes the listing of a directory that was given up.
    pub(super) fn close_listing(&mut self, dir: &Arc<Path>) {
        if self.listings.take(dir).is_some() {
            let dir = Arc::clone(dir);
            self.outputs.push_back(Output::Close { dir });
            self.admit_next();
        }
    }

    /// Closes a listing that is not wanted, if these entries are not its last ones.
    pub(super) fn close(&mut self, dir: &Arc<Path>, entries: &Result<Listing, Problem>) {
        let rest = entries.as_ref().map(|listing| listing.rest);
        if rest == Ok(Rest::Follows) {
            let dir = Arc::clone(dir);
            self.outputs.push_back(Output::Close { dir });
        }
    }

    fn take_piece(&mut self, mut open: Open, entries: Result<Listing, Problem>, now: Time) {
        let (dir, rescan, is_listed) = (Arc::clone(&open.dir), open.rescan, entries.is_ok());
        match entries {
            Ok(listing) => {
                let rest = listing.rest;
                self.compare(&mut open, listing, now);
                match rest {
                    Rest::Follows => return self.keep_open(open),
                    Rest::Ignored => open.misfit = Some(Problem::TooManyNames),
                    Rest::None => {}
                }
                self.finish(open, now);
            }
            Err(gone) if gone.means_gone() => self.on_dir_gone(&open.dir, gone, now),
            // An unreadable directory may still exist: healthy plugins stay.
            Err(unreadable) => {
                self.settle_expected(&open.dir, false, &[]);
                self.set_problem(&open.dir, Some(unreadable), now);
                self.end(&open, now);
            }
        }
        self.rescans.read(&dir, rescan, is_listed);
        self.admit_next();
    }

    /// Keeps a listing that continues later. If too many are open, it starts over when there is
    /// room: a small directory needs only one piece and never waits for large ones.
    fn keep_open(&mut self, mut open: Open) {
        if self.listings.open.len() < config::MAX_OPEN_LISTINGS {
            open.is_asked = false;
            return self.listings.open.push(open);
        }
        if !self.listings.waiting.contains(&open.dir) {
            self.listings.waiting.push_back(Arc::clone(&open.dir));
        }
        self.outputs.push_back(Output::Close { dir: open.dir });
    }

    /// Scans the next directory that waits for room. Called after every scan that ends or is
    /// dropped, because that scan may be the one of a directory that waited.
    pub(super) fn admit_next(&mut self) {
        while self.listings.open.len() < config::MAX_OPEN_LISTINGS {
            let Some(dir) = self.listings.waiting.pop_front() else {
                return;
            };
            if self.tree.contains(&dir) && !self.listings.is_open(&dir) {
                let place = self.place(&dir);
                return self.want_scan(dir, place);
            }
        }
    }

    /// Finishes a listing: known names that it did not hold are examined.
    fn finish(&mut self, mut open: Open, now: Time) {
        for path in self.tree.unlisted(&open.dir) {
            self.examine(path);
        }
        if self.expected.remove(&open.dir) {
            // It is a directory now, as a container runtime creates to mount a socket that is gone.
            self.push_lost(Arc::clone(&open.dir));
        }
        self.settle_expected(&open.dir, open.misfit.is_none(), &open.unexamined);
        let unexamined = open.is_unexamined.then_some(Problem::NotExamined);
        let unreported = open.unreported.take().map(Problem::NotReported);
        let problem = open.unwatched.take().or_else(|| open.misfit.take());
        self.set_problem(&open.dir, problem.or(unexamined).or(unreported), now);
        self.end(&open, now);
    }

    fn end(&mut self, open: &Open, now: Time) {
        self.scans.restart(&open.dir, now);
        if open.is_late {
            self.rounds.add_late(Arc::clone(&open.dir), now);
        }
        if open.is_again {
            self.rescan(Arc::clone(&open.dir), now);
        }
    }

    /// Decides about the expected sockets below a directory that has just been read, completely
    /// (`is_whole`) or not; the names in `unknown` could not be examined. Sockets below a
    /// subdirectory or a root inside are left to the scan of that directory.
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
            if self.is_in_root_inside(dir, path) {
                continue;
            }
            let rest = path.strip_prefix(dir).ok();
            let Some(name) = rest.and_then(|rest| rest.iter().next()) else {
                continue;
            };
            match children.get(name) {
                Some(Child::Directory { .. }) => {}
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
            let path = self.scratch.join(dir, &name);
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
            self.rescan_same_as(dir, now);
        }
        self.rescan_children(dir, now);
        Ok(())
    }

    /// Scans the known directories in `dir` again: another directory is at its path now, so its
    /// subdirectories of the same names are others, too.
    fn rescan_children(&mut self, dir: &Path, now: Time) {
        let children = self.tree.children(dir).into_iter();
        let directories = children.flat_map(Children::iter);
        let directories = directories.filter(|it| matches!(it, Child::Directory { .. }));
        let paths: Vec<_> = directories.map(|it| Arc::clone(it.path())).collect();
        for path in paths {
            self.rescan(path, now);
        }
    }

    /// Scans the directories again that were found to be `dir` under another path: `dir` is another
    /// directory now.
    pub(super) fn rescan_same_as(&mut self, dir: &Path, now: Time) {
        for same in self.tree.same_as(dir) {
            self.rescan(same, now);
        }
    }

    /// Applies one piece of a listing.
    fn compare(&mut self, open: &mut Open, listing: Listing, now: Time) {
        if open.is_first {
            log_ignored(&open.dir, &listing);
        }
        open.unreported = listing.unreported.or_else(|| open.unreported.take());
        for Entry { name, kind } in listing.entries {
            if is_hidden(&name) {
                continue;
            }
            if let Err(problem) = self.see_listed(&open.dir, &name, kind, now) {
                open.misfit.get_or_insert(problem);
            }
            if kind == EntryKind::Unknown {
                open.is_unexamined = true;
                if !self.expected.is_empty() {
                    open.unexamined.push(name);
                }
            }
        }
    }

    /// Applies one entry of a listing.
    fn see_listed(
        &mut self,
        dir: &Path,
        name: &OsStr,
        kind: EntryKind,
        now: Time,
    ) -> Result<(), Problem> {
        let Some(children) = self.tree.children(dir) else {
            return Ok(()); // The directory has been given up meanwhile.
        };
        match (children.get(name), kind) {
            (None, EntryKind::Other | EntryKind::Unknown) => {}
            (None, kind) => {
                let path = self.scratch.join(dir, name);
                return self.add(dir, path, kind, now);
            }
            (
                Some(Child::Socket { identity, path, .. }),
                EntryKind::Socket(seen) | EntryKind::Link(seen),
            ) => {
                if *identity != seen {
                    let is_link = matches!(kind, EntryKind::Link(_));
                    let found = (Arc::clone(path), seen, is_link);
                    return self.renew(dir, name, found, now);
                }
                self.tree.set_listed(dir, name);
            }
            (Some(Child::Directory { .. }), EntryKind::Directory)
            | (Some(_), EntryKind::Unknown) => {
                self.tree.set_listed(dir, name);
            }
            (Some(known), EntryKind::Socket(_) | EntryKind::Link(_) | EntryKind::Directory) => {
                let path = Arc::clone(known.path());
                self.examine(path);
            }
            // It is examined when the listing ends.
            (Some(_), EntryKind::Other) => {}
        }
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

/// The number of other outputs between two pieces of listings, if there are as many.
const OTHERS: usize = config::LISTED_AT_ONCE;

//! The watch, which turns inotify events and scan results into sockets that are found or lost.
//!
//! Pure. The shell owns the inotify instance and examines directories; this machine decides what is
//! examined next and what the answers mean. It never accesses the file system and never blocks.
//!
//! ```text
//!            Input::Event      -> [ Watch ] -> Output::Scan    (watch FIRST, then list)
//!            Input::Scanned    ->           -> Output::List    (the next piece, please)
//!            Input::Listed     ->           -> Output::Examine (what is at this path?)
//!            Input::Examined   ->           -> Output::Unwatch / Close
//!   handle_timeout (1 s tick)  ->           -> Output::Found / Lost / Report
//! ```
//!
//! Invariants:
//! - The whole tree below each root is watched, every subdirectory by a watch of its own, down to
//!   [`config::MAX_TREE_DEPTH`].
//! - A name that starts with a dot is ignored, file or directory, whether it existed at the start
//!   or was added later.
//! - Roots can be added and removed at any time (`roots`). One inside another has a tree of its
//!   own, which the outer one leaves out.
//! - Only sockets count. A symbolic link to a socket counts as a socket under the link's own path;
//!   the link is resolved when it appears. A link to a directory is not followed: that keeps the
//!   tree a tree.
//! - One socket has one path, whatever links lead to it: the first that is seen, or the socket's own
//!   rather than a symbolic link. Others are ignored, and examined when that one goes (`sockets`).
//! - Seeing the same identity twice changes nothing. Another identity under a known path is found
//!   again: for the manager it is a new generation. A path whose identity is doubted is examined
//!   again, and a path that cannot be examined keeps its last known state.
//! - A socket that is expected from before a restart is found, or lost once its directory has been
//!   listed completely (`expected`).
//! - There is one remedy for every doubt: scan the directory again and compare. It serves the first
//!   scan, a queue that overflowed, a directory that was moved, and a watch that could not be
//!   added.
//! - A name that an event or a listing reports as gone is examined first: another file may exist
//!   there by then, or the same one again (`RENAME_EXCHANGE`).
//! - The work is bounded, however often something changes: one scan of a directory is wanted at a
//!   time, and one that is wanted again soon waits for a pause that doubles (`pauses`). What
//!   concerns all directories is done in rounds, after a pause that stays short (`rounds`). A large
//!   directory is listed in pieces, a few directories at a time; pieces are requested in between
//!   other outputs (`listed`). The shell decides how many outputs it carries out in one turn.
//! - A directory with a problem is reported once. If time can help, it is tried again: on the tick,
//!   or, if a limit is exceeded, after a pause that doubles. The rest of the tree is still
//!   followed. If no directory can be watched at all, all of them are followed by scans, and only
//!   the root is reported, once.
//! - Once per [`config::RESYNC_INTERVAL`] everything is scanned: the kernel does not report some
//!   changes, such as a symbolic link whose target becomes a socket.

mod children;
mod directories;
mod event;
mod expected;
mod identity;
mod input;
mod listed;
mod output;
mod path;
mod pauses;
mod problem;
mod rescans;
mod roots;
mod rounds;
mod sockets;
mod tree;
mod wanted;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::time::Time;
use crate::{config, escape};

use self::children::{Child, Children};
pub use self::directories::{Directory, DirectoryState, MAX_TROUBLED};
pub use self::event::{Event, WatchId};
use self::expected::Expected;
pub use self::identity::{Entry, EntryKind, Identity, Listing, Rest};
pub use self::input::Input;
use self::listed::Listings;
pub use self::output::{Output, Place, Report};
use self::path::{PathScratch, split};
use self::pauses::Pauses;
pub use self::problem::{Cause, Problem};
pub use self::rescans::Rescanned;
use self::rescans::Rescans;
pub use self::rounds::RoundReason;
use self::rounds::Rounds;
use self::tree::{Removed, Tree};
use self::wanted::{AT_ONCE, DOUBTS, EXAMINATIONS, SCANS};

/// The known plugin sockets below a set of directories.
#[derive(Debug)]
pub struct Watch {
    tree: Tree,
    scratch: PathScratch,
    outputs: VecDeque<Output>,
    expected: Expected,
    /// The doubted paths and their pauses.
    doubts: Pauses,
    /// The directories that were scanned because of a change, and their pauses.
    scans: Pauses,
    /// The known names that were examined because of a change, and their pauses.
    examinations: Pauses,
    listings: Listings,
    rounds: Rounds,
    rescans: Rescans,
    /// The next time at which directories with a problem are tried again.
    retry_at: Option<Time>,
    /// The next time at which everything is scanned without an event; `None` before the first scan.
    resync_at: Option<Time>,
}

impl Watch {
    /// Creates a watch on the directories that the user named, whether or not one is inside
    /// another. More can follow with [`Watch::add_root`].
    pub fn new(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut watch = Self {
            tree: Tree::default(),
            scratch: PathScratch::default(),
            outputs: VecDeque::new(),
            expected: Expected::default(),
            doubts: Pauses::new(DOUBTS),
            scans: Pauses::new(SCANS),
            examinations: Pauses::new(EXAMINATIONS),
            listings: Listings::default(),
            rounds: Rounds::default(),
            rescans: Rescans::default(),
            retry_at: None,
            resync_at: None,
        };
        for root in roots {
            let root = Arc::from(root);
            if !watch.tree.contains(&root) {
                watch.tree.add_root(&root);
                watch.want_scan(root, Place::MissingRoot);
            }
        }
        watch.begin_first_rescan();
        watch
    }

    /// Expects these sockets; called before anything is scanned. Those that do not exist any more
    /// are reported as lost, each once its directory has been listed completely. Sockets below none
    /// of the roots are lost at once: a root that is added later does not wait for them.
    pub fn expect(&mut self, sockets: Vec<Arc<Path>>) {
        self.expected = Expected::new(sockets);
        self.lose_uncovered();
    }

    /// Handles an input that arrived at `now`.
    pub fn handle_input(&mut self, input: Input, now: Time) {
        match input {
            Input::Event(event) => self.on_event(event, now),
            Input::Scanned {
                dir,
                watch,
                entries,
            } => self.on_scanned(&dir, watch, entries, now),
            Input::Listed { dir, entries } => self.on_listed(&dir, entries, now),
            Input::Unlisted { dir } => self.on_unlisted(dir, now),
            Input::Examined { path, kind } => {
                self.on_examined(&path, kind, now);
            }
            Input::Doubted { path } => {
                // Nothing is examined below a directory that was given up.
                if self.tree.contains(split(&path).0) && self.doubts.ask(&path, now) {
                    self.examine(path);
                }
            }
            Input::Remounted { dir } => self.rescan_below(&dir, now),
        }
        self.check_invariants();
    }

    /// Scans what is due by `now`; an early call is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.resync_at.is_some_and(|at| at <= now) {
            self.resync_at = Some(now + config::RESYNC_INTERVAL);
            self.scans.forget_calm(now);
            self.doubts.forget_calm(now);
            self.examinations.forget_calm(now);
            self.rescan_all(RoundReason::Resync, now);
        }
        self.go_on_with_round(now);
        if self.retry_at.is_some_and(|at| at <= now) {
            for (dir, place) in self.tree.take_retries(now, AT_ONCE) {
                self.want_scan(dir, place);
            }
            self.retry_at = self.tree.next_retry();
        }
        for dir in self.scans.take_due(now, AT_ONCE) {
            let place = self.place(&dir);
            if self.listings.is_open(&dir) {
                self.listings.repeat(&dir);
            } else if self.tree.contains(&dir) {
                self.want_scan(dir, place);
            }
        }
        for path in self.examinations.take_due(now, AT_ONCE) {
            self.examine(path);
        }
        for path in self.doubts.take_due(now, AT_ONCE) {
            self.examine(path);
        }
        self.check_invariants();
    }

    /// Returns when to call [`Watch::handle_timeout`]; `None` before anything was scanned.
    pub fn poll_timeout(&self) -> Option<Time> {
        let pauses = [&self.doubts, &self.scans, &self.examinations].map(Pauses::poll_timeout);
        let round = self.rounds.poll_timeout();
        let times = [self.retry_at, self.resync_at, round];
        let times = times.into_iter().chain(pauses);
        times.flatten().min()
    }

    /// Returns whether [`Watch::poll_output`] may return an output.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty() || self.listings.is_any_to_go_on()
    }

    /// Returns the least number of pending outputs. While it is high, events should stay in the
    /// kernel, whose queue is limited.
    pub fn backlog(&self) -> usize {
        self.outputs.len()
    }

    /// Returns the next output, or `None` if there is none or if many in a row have become
    /// obsolete.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() {
            self.outputs.shrink_to(config::IDLE_QUEUE_CAPACITY);
        }
        self.advance_rescan();
        for _ in 0..AT_ONCE {
            if self.outputs.is_empty() || self.listings.is_turn() {
                if let Some(dir) = self.listings.next_listing() {
                    return Some(Output::List { dir });
                }
            }
            self.listings.count_output();
            self.rescans.count_output();
            match self.outputs.pop_front()? {
                // The watch has moved with its directory, and serves that directory under another
                // path.
                Output::Unwatch { watch } if self.tree.watched_by(watch).is_some() => {}
                // The directory has been given up meanwhile.
                Output::Scan { dir, .. } if !self.tree.contains(&dir) => self.admit_next(),
                output => return Some(output),
            }
        }
        None
    }

    fn on_event(&mut self, event: Event, now: Time) {
        match event {
            Event::Appeared {
                watch,
                name,
                is_directory,
            } => self.on_appeared(watch, &name, is_directory, now),
            Event::Vanished { watch, name } => self.on_vanished(watch, &name, now),
            Event::Moved { watch } => {
                if let Some(dir) = self.tree.watched_by(watch) {
                    self.rescan(dir, now);
                }
            }
            Event::Unwatched { watch } => {
                if let Some(dir) = self.tree.watched_by(watch) {
                    self.tree.set_watch(&dir, None);
                    self.rescan(dir, now);
                }
            }
            Event::Overflowed => self.rescan_all(RoundReason::Overflow, now),
        }
    }

    fn on_appeared(&mut self, watch: WatchId, name: &OsStr, is_directory: bool, now: Time) {
        let Some(dir) = self.tree.watched_by(watch) else {
            return; // The directory has been given up meanwhile.
        };
        if is_hidden(name) {
            let path = self.scratch.join(&dir, name);
            return log::debug!("{}: ignored: {HIDDEN}", escape::path(&path));
        }
        let path = self.scratch.join(&dir, name);
        if !is_directory {
            if self.is_known(&dir, name) {
                self.examine_again(path, now);
            } else {
                self.examine(path);
            }
        } else if self.tree.contains(&path) {
            self.rescan(path, now); // A scan has already seen it, or it is another directory.
        } else {
            self.see_and_report(&path, EntryKind::Directory, now);
        }
    }

    /// Examines a name that vanished: the file may have been put back or replaced.
    fn on_vanished(&mut self, watch: WatchId, name: &OsStr, now: Time) {
        let Some(dir) = self.tree.watched_by(watch) else {
            return;
        };
        let path = self.scratch.join(&dir, name);
        if self.is_known(&dir, name) || !self.expected.below(&path).is_empty() {
            self.examine_again(path, now);
        }
    }

    fn is_known(&self, dir: &Path, name: &OsStr) -> bool {
        let children = self.tree.children(dir);
        children.is_some_and(|children| children.get(name).is_some())
    }

    fn on_examined(&mut self, path: &Arc<Path>, kind: EntryKind, now: Time) {
        let (dir, name) = split(path);
        match kind {
            EntryKind::Socket(_) | EntryKind::Link(_) => self.see_and_report(path, kind, now),
            // It may be a different directory than before.
            EntryKind::Directory if self.tree.contains(path) => {
                if self.tree.is_root(path) {
                    // The directory above knows no more than a socket there.
                    self.leave(dir, name, now);
                }
                self.rescan(Arc::clone(path), now);
            }
            EntryKind::Directory => self.see_and_report(path, kind, now),
            EntryKind::Other => {
                log::debug!("{}: ignored: {OTHER}", escape::path(path));
                self.leave(dir, name, now);
            }
            // The scan reports the name, and is repeated until the name can be examined.
            EntryKind::Unknown => {
                if let Some(dir) = self.tree.known(dir) {
                    self.rescan(dir, now);
                }
            }
        }
    }

    /// Reports the expected sockets at and below a path as lost: nothing exists there. Those to
    /// which a root inside leads are left to the scan of that root, which may be a symbolic link.
    fn lose_expected(&mut self, path: &Path) {
        let lost = self.expected.below(path).iter();
        let lost = lost.filter(|it| !self.is_in_root_inside(path, it));
        for path in lost.cloned().collect::<Vec<_>>() {
            self.report_lost(path);
        }
    }

    /// Reports an expected socket as lost.
    fn report_lost(&mut self, path: Arc<Path>) {
        self.expected.remove(&path);
        self.push_lost(path);
    }

    /// Applies what is at a path, and reports a limit that it exceeds.
    fn see_and_report(&mut self, path: &Arc<Path>, kind: EntryKind, now: Time) {
        let (dir, name) = split(path);
        if let Err(problem) = self.see(dir, name, path, kind, now) {
            if self.tree.problem(dir).is_none() {
                self.set_problem(dir, Some(problem), now);
            }
        }
    }

    /// Applies what is at a name; the same identity as before changes nothing.
    fn see(
        &mut self,
        dir: &Path,
        name: &OsStr,
        path: &Arc<Path>,
        kind: EntryKind,
        now: Time,
    ) -> Result<(), Problem> {
        let Some(children) = self.tree.children(dir) else {
            return Ok(()); // The directory has been given up meanwhile.
        };
        match (children.get(name), kind) {
            (
                Some(Child::Socket { identity, .. }),
                EntryKind::Socket(seen) | EntryKind::Link(seen),
            ) if *identity == seen => {
                self.tree.set_listed(dir, name);
                Ok(())
            }
            (
                Some(Child::Socket { path, .. }),
                EntryKind::Socket(identity) | EntryKind::Link(identity),
            ) => {
                let path = Arc::clone(path);
                let is_link = matches!(kind, EntryKind::Link(_));
                self.renew(dir, name, (path, identity, is_link), now)
            }
            (known, kind) => {
                if known.is_some() {
                    self.leave(dir, name, now);
                }
                self.add(dir, Arc::clone(path), kind, now)
            }
        }
    }

    /// Replaces the socket at a path with another one.
    fn renew(
        &mut self,
        dir: &Path,
        name: &OsStr,
        (path, identity, is_link): (Arc<Path>, Identity, bool),
        now: Time,
    ) -> Result<(), Problem> {
        if self.tree.known_socket(identity).is_some() {
            self.leave(dir, name, now);
            return self.add_socket(dir, path, identity, is_link, now);
        }
        let second_paths = self.tree.renew_socket(dir, name, identity, is_link);
        self.push_found(path, identity, is_link);
        self.examine_all(second_paths);
        Ok(())
    }

    /// Adds what is at a path that is not taken yet.
    fn add(
        &mut self,
        dir: &Path,
        path: Arc<Path>,
        kind: EntryKind,
        now: Time,
    ) -> Result<(), Problem> {
        match kind {
            EntryKind::Socket(identity) => self.add_socket(dir, path, identity, false, now)?,
            EntryKind::Link(identity) => self.add_socket(dir, path, identity, true, now)?,
            // Each root has a tree of its own.
            EntryKind::Directory if self.tree.is_root(&path) => {}
            EntryKind::Directory => {
                self.tree.add_directory(dir, Arc::clone(&path))?;
                self.rescans.add(&path);
                self.scan(path, Place::Below, now);
            }
            EntryKind::Other | EntryKind::Unknown => {}
        }
        Ok(())
    }

    /// Adds the socket at a path that is not taken yet, unless it is known under another path. The
    /// socket itself is preferred to a symbolic link that leads to it: the kernel does not report
    /// for the link that the socket is replaced.
    fn add_socket(
        &mut self,
        dir: &Path,
        path: Arc<Path>,
        identity: Identity,
        is_link: bool,
        now: Time,
    ) -> Result<(), Problem> {
        if let Some(known) = self.tree.known_socket(identity).cloned() {
            if is_link || !known.is_link {
                if self.tree.add_second_path(identity, &path) {
                    log::info!(
                        "{}: ignored, because it leads to the socket known as {}",
                        escape::path(&path),
                        escape::path(&known.path)
                    );
                }
                if self.expected.remove(&path) {
                    self.push_lost(path);
                }
                return Ok(());
            }
            let (dir, name) = split(&known.path);
            self.leave(dir, name, now);
            self.examine(Arc::clone(&known.path));
        }
        self.tree
            .add_socket(dir, Arc::clone(&path), identity, is_link)?;
        self.expected.remove(&path);
        self.lose_expected(&path); // Nothing is below a socket.
        self.push_found(path, identity, is_link);
        Ok(())
    }

    /// Examines the paths whose directories are known.
    fn examine_all(&mut self, paths: Vec<Arc<Path>>) {
        for path in paths {
            if self.tree.contains(split(&path).0) {
                self.examine(path);
            }
        }
    }

    /// Removes a name, and everything below it if it is a directory.
    fn leave(&mut self, dir: &Path, name: &OsStr, now: Time) {
        let removed = self.tree.remove_child(dir, name);
        self.announce(removed, now);
        if !self.expected.is_empty() {
            let path = dir.join(name);
            if !self.tree.is_root(&path) {
                self.lose_expected(&path);
            }
        }
    }

    fn announce(&mut self, removed: Removed, now: Time) {
        if removed.is_scan_wanted {
            self.drop_scans();
        }
        for dir in &removed.dirs {
            self.rescans.drop_directory(dir);
            self.close_listing(dir);
            self.rescan_same_as(dir, now);
        }
        for path in removed.sockets {
            self.doubts.forget(&path);
            self.push_lost(path);
        }
        self.examine_all(removed.second_paths);
        let unwatch = removed.watches.into_iter();
        self.outputs
            .extend(unwatch.map(|watch| Output::Unwatch { watch }));
    }

    fn on_dir_gone(&mut self, dir: &Path, problem: Problem, now: Time) {
        if self.tree.is_root(dir) {
            self.give_up_children(dir, problem, now);
        } else {
            let removed = self.tree.remove_at(dir);
            self.announce(removed, now);
            self.lose_expected(dir);
        }
    }

    /// Keeps the directory itself, with its problem, and forgets everything below it.
    fn give_up_children(&mut self, dir: &Path, problem: Problem, now: Time) {
        let removed = self.tree.clear(dir);
        self.announce(removed, now);
        self.rescan_same_as(dir, now);
        self.lose_expected(dir);
        self.set_problem(dir, Some(problem), now);
    }

    fn set_problem(&mut self, dir: &Path, problem: Option<Problem>, now: Time) {
        match problem.as_ref().filter(|it| it.is_worth_retrying()) {
            Some(problem) => {
                let latest = now + config::WATCH_RETRY;
                let tick = self.retry_at.filter(|at| now < *at && *at <= latest);
                let tick = tick.unwrap_or(latest);
                let at = self.tree.retry(dir, problem.is_limit(), tick, now);
                self.retry_at = Some(self.retry_at.map_or(at, |next| next.min(at)));
            }
            None => self.tree.do_not_retry(dir),
        }
        if self.tree.problem(dir) == problem.as_ref() {
            return;
        }
        let is_news = self.tree.set_problem(dir, problem.clone());
        let report = match problem {
            Some(problem) => Report::Trouble {
                dir: dir.into(),
                problem,
            },
            None => Report::Recovered { dir: dir.into() },
        };
        if is_news {
            self.outputs.push_back(Output::Report(report));
        }
    }

    /// Checks the invariants, in unit tests only: walking the whole tree costs more than any event.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "it is for tests"))]
    fn check_invariants(&self) {
        #[cfg(test)]
        {
            self.tree.check_invariants();
            self.listings.check_invariants();
            // Directories that wait are admitted when another scan or listing ends.
            let is_idle = self.listings.is_idle() && !self.tree.is_any_scan_wanted();
            assert!(!is_idle || !self.listings.is_any_waiting());
        }
    }
}

/// The reason for ignoring a hidden name.
const HIDDEN: &str = "the name begins with a dot";

/// The reason for ignoring a path that does not lead to a socket.
const OTHER: &str = "it is not a socket, or does not exist any more";

/// Returns whether a name is ignored because it starts with a dot; the only place with this rule.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

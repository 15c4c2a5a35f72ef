//! The watch, which turns inotify events and scan results into sockets that are found or lost.
//!
//! Pure. The shell owns the inotify instance and examines directories; this machine decides what is
//! examined next and what the answers mean. It never accesses the file system and never blocks.
//!
//! ```text
//!            Input::Event      -> [ Watch ] -> Output::Scan    (watch FIRST, then list)
//!            Input::Scanned    ->           -> Output::Examine (what is at this path?)
//!            Input::Examined   ->           -> Output::Unwatch
//!   handle_timeout (1 s tick)  ->           -> Output::Found / Lost / Report
//! ```
//!
//! Invariants:
//! - The whole tree below each root is watched, every subdirectory by a watch of its own, down to
//!   [`config::MAX_TREE_DEPTH`].
//! - A name that starts with a dot is ignored, file or directory, whether it existed at the start
//!   or was added later.
//! - Roots can be added and removed at any time (`roots`). None is inside another.
//! - Only sockets count. A symbolic link to a socket counts as a socket under the link's own path;
//!   the link is resolved when it appears. A link to a directory is not followed: that keeps the
//!   tree a tree.
//! - One socket has one path, whatever links lead to it: the first that is seen, or the socket's
//!   own rather than a symbolic link. Others are ignored, and examined when that one goes
//!   (`sockets`).
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
//!   concerns all directories is done in rounds, after a pause that stays short (`rounds`). The
//!   shell reads a directory at once, up to a limit, and decides how many outputs it carries out in
//!   one turn.
//! - A directory with a problem is reported once. If time can help, it is tried again: on the tick,
//!   or, if a limit is exceeded, after a pause that doubles. The rest of the tree is still
//!   followed. If no directory can be watched at all, all of them are followed by scans, and only
//!   the root is reported, once.
//! - Once per [`config::RESYNC_INTERVAL`] everything is scanned: the kernel does not report some
//!   changes, such as a symbolic link whose target becomes a socket.

mod directories;
mod event;
mod expected;
mod identity;
mod input;
mod output;
mod path;
mod pauses;
mod problem;
mod requests;
mod roots;
mod rounds;
mod scanned;
mod sockets;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::time::Time;
use crate::{config, escape};

pub use self::directories::{Directory, DirectoryState, MAX_TROUBLED};
pub use self::event::{Event, WatchId};
use self::expected::Expected;
pub use self::identity::{Entry, EntryKind, Identity, Listing};
pub use self::input::Input;
pub use self::output::{Output, Place, Report};
use self::path::split;
use self::pauses::Pauses;
pub use self::problem::{Cause, Problem};
use self::requests::{EXAMINATIONS, SCANS};
use self::rounds::Rounds;
pub use self::rounds::{Rescanned, RoundReason};
use self::tree::{Child, Removed, Tree};

/// The known plugin sockets below a set of directories.
#[derive(Debug)]
pub struct Watch {
    tree: Tree,
    outputs: VecDeque<Output>,
    expected: Expected,
    /// The directories that were scanned because of a change, and their pauses.
    scans: Pauses,
    /// The paths that were examined because of a change or a doubt, and their pauses.
    examinations: Pauses,
    rounds: Rounds,
    /// The next time at which directories with a problem are tried again.
    retry_at: Option<Time>,
    /// The next time at which everything is scanned without an event; `None` before the first scan.
    resync_at: Option<Time>,
}

impl Watch {
    /// Creates a watch on the directories that the user named, none of which is inside another.
    /// More can follow with [`Watch::add_root`].
    pub fn new(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut watch = Self {
            tree: Tree::default(),
            outputs: VecDeque::new(),
            expected: Expected::default(),
            scans: Pauses::new(SCANS),
            examinations: Pauses::new(EXAMINATIONS),
            rounds: Rounds::default(),
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
        watch.rounds = Rounds::at_start(watch.outputs.len());
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
            } => {
                self.rounds.count_answer();
                self.on_scanned(&dir, watch, entries, now);
            }
            Input::Examined { path, kind } => {
                self.on_examined(&path, kind, now);
            }
            Input::Doubted { path } => {
                // Nothing is examined below a directory that was given up.
                if self.tree.contains(split(&path).0) {
                    self.examine_again(path, now);
                }
            }
            Input::Remounted { dir } => self.rescan_each(self.tree.paths_below(&dir), now),
        }
        self.check_invariants();
    }

    /// Scans what is due by `now`; an early call is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.resync_at.is_some_and(|at| at <= now) {
            self.resync_at = Some(now + config::RESYNC_INTERVAL);
            self.scans.forget_calm(now);
            self.examinations.forget_calm(now);
            self.rescan_all(RoundReason::Resync, now);
        }
        self.begin_round(now);
        if self.retry_at.is_some_and(|at| at <= now) {
            for (dir, place) in self.tree.take_retries(now) {
                self.want_scan(dir, place);
            }
            self.retry_at = self.tree.next_retry();
        }
        for dir in self.scans.take_due(now) {
            if self.tree.contains(&dir) {
                let place = self.place(&dir);
                self.want_scan(dir, place);
            }
        }
        for path in self.examinations.take_due(now) {
            self.examine(path);
        }
        self.check_invariants();
    }

    /// Returns when to call [`Watch::handle_timeout`]; `None` before anything was scanned.
    pub fn poll_timeout(&self) -> Option<Time> {
        let pauses = [&self.scans, &self.examinations].map(Pauses::poll_timeout);
        let round = self.rounds.poll_timeout();
        let times = [self.retry_at, self.resync_at, round];
        let times = times.into_iter().chain(pauses);
        times.flatten().min()
    }

    /// Returns whether [`Watch::poll_output`] may return an output.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Returns the least number of pending outputs. While it is high, events should stay in the
    /// kernel, whose queue is limited.
    pub fn backlog(&self) -> usize {
        self.outputs.len()
    }

    /// Returns the next output, or `None` if there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        loop {
            self.rounds.check_end(self.outputs.len());
            let Some(output) = self.outputs.pop_front() else {
                self.outputs.shrink_to(config::IDLE_QUEUE_CAPACITY);
                return None;
            };
            match &output {
                // The watch has moved with its directory, and serves that directory under another
                // path.
                Output::Unwatch { watch } if self.tree.watched_by(*watch).is_some() => {}
                // The directory has been given up meanwhile.
                Output::Scan { dir, .. } if !self.tree.contains(dir) => {}
                _ => {
                    self.rounds.count_output(&output);
                    return Some(output);
                }
            }
        }
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
            let path = path::join(&dir, name);
            return log::debug!("{}: ignored: {HIDDEN}", escape::path(&path));
        }
        let path = path::join(&dir, name);
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
        let path = path::join(&dir, name);
        if self.is_known(&dir, name) || !self.expected.below(&path).is_empty() {
            self.examine_again(path, now);
        }
    }

    fn is_known(&self, dir: &Path, name: &OsStr) -> bool {
        self.tree.child(dir, name).is_some()
    }

    fn on_examined(&mut self, path: &Arc<Path>, kind: EntryKind, now: Time) {
        match kind {
            // It may be a different directory than before.
            EntryKind::Directory if self.tree.contains(path) => {
                self.rescan(Arc::clone(path), now);
            }
            EntryKind::Socket(_) | EntryKind::Link(_) | EntryKind::Directory => {
                self.see_and_report(path, kind, now);
            }
            EntryKind::Other => {
                log::debug!("{}: ignored: {OTHER}", escape::path(path));
                self.leave(path, now);
            }
            // The scan reports the name, and is repeated until the name can be examined.
            EntryKind::Unknown => {
                if let Some(dir) = self.tree.known(split(path).0) {
                    self.rescan(dir, now);
                }
            }
        }
    }

    /// Reports the expected sockets at and below a path as lost: nothing exists there.
    fn lose_expected(&mut self, path: &Path) {
        for path in self.expected.below(path).to_vec() {
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
        if let Err(problem) = self.see(path, kind, now) {
            let dir = split(path).0;
            if self.tree.problem(dir).is_none() {
                self.set_problem(dir, Some(problem), now);
            }
        }
    }

    /// Applies what is at a path; the same identity as before changes nothing.
    fn see(&mut self, path: &Arc<Path>, kind: EntryKind, now: Time) -> Result<(), Problem> {
        let (dir, name) = split(path);
        if !self.tree.contains(dir) {
            return Ok(()); // The directory has been given up meanwhile.
        }
        match (self.tree.child(dir, name), kind) {
            (
                Some(Child::Socket { path, identity }),
                EntryKind::Socket(seen) | EntryKind::Link(seen),
            ) => {
                if *identity == seen {
                    return Ok(());
                }
                let path = Arc::clone(path);
                if self.tree.known_socket(seen).is_some() {
                    self.leave(&path, now);
                    return self.add(path, kind, now);
                }
                let is_link = matches!(kind, EntryKind::Link(_));
                let second_paths = self.tree.renew_socket(&path, seen, is_link);
                self.push_found(path, seen);
                self.examine_each(second_paths);
                Ok(())
            }
            (known, kind) => {
                if known.is_some() {
                    self.leave(path, now);
                }
                self.add(Arc::clone(path), kind, now)
            }
        }
    }

    /// Adds what is at a path that is not taken yet.
    fn add(&mut self, path: Arc<Path>, kind: EntryKind, now: Time) -> Result<(), Problem> {
        match kind {
            EntryKind::Socket(identity) => self.add_socket(path, identity, false, now)?,
            EntryKind::Link(identity) => self.add_socket(path, identity, true, now)?,
            EntryKind::Directory => {
                self.tree.add_directory(&path)?;
                self.rescan(path, now);
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
            self.leave(&known.path, now);
            self.examine(known.path);
        }
        self.tree.add_socket(&path, identity, is_link)?;
        self.expected.remove(&path);
        self.lose_expected(&path); // Nothing is below a socket.
        self.push_found(path, identity);
        Ok(())
    }

    /// Removes a path, and everything below it if it is a directory.
    fn leave(&mut self, path: &Path, now: Time) {
        let removed = self.tree.remove(path);
        self.announce(removed, now);
        self.lose_expected(path);
    }

    fn announce(&mut self, removed: Removed, now: Time) {
        if removed.is_scan_wanted {
            self.drop_scans();
        }
        for dir in &removed.dirs {
            self.rescan_each(self.tree.same_as(dir), now);
        }
        for path in removed.sockets {
            self.push_lost(path);
        }
        self.examine_each(removed.second_paths);
        let unwatch = removed.watches.into_iter();
        self.outputs
            .extend(unwatch.map(|watch| Output::Unwatch { watch }));
    }

    fn on_dir_gone(&mut self, dir: &Path, problem: Problem, now: Time) {
        if self.tree.is_root(dir) {
            self.give_up_children(dir, problem, now);
        } else {
            self.leave(dir, now);
        }
    }

    /// Keeps the directory itself, with its problem, and forgets everything below it.
    fn give_up_children(&mut self, dir: &Path, problem: Problem, now: Time) {
        let removed = self.tree.clear(dir);
        self.announce(removed, now);
        self.rescan_each(self.tree.same_as(dir), now);
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

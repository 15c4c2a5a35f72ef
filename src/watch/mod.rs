//! The watch, which turns inotify events and scan results into sockets that are found or lost.
//!
//! Like the whole folder, the watch is a state machine without I/O. Its caller, the shell, owns the
//! inotify instance and examines files and directories; the watch decides what is examined next and
//! what the answers mean. It never accesses the file system and never blocks.
//!
//! ```text
//!               Input::Event   -> [ Watch ] -> Output::Scan    (watch FIRST, then list)
//!     Input::Scanned, Examined ->           -> Output::Examine (what is at this path?)
//!   Input::Doubted, Remounted  ->           -> Output::Unwatch
//!   handle_timeout (deadlines) ->           -> Output::Found / Lost / Report
//! ```
//!
//! Invariants:
//! - The whole tree below each root is watched, every subdirectory by a watch of its own, down to
//!   [`config::MAX_TREE_DEPTH`].
//! - A name that starts with a dot is ignored, file or directory, whether it existed at the start
//!   or was added later.
//! - Roots can be added and removed at any time (`roots`). No root is inside another.
//! - Only sockets count. A symbolic link to a socket counts as a socket under the link's own path;
//!   the link is resolved whenever its path is examined or its directory is scanned. A link to a
//!   directory is not followed: that keeps the tree a tree.
//! - One socket is one plugin and has one path, whatever links lead to it: the first path that is
//!   seen, but the socket's own path is preferred to a symbolic link, because the kernel does not
//!   report through the link that the socket was replaced. Other paths are ignored, and the first
//!   one is logged; when the known path is removed, the directory of the last one is scanned.
//! - Seeing the same identity twice changes nothing. Another identity at a known path is reported
//!   again by [`Output::Found`]: for the manager it is another socket. A path whose identity is in
//!   doubt is examined again, and a path that cannot be examined keeps its last known state.
//! - A socket that is expected from before a restart is found, or lost once its directory has been
//!   listed completely (`expected`).
//! - Whenever the state of a directory is in doubt, the directory is scanned, and the listing is
//!   compared with the known state: for example at the start, after a queue overflow, when the
//!   directory was moved or a file system was mounted there, and while it cannot be watched.
//! - A name that was removed, according to an event or a listing, is examined first: by then,
//!   another file may have that name, or the same file again (`RENAME_EXCHANGE`).
//! - The work is bounded, however often something changes: at most one scan of a directory is
//!   pending, and a scan soon after the last one waits for a pause that doubles each time
//!   (`pauses`), as does the examination of a known name. Scans of all directories are done in
//!   rounds, after a pause that stays short (`rounds`). The shell reads a directory in one go, up
//!   to a limit, and decides how many outputs it carries out in one turn.
//! - A directory with a problem is reported once. It is scanned again if that may help: every
//!   second, or, if the problem is likely to last, after a pause that doubles each time. The rest
//!   of the tree is still watched. If no directory can be watched at all, all of them are scanned
//!   at intervals, and only the roots are reported, once each.
//! - Once per [`config::RESYNC_INTERVAL`], every directory is scanned: the kernel does not report
//!   some changes, such as a symbolic link whose target becomes a socket.

mod directories;
mod expected;
mod identity;
mod input;
mod output;
mod pauses;
mod problem;
mod roots;
mod rounds;
mod scanned;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::octets::PathKey;
use crate::time::Time;
use crate::{config, escape};

pub use self::directories::{Directory, DirectoryState, MAX_TROUBLED};
use self::expected::Expected;
pub use self::identity::{Entry, EntryKind, Identity, Listing};
pub use self::input::{Event, Input};
pub use self::output::{Output, Place, Report};
use self::pauses::Pauses;
pub use self::problem::{Cause, Problem};
use self::rounds::Rounds;
pub use self::rounds::{Rescanned, RoundReason};
pub use self::tree::WatchId;
use self::tree::{Child, Removed, Socket, Tree, dir_and_name};

/// The known plugin sockets below a set of directories.
#[derive(Debug)]
pub struct Watch {
    tree: Tree,
    outputs: VecDeque<Output>,
    expected: Expected,
    /// The directories that were scanned because of a change, and their pauses.
    scans: Pauses,
    /// The paths of known names that were examined because of a change or a doubt, and their
    /// pauses. inotify does not report that a symbolic link now leads to another socket: a dial
    /// notices that, and the path is in doubt.
    examinations: Pauses,
    rounds: Rounds,
    /// The next time at which directories with a problem are tried again.
    retry_at: Option<Time>,
    /// The next time at which everything is scanned without an event; `None` before the first scan
    /// is answered.
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
            scans: Pauses::new(config::SCAN_PAUSES),
            examinations: Pauses::new(config::EXAMINE_PAUSES),
            rounds: Rounds::at_start(),
            retry_at: None,
            resync_at: None,
        };
        for root in roots {
            let root = Arc::from(root);
            if watch.tree.get(&root).is_none() {
                watch.tree.add_root(&root);
                watch.request_scan(root, true);
            }
        }
        watch
    }

    /// Expects these sockets; must be called before anything is scanned. Those that do not
    /// exist any more are reported as lost, each once its directory has been listed completely.
    /// Sockets below none of the roots are lost at once, even if their root is added later.
    pub fn expect(&mut self, sockets: Vec<Arc<Path>>) {
        self.expected.extend(sockets);
        self.report_uncovered_lost();
    }

    /// Handles an input that arrived at `now`.
    pub fn handle_input(&mut self, input: Input, now: Time) {
        if matches!(input, Input::Scanned { .. } | Input::Examined { .. }) {
            self.rounds.unanswered = self.rounds.unanswered.saturating_sub(1);
        }
        match input {
            Input::Event(Event::Appeared {
                watch,
                name,
                is_directory,
            }) => self.handle_appeared(watch, &name, is_directory, now),
            Input::Event(Event::Vanished { watch, name }) => {
                self.handle_vanished(watch, &name, now);
            }
            Input::Event(Event::Moved { watch }) => {
                self.rescan_each(self.tree.dir_of_watch(watch), now);
            }
            Input::Event(Event::Unwatched { watch }) => {
                if let Some(dir) = self.tree.dir_of_watch(watch) {
                    self.tree.set_watch(&dir, None);
                    self.rescan(dir, now);
                }
            }
            // mutation: an overflow of the queue is ignored
            Input::Event(Event::Overflowed) => self.rescan_all(RoundReason::Overflow, now),
            Input::Scanned {
                dir,
                watch,
                entries,
            } => self.handle_scanned(&dir, watch, entries, now),
            Input::Examined { path, kind } => self.handle_examined(&path, kind, now),
            Input::Doubted { path } => self.examine_again(path, now),
            // mutation: a file system that answers again is not scanned
            Input::Remounted { dir } => self.rescan_each(self.tree.paths_at_and_below(&dir), now),
        }
        #[cfg(test)]
        self.tree.check_invariants();
    }

    /// Requests the scans and examinations that are due by `now`; an early call is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if matches!(self.resync_at, Some(at) if at <= now) {
            self.resync_at = Some(now + config::RESYNC_INTERVAL);
            self.scans.forget_expired(now);
            self.examinations.forget_expired(now);
            self.rescan_all(RoundReason::Resync, now);
        }
        self.begin_due_round(now);
        if matches!(self.retry_at, Some(at) if at <= now) {
            for dir in self.tree.take_retries(now) {
                self.request_scan(dir, true);
            }
            self.retry_at = self.tree.next_retry();
        }
        for dir in self.scans.take_due(now) {
            self.request_scan(dir, false);
        }
        for path in self.examinations.take_due(now) {
            self.examine(path);
        }
        #[cfg(test)]
        self.tree.check_invariants();
    }

    /// Returns the time of the next [`Watch::handle_timeout`], or `None` if none is needed.
    pub fn poll_timeout(&self) -> Option<Time> {
        let [scan, examination] = [&self.scans, &self.examinations].map(Pauses::poll_timeout);
        let round = self.rounds.is_wanted.then_some(self.rounds.pause_end);
        let times = [self.retry_at, self.resync_at, round, scan, examination];
        times.into_iter().flatten().min()
    }

    /// Returns the number of queued outputs. While the number is high, events should be left in the
    /// kernel's queue, which is limited.
    pub fn backlog(&self) -> usize {
        self.outputs.len()
    }

    /// Returns the next output, or `None` if there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        loop {
            self.rounds.end_round_if_done(self.outputs.len());
            let Some(output) = self.outputs.pop_front() else {
                self.outputs.shrink_to(config::IDLE_QUEUE_CAPACITY);
                return None;
            };
            let is_needed = match &output {
                // The directory may have been moved, and the watch is in use for its new path.
                Output::Unwatch { watch } => self.tree.dir_of_watch(*watch).is_none(),
                // The directory may have been removed from the tree in the meantime.
                Output::Scan { dir, .. } => self.tree.get(dir).is_some(),
                Output::Examine { path } => self.tree.get(dir_and_name(path).0).is_some(),
                Output::Report(report) => self.tree.get(report.dir()).is_some(),
                Output::Found { .. } | Output::Lost { .. } => true,
            };
            self.rounds.count_output(&output, is_needed);
            if is_needed {
                return Some(output);
            }
        }
    }

    fn handle_appeared(&mut self, watch: WatchId, name: &OsStr, is_directory: bool, now: Time) {
        let Some(dir) = self.tree.dir_of_watch(watch) else {
            return; // The directory has been removed from the tree in the meantime.
        };
        let path = tree::join(&dir, name);
        if is_hidden(name) {
            log::debug!("{}: ignored: {HIDDEN}", escape::path(&path));
        } else if is_directory {
            self.handle_examined(&path, EntryKind::Directory, now);
        } else if self.tree.child(&dir, &path).is_some() {
            self.examine_again(path, now);
        } else {
            self.examine(path);
        }
    }

    /// Examines a known or expected name that vanished: the file may have been put back or
    /// replaced.
    fn handle_vanished(&mut self, watch: WatchId, name: &OsStr, now: Time) {
        let Some(dir) = self.tree.dir_of_watch(watch) else {
            return;
        };
        let path = tree::join(&dir, name);
        if self.tree.child(&dir, &path).is_some()
            || self.expected.at_and_below(&path).next().is_some()
        {
            self.examine_again(path, now);
        }
    }

    fn handle_examined(&mut self, path: &Arc<Path>, kind: EntryKind, now: Time) {
        let dir = dir_and_name(path).0;
        match kind {
            // Another directory may be at this path now.
            EntryKind::Directory if self.tree.get(path).is_some() => {
                self.rescan(Arc::clone(path), now);
            }
            EntryKind::Socket(_) | EntryKind::Link(_) | EntryKind::Directory => {
                if let Err(problem) = self.apply_kind(dir, path, kind, now) {
                    if self.tree.problem(dir).is_none() {
                        self.set_problem(dir, Some(problem), now);
                    }
                }
            }
            EntryKind::Other => {
                log::debug!("{}: ignored: {OTHER}", escape::path(path));
                self.remove_path(path, now);
            }
            // The scan reports the problem, and is repeated until the name can be examined.
            EntryKind::Unknown => self.rescan_each(self.tree.shared_path(dir), now),
        }
    }

    /// Applies the kind of file at a path in a directory; changes nothing if the same file as
    /// before is there. Fails if a limit is reached.
    fn apply_kind(
        &mut self,
        dir: &Path,
        path: &Arc<Path>,
        kind: EntryKind,
        now: Time,
    ) -> Result<(), Problem> {
        let Some(parent) = self.tree.get(dir) else {
            return Ok(()); // The directory has been removed from the tree in the meantime.
        };
        let known = parent.children.get(&PathKey(path.clone())).copied();
        let (identity, is_link) = match kind {
            EntryKind::Socket(identity) => (identity, false),
            EntryKind::Link(identity) => (identity, true),
            EntryKind::Directory => {
                match known {
                    Some(Child::Directory) => return Ok(()),
                    Some(Child::Socket(_)) => self.remove_path(path, now),
                    None => {}
                }
                self.tree.add_directory(path)?;
                self.rescan(Arc::clone(path), now);
                return Ok(());
            }
            EntryKind::Other | EntryKind::Unknown => return Ok(()),
        };
        match known {
            Some(Child::Socket(known)) if known == identity => return Ok(()),
            Some(Child::Socket(_)) if self.tree.socket_mut(identity).is_none() => {
                // The path is reported as found again, without being reported as lost.
                for replaced in self.tree.remove(path).sockets {
                    self.rescan_each(replaced.other_path_in, now);
                }
            }
            Some(_) => self.remove_path(path, now),
            None => {}
        }
        self.add_socket(path, identity, is_link)
    }

    /// Adds the socket at a free path, unless the socket is known under another path that is
    /// preferred.
    fn add_socket(
        &mut self,
        path: &Arc<Path>,
        identity: Identity,
        is_link: bool,
    ) -> Result<(), Problem> {
        let mut other_path_in = None;
        let known = self.tree.socket_mut(identity).cloned();
        if let Some(known) = &known {
            if is_link || !known.is_link {
                self.ignore_other_path(path, identity);
                return Ok(());
            }
            other_path_in = self.tree.shared_path(dir_and_name(&known.path).0);
            self.tree.remove(&known.path);
        }
        let socket = Socket {
            path: Arc::clone(path),
            is_link,
            other_path_in,
        };
        if let Err(problem) = self.tree.add_socket(identity, socket) {
            // There was room for the link, so the socket stays known by that.
            let _ = known.map(|known| self.tree.add_socket(identity, known));
            return Err(problem);
        }
        let lost = known.map(|Socket { path, .. }| Output::Lost { path });
        self.outputs.extend(lost);
        for expected in self.expected.take_at_and_below(path) {
            // Nothing is below a socket.
            if expected != *path {
                self.outputs.push_back(Output::Lost { path: expected });
            }
        }
        let path = Arc::clone(path);
        self.outputs.push_back(Output::Found { path, identity });
        Ok(())
    }

    /// Ignores another path to a known socket, and reports the path as lost if it was expected.
    /// Logs that only for the first such path of a socket: each scan finds them all again.
    fn ignore_other_path(&mut self, path: &Arc<Path>, identity: Identity) {
        let dir = self.tree.shared_path(dir_and_name(path).0);
        if let Some(known) = self.tree.socket_mut(identity) {
            if std::mem::replace(&mut known.other_path_in, dir).is_none() {
                log::info!(
                    "{}: ignored: it leads to a socket that is already known socket={}",
                    escape::path(path),
                    escape::path(&known.path)
                );
            }
        }
        if self.expected.remove(path) {
            self.outputs.push_back(Output::Lost {
                path: Arc::clone(path),
            });
        }
    }

    /// Reports the expected sockets at and below a path as lost: nothing exists there.
    fn report_expected_lost(&mut self, path: &Path) {
        let gone = self.expected.take_at_and_below(path);
        self.outputs.extend(gone.map(|path| Output::Lost { path }));
    }

    /// Removes a path, and everything below it if it is a directory; reports the known and expected
    /// sockets there as lost.
    fn remove_path(&mut self, path: &Arc<Path>, now: Time) {
        let removed = self.tree.remove(path);
        // mutation: a directory that is moved leaves its sockets behind
        self.report_removed(removed, now);
        self.report_expected_lost(path);
    }

    fn report_removed(&mut self, removed: Removed, now: Time) {
        for socket in removed.sockets {
            self.outputs.push_back(Output::Lost { path: socket.path });
            self.rescan_each(socket.other_path_in, now);
        }
        let unwatch = removed.watches.into_iter();
        self.outputs
            .extend(unwatch.map(|watch| Output::Unwatch { watch }));
    }

    fn set_problem(&mut self, dir: &Path, problem: Option<Problem>, now: Time) {
        let Some(known) = self.tree.get_mut(dir) else {
            return;
        };
        (known.retry_at, known.retry_pause) = match &problem {
            Some(problem) if problem.may_last() => {
                let pause = config::LIMITED_RETRY.next_pause(known.retry_pause);
                (Some(now + pause), Some(pause))
            }
            Some(problem) if problem.is_worth_retrying() => {
                // All directories with such a problem are retried at the same time.
                let latest = now + config::SYSTEM_RETRY;
                let tick = self.retry_at.filter(|at| now < *at && *at <= latest);
                (tick.or(Some(latest)), None)
            }
            _ => (None, None),
        };
        self.retry_at = [self.retry_at, known.retry_at].into_iter().flatten().min();
        if self.tree.set_problem(dir, problem.clone()) {
            let dir = dir.into();
            self.outputs.push_back(Output::Report(match problem {
                Some(problem) => Report::Trouble { dir, problem },
                None => Report::Recovered { dir },
            }));
        }
    }

    /// Scans a directory that has changed: now, or after a pause if it was scanned a moment ago.
    fn rescan(&mut self, dir: Arc<Path>, now: Time) {
        if self.scans.request_work(&dir, now) {
            self.request_scan(dir, false);
        }
    }

    fn rescan_each(&mut self, dirs: impl IntoIterator<Item = Arc<Path>>, now: Time) {
        for dir in dirs {
            self.rescan(dir, now);
        }
    }

    /// Requests the scan of a directory, unless one is pending. If `may_create`, a missing root is
    /// created first.
    fn request_scan(&mut self, dir: Arc<Path>, may_create: bool) {
        let Some(known) = self.tree.get_mut(&dir) else {
            return;
        };
        if !std::mem::replace(&mut known.is_scan_wanted, true) {
            let place = match known.depth {
                0 if may_create => Place::MissingRoot,
                0 => Place::Root,
                _ => Place::Below,
            };
            self.outputs.push_back(Output::Scan { dir, place });
        }
    }

    /// Examines a path that has changed or is in doubt: now, or after a pause if it was examined a
    /// moment ago.
    fn examine_again(&mut self, path: Arc<Path>, now: Time) {
        if self.examinations.request_work(&path, now) {
            self.examine(path);
        }
    }

    /// Requests the examination of a path, unless the last output does so already: that examination
    /// will see all changes up to now.
    fn examine(&mut self, path: Arc<Path>) {
        let request = Output::Examine { path };
        if self.outputs.back() != Some(&request) {
            self.outputs.push_back(request);
        }
    }
}

/// The reason for ignoring a hidden name.
const HIDDEN: &str = "the name begins with a dot";

/// The reason for ignoring a path that does not lead to a socket.
const OTHER: &str = "it is not a socket, or does not exist any more";

/// Returns whether a name is ignored because it starts with a dot. This is the only place with this
/// rule.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    // mutation: a socket whose name starts with a dot counts
    name.as_bytes().starts_with(b".")
}

//! The core of the plugin manager: the desired state, the actual state, and what to do next.
//!
//! Pure: no clock, no descriptor, no thread. Events arrive as an [`Input`] with their time;
//! requests to the daemon leave as an [`Output`]; bytes are read and written by [`LinkId`].
//! ```text
//! Found, Lost --> desired --+                                 +--> Dial, Hangup
//!                           +--> reconcile --> operation -----+
//!                 actual ---+                    ^   |        +--> handler --> effects
//!                    ^                           |   |        |
//!                    +---------------------------+---+        +--> links --> Transmit
//! ```
//!
//! Work is proportional to what changed: a socket is examined when something happens to it, when
//! its backoff ends, and once per [`RESYNC_INTERVAL`] as a safety net. All deadlines of the manager
//! are in one index, so the next one is found without a search.

mod actual;
mod aliases;
mod backoff;
mod by_link;
mod by_path;
mod deadlines;
mod descriptors;
mod desired;
mod effects;
mod execute;
mod failure;
mod instances;
mod links;
mod liveness;
mod memory;
mod operation;
mod operations;
mod outlived;
mod pass;
mod places;
mod programs;
mod ready;
pub mod reconcile;
mod redials;
mod renewals;
mod shortage;
mod snapshot;
mod status;
mod takeover;
mod turns;
mod verdict;
mod wake;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

pub use crate::config::OnDown;
pub use crate::handler::DialError;
pub use actual::{Actual, Registered};
pub use backoff::Backoff;
pub(crate) use by_link::ByLink;
pub use desired::{Added, Desired, EmptyPath, Socket};
pub use execute::AttemptId;
pub use failure::{EndpointFailure, Failure, Refusal};
pub use instances::Instances;
pub use links::{LinkId, Process};
pub use liveness::{Guard, Health};
pub use memory::{Memory, MemoryError};
pub use operation::{Command, Event, Operation, Outcome, Question, Step, Unexpected};
pub use snapshot::Snapshot;
pub use status::Status;
pub use verdict::{Verdict, verdict};
pub use wake::Wake;

use crate::config::{KEPT_QUEUE, Mode, PathMap, RESYNC_INTERVAL, STOP_GRACE};
use crate::escape;
use crate::handler::{EffectId, HandlerTable, Program, ProgramOutcome, Reason, Ticket};
use crate::http2::Endpoint;
use crate::time::Time;
use crate::watch::Identity;
use aliases::Aliases;
use by_path::ByPath;
use deadlines::Deadlines;
use descriptors::DescriptorLimit;
use effects::Effects;
use execute::Work;
use links::Links;
use operations::Operations;
use outlived::Outlived;
use places::Places;
use programs::Programs;
use redials::Redials;
use renewals::Renewals;
use shortage::Shortage;
use turns::Turns;

/// The plugin manager's core.
#[derive(Debug)]
pub struct Manager {
    desired: Desired,
    actual: Actual,
    aliases: Aliases,
    /// The sockets of plugins that were restored into the actual state and have not been found yet.
    restored: ByPath<memory::Compared>,
    handlers: HandlerTable,
    /// At most one operation per socket.
    operations: Operations,
    instances: Instances,
    turns: Turns,
    places: Places,
    redials: Redials,
    renewals: Renewals,
    links: Links,
    descriptors: DescriptorLimit,
    shortage: Shortage,
    /// The connections that guard registered plugins, or did until their process was watched.
    guards: LiteMap<LinkId, Arc<Path>>,
    /// The processes of plugins whose sockets were removed recently.
    outlived: LiteMap<LinkId, Outlived>,
    on_down: OnDown,
    path_map: PathMap,
    mode: Mode,
    effects: Effects,
    programs: Programs,
    /// Sockets to examine in the next pass, because something happened to them. May hold
    /// duplicates.
    touched: Vec<Arc<Path>>,
    work: VecDeque<Work>,
    /// The commands of the operation that takes a step; empty between steps.
    commands: Vec<Command>,
    deadlines: Deadlines<Wake>,
    outputs: VecDeque<Output>,
    tickets: LiteMap<Ticket, AttemptId>,
    last_ticket: u64,
    last_attempt: u64,
    is_stopping: bool,
}

/// An event for the manager.
#[derive(Debug)]
pub enum Input {
    /// A socket exists.
    Found {
        /// The path of the socket.
        path: Arc<Path>,
        /// The identity of the socket.
        identity: Identity,
        /// Whether the path is a symbolic link to the socket.
        is_link: bool,
    },
    /// Another path leads to a socket that was found.
    Alias {
        /// The other path.
        path: Arc<Path>,
        /// The identity of the socket.
        identity: Identity,
        /// Whether the path is a symbolic link to the socket.
        is_link: bool,
    },
    /// The socket was removed, or a restored socket ([`Manager::restored`]) does not exist.
    Lost {
        /// The path of the socket.
        path: Arc<Path>,
    },
    /// A connection requested by [`Output::Dial`] is established.
    Connected {
        /// The connection.
        link: LinkId,
        /// The peer process, if the daemon can see it.
        process: Option<Process>,
    },
    /// A connection requested by [`Output::Dial`] could not be established.
    DialFailed {
        /// The connection.
        link: LinkId,
        /// The reason.
        error: DialError,
    },
    /// A connection has ended: the peer closed it, or reading or writing failed.
    Closed {
        /// The connection.
        link: LinkId,
    },
    /// The peer of a connection is watched from now on, as [`Output::Guard`] requested.
    Guarded {
        /// The connection.
        link: LinkId,
        /// How the peer is watched.
        by: Guard,
    },
    /// The watched process has ended.
    ProcessEnded {
        /// The connection to that process.
        link: LinkId,
    },
    /// A program requested by [`Output::Spawn`] has ended, or could not be started.
    ProgramEnded {
        /// The program.
        id: EffectId,
        /// How it ended.
        outcome: ProgramOutcome,
    },
    /// The owner of a handler answers a question on the handler's behalf.
    Answered {
        /// The question.
        ticket: Ticket,
        /// Yes, or the reason for no.
        result: Result<(), Reason>,
    },
    /// The handlers or the configuration have changed: what failed because of the old ones is
    /// retried at once.
    Reconsider,
    /// The daemon stops: starts no new operations and gives running ones [`STOP_GRACE`].
    Stop,
}

/// A request to the daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to a Unix socket, then send [`Input::Connected`] or [`Input::DialFailed`].
    Dial {
        /// The name of the connection from now on.
        link: LinkId,
        /// The path of the socket.
        path: Arc<Path>,
        /// The identity that the socket must have; `None` accepts any socket.
        identity: Option<Identity>,
    },
    /// [`Manager::endpoint`] has bytes for this connection.
    Transmit {
        /// The connection.
        link: LinkId,
    },
    /// Call [`Manager::moved`] for this connection again, after others had their turn: it has more
    /// messages than are handled at once. It may have ended meanwhile.
    Resume {
        /// The connection.
        link: LinkId,
    },
    /// Close this connection or stop dialling it; no further events of it are wanted.
    Hangup {
        /// The connection.
        link: LinkId,
        /// The bytes to write if that is possible without waiting.
        final_bytes: Vec<u8>,
    },
    /// Watch the process at the other end of this connection or, if that is impossible, report the
    /// end of the connection; then send [`Input::Guarded`].
    Guard {
        /// The connection.
        link: LinkId,
    },
    /// Stop watching the process at the other end of this connection.
    Unguard {
        /// The connection.
        link: LinkId,
    },
    /// Examine this path again: it may lead to another socket than the one that was found.
    Examine {
        /// The path.
        path: Arc<Path>,
    },
    /// Run a program, then send [`Input::ProgramEnded`].
    Spawn {
        /// The name of the program from now on.
        id: EffectId,
        /// The program.
        program: Program,
    },
    /// Kill this program and all that it has started; no further events of it are wanted.
    Kill {
        /// The program.
        id: EffectId,
    },
}

/// The state of the world that an entry of [`Manager::total_plugins`] belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum World {
    /// The socket exists.
    Desired,
    /// A handler knows its plugin.
    Actual,
}

impl World {
    /// Returns the value of the label `state` in kubelet's metric `plugin_manager_total_plugins`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Desired => "desired_state_of_world",
            Self::Actual => "actual_state_of_world",
        }
    }
}

impl Manager {
    /// Creates a manager that knows no sockets yet and passes plugins to these handlers.
    pub fn new(handlers: HandlerTable) -> Self {
        Self {
            desired: Desired::default(),
            actual: Actual::default(),
            aliases: Aliases::default(),
            restored: ByPath::default(),
            handlers,
            operations: Operations::default(),
            instances: Instances::default(),
            turns: Turns::default(),
            places: Places::default(),
            redials: Redials::default(),
            renewals: Renewals::default(),
            links: Links::default(),
            descriptors: DescriptorLimit::default(),
            shortage: Shortage::default(),
            guards: LiteMap::new(),
            outlived: LiteMap::new(),
            on_down: OnDown::default(),
            path_map: PathMap::default(),
            mode: Mode::default(),
            effects: Effects::default(),
            programs: Programs::default(),
            touched: Vec::new(),
            work: VecDeque::new(),
            commands: Vec::new(),
            deadlines: Deadlines::default(),
            outputs: VecDeque::new(),
            tickets: LiteMap::new(),
            last_ticket: 0,
            last_attempt: 0,
            is_stopping: false,
        }
    }

    /// Sets what is done with the plugins that are found from now on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Sets where to dial endpoints whose paths belong to the plugins' own mount namespaces.
    ///
    /// Handlers and the log keep the paths as the plugins reported them.
    pub fn set_path_map(&mut self, path_map: PathMap) {
        self.path_map = path_map;
    }

    /// Processes an event and everything that follows from it.
    pub fn handle_input(&mut self, input: Input, now: Time) {
        match input {
            Input::Found {
                path,
                identity,
                is_link,
            } => self.found(path, identity, is_link, now),
            Input::Alias {
                path,
                identity,
                is_link,
            } => self.found_alias(path, identity, is_link, now),
            Input::Lost { path } => self.lost(&path, now),
            Input::Connected { link, process } => self.connected(link, process, now),
            Input::DialFailed { link, error } => self.dial_failed(link, error, now),
            Input::Closed { link } => self.closed(link, now),
            Input::Guarded { link, by } => self.guarded(link, by, now),
            Input::ProcessEnded { link } => self.guard_lost(link, now),
            Input::ProgramEnded { id, outcome } => self.program_ended(id, outcome, now),
            Input::Answered { ticket, result } => self.answered(ticket, result),
            Input::Reconsider => self.reconsider(),
            Input::Stop => self.stop(now),
        }
        self.settle(now);
    }

    /// Does what is due by `now`. Calling this early, or twice, is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.work.is_empty() {
            self.settle(now); // Restored deregistrations are due since before the start.
        }
        while let Some(wake) = self.deadlines.pop_due(now) {
            match wake {
                Wake::Operation(attempt) => self.operation_timeout(attempt),
                Wake::Retry(path) => self.touch(path),
                Wake::Link(link) => self.link_timeout(link, now),
                Wake::Timer(effect) => self.timer_fired(effect, now),
                Wake::Program(effect) => self.program_overdue(effect, now),
                Wake::Check(path) => self.check(path, now),
                Wake::Grace(path) => self.condemn(path),
                Wake::Outlived(link) => self.outlived_for_long(link, now),
                Wake::Stalled(attempt) => self.question_stalled(attempt),
                Wake::Line => self.line_waited(now),
                Wake::Resync => self.resync(now),
                Wake::Stop => self.stop_at_once(now),
            }
            self.settle(now);
        }
    }

    /// Returns the time of the next [`Manager::handle_timeout`], and the reason for it.
    pub fn poll_timeout(&self) -> Option<(Time, &Wake)> {
        self.deadlines.first()
    }

    /// Removes and returns the oldest output, or `None` if there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() {
            self.outputs.shrink_to(KEPT_QUEUE);
        }
        self.outputs.pop_front()
    }

    /// Returns the local end of a connection, or `None` if it is not connected. After reading into
    /// it or writing from it, call [`Manager::moved`].
    pub fn endpoint(&mut self, link: LinkId) -> Option<&mut impl Endpoint> {
        self.links.client(link)
    }

    /// Processes the bytes that were read or written at [`Manager::endpoint`].
    #[inline]
    pub fn moved(&mut self, link: LinkId, now: Time) {
        self.pump(link, now);
        self.settle(now);
    }

    /// Returns the sockets that exist.
    pub fn desired(&self) -> &Desired {
        &self.desired
    }

    /// Returns the plugins that handlers know about.
    pub fn actual(&self) -> &Actual {
        &self.actual
    }

    /// Returns the registered plugins by type and name, and which one of several with one name to
    /// use.
    pub fn instances(&self) -> &Instances {
        &self.instances
    }

    /// Returns the handlers.
    pub fn handlers_mut(&mut self) -> &mut HandlerTable {
        &mut self.handlers
    }

    /// Returns a number that changes whenever the state that a restart needs has changed.
    pub fn revision(&self) -> u64 {
        // Both numbers only grow.
        self.actual.revision() + self.effects.owed_revision()
    }

    /// Returns the name of the state of the operation on the socket at `path`, if one runs.
    pub fn operation(&self, path: &Path) -> Option<&'static str> {
        let running = self.operations.at(path)?;
        Some(running.operation.state())
    }

    /// Returns whether no operation runs.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns whether [`Input::Stop`] has been carried out completely.
    pub fn is_stopped(&self) -> bool {
        self.is_stopping && self.is_idle()
    }

    /// Returns every entry of kubelet's gauge `plugin_manager_total_plugins`; each has the value 1.
    pub fn total_plugins(&self) -> impl Iterator<Item = (&Path, World)> {
        let actual = self.actual.iter().map(|(path, _)| (&**path, World::Actual));
        let desired = self
            .desired
            .iter()
            .map(|(path, _)| (&**path, World::Desired));
        actual.chain(desired)
    }

    fn found_socket(&mut self, path: Arc<Path>, identity: Identity, is_link: bool, now: Time) {
        let known = self.recall(&path, identity);
        match self.desired.replace(path.clone(), identity, now) {
            Ok((Added::Same, _)) => {}
            Ok((added @ (Added::New | Added::Replaced), before)) => {
                log_found(&path, added);
                if is_link {
                    self.desired.set_link(&path);
                }
                if let Some(before) = before {
                    self.forget_known(before.known, before.identity);
                    self.renewals.add(&path, now);
                    self.forget_retry(&path);
                }
                self.forgive_outlived(&path, None, now);
                if let Some(known) = known {
                    self.desired.set_known(&path, known);
                }
                self.touch(path);
                self.arm_resync(now);
            }
            Err(error @ EmptyPath) => log::debug!("a socket was reported, but {error}"),
        }
    }

    fn lost_socket(&mut self, path: &Arc<Path>, now: Time) {
        self.lost_restored(path);
        if let Some(gone) = self.desired.remove(path) {
            log::debug!("{}: the socket was removed", escape::path(path));
            self.renewals.add(path, now);
            self.forget_retry(path);
            if let Some(place) = gone.in_line {
                self.places.forget(place);
                self.watch_line();
            }
            self.forget_known(gone.known, gone.identity);
            self.touch(path.clone());
        }
    }

    /// Cancels the retry of a socket that has gone: its backoff belongs to its identity.
    fn forget_retry(&mut self, path: &Arc<Path>) {
        self.deadlines.set(Wake::Retry(path.clone()), None);
        self.instances.unblock(path);
    }

    fn reconsider(&mut self) {
        let failed = self
            .desired
            .iter()
            .filter(|(_, socket)| socket.last_failure.is_some() || socket.observed.is_some());
        for path in failed.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            self.retry_now(path);
        }
    }

    /// Has a socket retried at once, because the cause of its last failure may have gone.
    fn retry_now(&mut self, path: Arc<Path>) {
        if let Some(socket) = self.desired.get_mut(&path) {
            socket.backoff.succeed();
            socket.observed = None;
            self.deadlines.set(Wake::Retry(path.clone()), None);
            self.touch(path);
        }
    }

    fn touch(&mut self, path: Arc<Path>) {
        self.touched.push(path);
    }

    fn resync(&mut self, now: Time) {
        let paths = self.desired.iter().map(|(path, _)| path.clone());
        self.touched.extend(paths);
        self.touched
            .extend(self.actual.iter().map(|(path, _)| path.clone()));
        self.arm_resync(now);
    }

    /// Schedules the next resync if sockets exist.
    fn arm_resync(&mut self, now: Time) {
        let is_needed = !self.desired.is_empty();
        if is_needed && self.deadlines.get(&Wake::Resync).is_none() {
            self.deadlines
                .set(Wake::Resync, Some(now + RESYNC_INTERVAL));
        }
    }

    fn stop(&mut self, now: Time) {
        if !self.is_stopping {
            self.is_stopping = true;
            self.deadlines.set(Wake::Stop, Some(now + STOP_GRACE));
            self.cancel_uncommitted();
        }
    }
}

fn log_found(path: &Path, added: Added) {
    let path = escape::path(path);
    match added {
        Added::New => log::debug!("{path}: found a socket"),
        Added::Replaced => log::debug!("{path}: another socket has replaced the one before"),
        Added::Same => {}
    }
}

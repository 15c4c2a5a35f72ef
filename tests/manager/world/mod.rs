//! A world in virtual time around a [`Manager`]: sockets that appear and disappear, scripted
//! plugins behind them, a handler that records, and a clock that the test advances.

mod network;
mod processes;
mod programs;
mod recorder;
mod sockets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plugind::config::DESCRIPTOR_RESERVE;
use plugind::handler::{Answer, EffectId, HandlerTable, Program, ProgramEnd, Reason, Ticket};
use plugind::manager::reconcile::{Action, action};
use plugind::manager::{
    AnnouncementError, AnnouncementId, ConnectionId, Desired, Input, Manager, Measurement, Output,
    PluginEvent, Registered, SavedState, State,
};
use plugind::time::Time;
use plugind::watch::Identity;

pub(crate) use self::recorder::{Log, Recorder, WAIT, YES, no};
pub(crate) use self::sockets::identity;
use crate::script::{Script, Serving};

/// The manager and its surroundings.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct World {
    pub(crate) manager: Manager,
    pub(crate) now: Time,
    pub(crate) handler: Log,
    /// The socket at each path; several paths may lead to one socket.
    sockets: BTreeMap<Arc<Path>, Identity>,
    /// The plugin behind each socket, or `None` if no process listens.
    plugins: BTreeMap<Identity, Option<Script>>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// What is in flight to the manager, in order for each connection.
    in_flight: BTreeMap<ConnectionId, VecDeque<Delivery>>,
    hung_up: BTreeSet<ConnectionId>,
    /// The connections with more messages than were handled at once.
    to_resume: VecDeque<ConnectionId>,
    /// The number of times that the manager asked to be resumed.
    pub(crate) resumed: usize,
    dialed: Vec<(Identity, Time)>,
    /// The paths that the watch is to examine again.
    pub(crate) examined: Vec<Arc<Path>>,
    /// The events that the manager has emitted.
    pub(crate) events: Vec<PluginEvent>,
    /// What the manager has measured.
    pub(crate) measured: Vec<Measurement>,
    /// The sockets whose processes are watched.
    watched_processes: BTreeMap<ConnectionId, Identity>,
    /// Whether processes can be watched.
    pub(crate) watches_processes: bool,
    /// Whether what is in flight waits for [`World::deliver`].
    pub(crate) is_slow: bool,
    /// Whether the daemon gets a descriptor when it dials.
    pub(crate) has_descriptors: bool,
    /// Whether to print the outputs of the manager.
    pub(crate) is_loud: bool,
    last_inode: u64,
    /// The directories on file systems that may not answer.
    pub(crate) unanswering: BTreeSet<PathBuf>,
    /// The number of outputs that are still carried out before the daemon is killed; `None` if it
    /// is not killed.
    pub(crate) fuse: Option<u64>,
    /// The programs that were started, until a test has read them, and whether each had to be saved
    /// before.
    pub(crate) spawned: Vec<(EffectId, Program, bool)>,
    /// The way in which programs end at once; `None` if a test ends them.
    pub(crate) program_end: Option<ProgramEnd>,
    /// The programs that run.
    pub(crate) programs: BTreeMap<EffectId, Program>,
    /// The programs among them that wait for the disk.
    pub(crate) unstarted: BTreeSet<EffectId>,
    /// The programs that were killed.
    pub(crate) killed: Vec<EffectId>,
    /// The number of connections that were dialed to each path.
    pub(crate) dials: BTreeMap<Arc<Path>, usize>,
    /// The answers to plugins that have announced themselves.
    pub(crate) answered: Vec<(AnnouncementId, Result<(), AnnouncementError>)>,
}

#[derive(Debug)]
struct Connection {
    path: Arc<Path>,
    identity: Identity,
    serving: Serving,
    is_open: bool,
}

#[derive(Debug)]
enum Delivery {
    Dialed(Arc<Path>, Option<Identity>),
    Bytes(Vec<u8>),
    Close,
}

impl World {
    /// Creates a world without sockets, with one handler for kubelet's three types.
    pub(crate) fn new() -> Self {
        let handler = Log::default();
        let mut table = HandlerTable::new();
        table.add(plugind::config::DEFAULT_TYPES, Recorder(handler.clone()));
        Self {
            handler,
            ..Self::with(Manager::new(table))
        }
    }

    /// Creates the same world with a handler that gives these answers first.
    pub(crate) fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let world = Self::new();
        world.handler.will_answer(answers);
        world
    }

    /// Creates a world without sockets around this manager.
    pub(crate) fn with(manager: Manager) -> Self {
        Self {
            manager,
            now: Time::ZERO,
            handler: Log::default(),
            sockets: BTreeMap::new(),
            plugins: BTreeMap::new(),
            connections: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            hung_up: BTreeSet::new(),
            to_resume: VecDeque::new(),
            resumed: 0,
            dialed: Vec::new(),
            examined: Vec::new(),
            events: Vec::new(),
            measured: Vec::new(),
            watched_processes: BTreeMap::new(),
            watches_processes: true,
            is_slow: false,
            has_descriptors: true,
            is_loud: false,
            last_inode: 0,
            unanswering: BTreeSet::new(),
            fuse: None,
            spawned: Vec::new(),
            program_end: None,
            programs: BTreeMap::new(),
            unstarted: BTreeSet::new(),
            killed: Vec::new(),
            dials: BTreeMap::new(),
            answered: Vec::new(),
        }
    }

    /// Ends the daemon with all its connections, and starts another one with this manager.
    pub(crate) fn restart(&mut self, manager: Manager) {
        self.manager = manager;
        self.connections.clear();
        self.in_flight.clear();
        self.hung_up.clear();
        self.to_resume.clear();
        self.dialed.clear();
        self.examined.clear();
        self.watched_processes.clear();
        self.programs.clear();
        self.unstarted.clear();
        self.spawned.clear();
        self.answered.clear();
        self.fuse = None;
    }

    /// Returns whether the daemon was killed, and carries out nothing any more.
    pub(crate) fn is_killed(&self) -> bool {
        self.fuse == Some(0)
    }

    /// Carries out what the manager requests, until it requests nothing more at this moment.
    pub(crate) fn run(&mut self) {
        let mut count = 0;
        loop {
            self.manager.check_invariants();
            while let Some(output) = self.next_output() {
                self.execute_output(output);
                count += 1;
                assert!(count < AT_ONE_MOMENT, "the manager has outputs without end");
            }
            if self.is_killed() {
                return;
            }
            if self.end_programs() {
                continue;
            }
            match self.in_flight.keys().next().copied() {
                Some(conn) if !self.is_slow => self.deliver(conn),
                _ => match self.to_resume.pop_front() {
                    Some(conn) => self.manager.handle_io(conn, self.now),
                    None => return,
                },
            }
        }
    }

    fn next_output(&mut self) -> Option<Output> {
        if self.is_killed() {
            return None;
        }
        let output = self.manager.poll_output()?;
        if let Some(left) = &mut self.fuse {
            *left -= 1;
        }
        Some(output)
    }

    fn execute_output(&mut self, output: Output) {
        if self.is_loud {
            println!("    {output:?}");
        }
        match output {
            Output::Dial {
                conn,
                path,
                identity,
            } => {
                *self.dials.entry(path.clone()).or_default() += 1;
                self.dialed
                    .extend(identity.map(|identity| (identity, self.now)));
                self.send(conn, Delivery::Dialed(path, identity));
            }
            Output::Transmit(conn) => self.transmit(conn),
            Output::Resume(conn) => {
                self.resumed += 1;
                self.to_resume.push_back(conn);
            }
            Output::Hangup { conn, final_bytes } => {
                assert!(final_bytes.is_empty() || ends_with_goaway(&final_bytes));
                // What is in flight still arrives, and must not have an effect.
                self.connections.remove(&conn);
                self.hung_up.insert(conn);
            }
            Output::Spawn {
                id,
                program,
                is_add,
            } => {
                self.spawned.push((id, program.clone(), is_add));
                self.programs.insert(id, program);
            }
            Output::Kill(id) => {
                self.killed.push(id);
                let end = if self.unstarted.contains(&id) {
                    ProgramEnd::NotInTime
                } else {
                    ProgramEnd::TimedOut
                };
                self.report_end(id, end);
            }
            Output::Examine { path } => self.examined.push(path),
            Output::AnnouncementAnswered { id, result } => self.answered.push((id, result)),
            Output::Event(event) => self.events.push(Arc::unwrap_or_clone(event)),
            Output::Measured(measurement) => self.measured.push(measurement),
            Output::WatchPeer(conn) => self.watch_peer(conn),
            Output::UnwatchPeer(conn) => {
                self.watched_processes.remove(&conn);
            }
        }
    }

    /// Advances the clock, with a timeout of the manager at each of its deadlines.
    pub(crate) fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some((at, _)) = self.manager.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = self.now.max(at);
            self.manager.handle_timeout(self.now);
            self.run();
        }
        self.now = end;
    }

    /// Returns what the handler was asked since the last call: `validate a, register a`.
    pub(crate) fn handler_calls(&self) -> String {
        self.handler.take()
    }

    /// Asserts what the handler was asked since the last call.
    #[track_caller]
    pub(crate) fn assert_calls(&self, expected: &str) {
        assert_eq!(self.handler_calls(), expected);
    }

    /// Returns the name of the state of the operation on the socket at `path`, if one runs.
    pub(crate) fn operation(&self, path: &Path) -> Option<&'static str> {
        self.manager.socket(path)?.operation_state()
    }

    /// Returns the desired socket at a path.
    pub(crate) fn desired(&self, path: &str) -> Option<&Desired> {
        self.manager.socket(Path::new(path))?.desired()
    }

    /// Returns what is registered through the socket at a path.
    pub(crate) fn registered(&self, path: &str) -> Option<&Registered> {
        self.manager.socket(Path::new(path))?.registered()
    }

    /// Returns what a daemon that starts now reads from the state file.
    pub(crate) fn saved(&self) -> SavedState {
        let file = self.manager.snapshot("boot").encode();
        SavedState::decode(&file, "boot").expect("it was just written")
    }

    /// Reports something to the manager, and carries out what it requests.
    pub(crate) fn input(&mut self, input: Input) {
        self.manager.handle_input(input, self.now);
        self.run();
    }

    /// Returns the number of desired sockets, and of registered plugins.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (
            desired_sockets(&self.manager).count(),
            self.manager.registered().count(),
        )
    }

    /// Lets plugins use this many descriptors.
    pub(crate) fn limit_descriptors(&mut self, limit: usize) {
        let limit = DESCRIPTOR_RESERVE.saturating_add(limit);
        self.manager.set_descriptor_limit(limit);
    }

    /// Returns the state of the plugin at a path, as operators see it.
    pub(crate) fn state(&self, path: &str) -> Option<State> {
        Some(self.manager.records().get(Path::new(path))?.state)
    }

    /// Returns since when the plugin that is registered at a path is down, if it is.
    pub(crate) fn down_since(&self, path: &str) -> Option<Time> {
        let registered = self.registered(path);
        registered.expect("it is registered").health.down_since()
    }

    /// Returns the failure of the last attempt at a path.
    pub(crate) fn failure(&self, path: &str) -> String {
        let failure = self.desired(path).and_then(|it| it.last_failure.as_ref());
        failure.expect("the attempt failed").to_string()
    }

    /// Removes the events, and returns their reasons.
    pub(crate) fn reasons(&mut self) -> String {
        let events = std::mem::take(&mut self.events);
        let reasons: Vec<_> = events.iter().map(PluginEvent::reason).collect();
        reasons.join(" ")
    }

    /// Removes the events, and asserts their reasons and their lines in the log.
    #[track_caller]
    pub(crate) fn assert_events(&mut self, expected: &[&str]) {
        let events = std::mem::take(&mut self.events);
        let shown = events.iter().map(|it| format!("{} {it}", it.reason()));
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    /// Removes the events, and returns the lines of the log that are warnings.
    pub(crate) fn warnings(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.events);
        let warnings = events.iter().filter(|it| it.level() <= log::Level::Warn);
        warnings.map(ToString::to_string).collect()
    }

    /// Answers the first question that a handler left open since the last one was answered so.
    pub(crate) fn answer_open(&mut self, result: Result<(), Reason>) {
        let ticket = self.handler.open()[0];
        self.answer(ticket, result);
    }

    /// Answers a question that a handler left open.
    pub(crate) fn answer(&mut self, ticket: Ticket, result: Result<(), Reason>) {
        self.input(Input::Answered { ticket, result });
    }
}

/// Returns what the manager would do if no operation ran.
pub(crate) fn world_plan(manager: &Manager) -> Vec<(Action, Arc<Path>)> {
    plan(manager.sockets().map(|socket| {
        let desired = socket.desired().map(|it| it.identity);
        let registered = socket.registered().map(|it| it.identity);
        (socket.path().clone(), desired, registered)
    }))
}

/// More outputs than the manager has at one moment for a handful of sockets, or for a thousand.
const AT_ONE_MOMENT: usize = 100_000;

/// Returns the sockets of restored plugins that have been neither found nor lost yet.
pub(crate) fn awaited_sockets(manager: &Manager) -> Vec<Arc<Path>> {
    let awaited = manager.registered().filter_map(Registered::awaited_socket);
    awaited.cloned().collect()
}

/// Returns every path at which a socket exists, and the socket.
pub(crate) fn desired_sockets(manager: &Manager) -> impl Iterator<Item = (&Arc<Path>, &Desired)> {
    let sockets = manager.sockets();
    sockets.filter_map(|socket| Some((socket.path(), socket.desired()?)))
}

/// Returns whether the last frame is a GOAWAY frame without debug data (RFC 9113, section 6.8).
fn ends_with_goaway(bytes: &[u8]) -> bool {
    let start = bytes.len().checked_sub(9 + 8);
    start.is_some_and(|start| bytes[start..].starts_with(&[0, 0, 8, 7, 0, 0, 0, 0, 0]))
}

/// Returns every action that would be taken if no operation ran: unregistrations, then
/// registrations. An entry has the socket at a path, and the socket whose plugin a handler knows
/// under that path.
pub(crate) fn plan(
    entries: impl IntoIterator<Item = (Arc<Path>, Option<Identity>, Option<Identity>)>,
) -> Vec<(Action, Arc<Path>)> {
    let entries = entries.into_iter();
    let mut steps: Vec<_> = entries
        .filter_map(|(path, desired, actual)| Some((action(desired, actual, None)?, path)))
        .collect();
    steps.sort();
    steps
}

//! A world in virtual time around a [`Manager`]: sockets that appear and disappear, scripted
//! plugins behind them, a handler that records, and a clock that the test advances.

#![allow(dead_code, reason = "each test needs a part of it")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plugind::handler::{
    Answer, Context, DialError, EffectId, HandlerTable, Plugin, PluginHandler, Program, Reason,
    Ticket,
};
use plugind::http2::Endpoint as _;
use plugind::manager::reconcile::{Action, plan};
use plugind::manager::{
    AnnouncementError, AnnouncementId, ConnectionId, Input, JournalEntry, LivenessSource, Manager,
    Measurement, Output, PluginEvent, Process,
};
use plugind::time::Time;
use plugind::watch::Identity;

use crate::script::{Script, Serving};

/// The manager and its surroundings.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) manager: Manager,
    pub(crate) now: Time,
    pub(crate) handler: Log,
    /// The socket at each path; several paths may lead to one socket.
    sockets: BTreeMap<Arc<Path>, Identity>,
    /// The plugin behind each socket, or `None` if no process listens.
    plugins: BTreeMap<Identity, Option<Script>>,
    /// The paths that were reported to the manager, and the socket at each.
    noticed: BTreeMap<Arc<Path>, Identity>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// What is in flight to the manager, in order for each connection.
    in_flight: BTreeMap<ConnectionId, VecDeque<Delivery>>,
    hung_up: BTreeSet<ConnectionId>,
    /// The connections with more messages than were handled at once.
    to_resume: VecDeque<ConnectionId>,
    /// The number of times that the manager asked to be resumed.
    pub(crate) resumed: usize,
    dialled: Vec<(Identity, Time)>,
    /// The paths that the watch is to examine again.
    pub(crate) examined: Vec<Arc<Path>>,
    /// The events that the manager has emitted.
    pub(crate) events: Vec<PluginEvent>,
    /// What the manager has measured.
    pub(crate) measured: Vec<Measurement>,
    /// The sockets whose processes are watched.
    watched_processes: BTreeMap<ConnectionId, Identity>,
    /// The source of liveness of plugins whose processes can be watched.
    pub(crate) liveness_source: LivenessSource,
    /// Whether what is in flight waits for [`World::deliver`].
    pub(crate) is_slow: bool,
    /// Whether the daemon gets a descriptor when it dials.
    pub(crate) has_descriptors: bool,
    /// Whether to print the outputs of the manager.
    pub(crate) is_loud: bool,
    last_inode: u64,
    /// The programs that run.
    pub(crate) programs: BTreeMap<EffectId, Program>,
    /// The entries of the journal, one for each program that was started.
    pub(crate) journal: Vec<JournalEntry>,
    /// The programs that were killed.
    pub(crate) killed: Vec<EffectId>,
    /// The number of connections that were dialled to each path.
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
    Dialled(Arc<Path>, Option<Identity>),
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

    /// Creates a world without sockets around this manager.
    pub(crate) fn with(manager: Manager) -> Self {
        Self {
            manager,
            now: Time::ZERO,
            handler: Log::default(),
            sockets: BTreeMap::new(),
            plugins: BTreeMap::new(),
            noticed: BTreeMap::new(),
            connections: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            hung_up: BTreeSet::new(),
            to_resume: VecDeque::new(),
            resumed: 0,
            dialled: Vec::new(),
            examined: Vec::new(),
            events: Vec::new(),
            measured: Vec::new(),
            watched_processes: BTreeMap::new(),
            liveness_source: LivenessSource::Process,
            is_slow: false,
            has_descriptors: true,
            is_loud: false,
            last_inode: 0,
            programs: BTreeMap::new(),
            journal: Vec::new(),
            killed: Vec::new(),
            dials: BTreeMap::new(),
            answered: Vec::new(),
        }
    }

    /// Ends the daemon with all its connections, and starts another one with this manager.
    pub(crate) fn restart(&mut self, manager: Manager) {
        self.manager = manager;
        self.noticed.clear();
        self.connections.clear();
        self.in_flight.clear();
        self.hung_up.clear();
        self.to_resume.clear();
        self.dialled.clear();
        self.examined.clear();
        self.watched_processes.clear();
        self.programs.clear();
    }

    /// Creates a socket, with or without a plugin behind it, and reports it.
    pub(crate) fn appear(&mut self, path: &str, plugin: impl Into<Option<Script>>) -> Identity {
        let identity = self.create(path, plugin);
        self.notice(path);
        self.run();
        identity
    }

    /// Creates a socket, which is not reported yet.
    pub(crate) fn create(&mut self, path: &str, plugin: impl Into<Option<Script>>) -> Identity {
        self.last_inode += 1;
        let identity = Identity {
            device: 1,
            inode: self.last_inode,
            btime: (0, 0),
        };
        self.plugins.insert(identity, plugin.into());
        self.sockets.insert(Path::new(path).into(), identity);
        identity
    }

    /// Makes another path lead to a socket, which is not reported yet.
    pub(crate) fn link(&mut self, from: &str, to: &str) {
        let identity = self.sockets[Path::new(from)];
        self.sockets.insert(Path::new(to).into(), identity);
    }

    /// Returns the socket at the path.
    pub(crate) fn identity(&self, path: &Path) -> Option<Identity> {
        self.sockets.get(path).copied()
    }

    fn listener(&self, path: &Path) -> Option<&Script> {
        let identity = self.sockets.get(path)?;
        self.plugins.get(identity)?.as_ref()
    }

    /// Reports what is at the path, as the watch does.
    pub(crate) fn notice(&mut self, path: &str) {
        let path: Arc<Path> = Path::new(path).into();
        self.notice_as(path, false);
    }

    /// Reports a symbolic link at the path, as the watch does.
    pub(crate) fn notice_link(&mut self, path: &str) {
        self.notice_as(Path::new(path).into(), true);
    }

    fn notice_as(&mut self, path: Arc<Path>, is_link: bool) {
        self.noticed.remove(&path);
        let input = match self.identity(&path) {
            Some(identity) => {
                let is_alias = self.noticed.values().any(|it| *it == identity);
                self.noticed.insert(path.clone(), identity);
                if is_alias {
                    Input::Alias {
                        path,
                        identity,
                        is_link,
                    }
                } else {
                    Input::Found {
                        path,
                        identity,
                        is_link,
                    }
                }
            }
            None => Input::Lost { path },
        };
        self.manager.handle_input(input, self.now);
    }

    /// Removes a socket, and reports its removal. Connections to the socket stay open.
    pub(crate) fn vanish(&mut self, path: &str) {
        self.remove(path);
        self.notice(path);
        self.run();
    }

    /// Removes a socket, which is not reported yet.
    pub(crate) fn remove(&mut self, path: &str) {
        self.sockets.remove(Path::new(path));
    }

    /// Moves the sockets at and below `from` to `to`, or removes them if `to` is `None`.
    pub(crate) fn rename(&mut self, from: &Path, to: Option<&Path>) {
        let all = std::mem::take(&mut self.sockets);
        let (moved, stay) = all
            .into_iter()
            .partition(|(path, _)| path.starts_with(from));
        self.sockets = stay;
        let moved: BTreeMap<Arc<Path>, Identity> = moved;
        let Some(to) = to else { return };
        for (path, listener) in moved {
            let rest = path.strip_prefix(from).expect("the path is below `from`");
            let path = if rest.as_os_str().is_empty() {
                to.to_owned()
            } else {
                to.join(rest)
            };
            self.sockets.insert(path.into(), listener);
        }
    }

    /// Returns the paths of all sockets.
    pub(crate) fn paths(&self) -> Vec<String> {
        let paths = self.sockets.keys().map(|path| path.to_str());
        paths
            .map(|path| path.expect("every path is text").to_owned())
            .collect()
    }

    /// Returns the last status that the plugin at the path received.
    pub(crate) fn notification_of(&self, path: &Path) -> Option<(bool, &str)> {
        self.listener(path)?.last_notified()
    }

    /// Makes the plugin behind the path do everything right from now on, or starts one if no
    /// process listens. Returns whether it describes itself in another way than before.
    pub(crate) fn behave(&mut self, path: &str) -> bool {
        let identity = self.identity(Path::new(path));
        let Some(plugin) = identity.and_then(|it| self.plugins.get_mut(&it)) else {
            return false;
        };
        let before = plugin.as_ref().map(|plugin| plugin.info.clone());
        let name = plugin.as_ref().map_or("late", |plugin| &plugin.info.name);
        let name = if name.is_empty() { "named" } else { name };
        let notified = plugin
            .as_ref()
            .map_or_else(Vec::new, |plugin| plugin.notified.clone());
        *plugin = Some(Script {
            notified,
            ..Script::good("CSIPlugin", name)
        });
        before != plugin.as_ref().map(|plugin| plugin.info.clone())
    }

    /// Returns the plugin behind the socket at `path`.
    pub(crate) fn plugin(&mut self, path: &str) -> &mut Script {
        let identity = self.identity(Path::new(path)).expect("it is a socket");
        let plugin = self.plugins.get_mut(&identity).and_then(Option::as_mut);
        plugin.expect("a process listens on the socket")
    }

    /// Makes a plugin listen on the socket at `path`.
    pub(crate) fn listen(&mut self, path: &str, plugin: Script) {
        let identity = self.identity(Path::new(path)).expect("it is a socket");
        self.plugins.insert(identity, Some(plugin));
    }

    /// Carries out what the manager requests, until it requests nothing more at this moment.
    pub(crate) fn run(&mut self) {
        let mut count = 0;
        loop {
            while let Some(output) = self.manager.poll_output() {
                self.execute_output(output);
                count += 1;
                assert!(count < AT_ONE_MOMENT, "the manager has outputs without end");
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
                self.dialled
                    .extend(identity.map(|identity| (identity, self.now)));
                self.send(conn, Delivery::Dialled(path, identity));
            }
            Output::Transmit { conn } => self.transmit(conn),
            Output::Resume { conn } => {
                self.resumed += 1;
                self.to_resume.push_back(conn);
            }
            Output::Hangup { conn, .. } => {
                // What is in flight still arrives, and must not have an effect.
                self.connections.remove(&conn);
                self.hung_up.insert(conn);
            }
            Output::Spawn { id, program } => {
                self.journal.extend(self.manager.journal_entry(id));
                self.programs.insert(id, program);
            }
            Output::Kill { id } => {
                self.programs.remove(&id);
                self.killed.push(id);
            }
            Output::Examine { path } => self.examined.push(path),
            Output::AnnouncementAnswered { id, result } => self.answered.push((id, result)),
            Output::Event(event) => self.events.push(*event),
            Output::Measured(measurement) => self.measured.push(measurement),
            Output::WatchPeer { conn } => self.watch_peer(conn),
            Output::UnwatchPeer { conn } => {
                self.watched_processes.remove(&conn);
            }
        }
    }

    /// Watches the process of a plugin, if that is wanted, or its connection: a process that has
    /// ended cannot be watched.
    fn watch_peer(&mut self, conn: ConnectionId) {
        let mut by = LivenessSource::Connection;
        if let Some(connection) = self.connections.get(&conn) {
            if self.liveness_source == LivenessSource::Process && connection.is_open {
                by = LivenessSource::Process;
                self.watched_processes.insert(conn, connection.identity);
            }
        }
        let watched = Input::PeerWatched { conn, by };
        self.manager.handle_input(watched, self.now);
    }

    /// Removes the socket at `path` and ends its process. Only the end of the process is reported
    /// yet.
    pub(crate) fn kill_and_remove(&mut self, path: &str) {
        let identity = self.sockets.remove(Path::new(path));
        let identity = identity.expect("it is a socket");
        let of_it = self
            .watched_processes
            .iter()
            .filter(|(_, watched)| **watched == identity);
        for conn in of_it.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.watched_processes.remove(&conn);
            let ended = Input::ProcessEnded { conn };
            self.manager.handle_input(ended, self.now);
        }
        self.run();
    }

    /// Ends every watched process; other processes answer in their place.
    pub(crate) fn lose_processes(&mut self) {
        for (conn, _) in std::mem::take(&mut self.watched_processes) {
            let ended = Input::ProcessEnded { conn };
            self.manager.handle_input(ended, self.now);
        }
        self.run();
    }

    /// Kills the process behind the socket at `path`, which leaves the socket behind.
    pub(crate) fn kill(&mut self, path: &str) {
        let Some(identity) = self.identity(Path::new(path)) else {
            return;
        };
        self.plugins.insert(identity, None);
        let of_it = |it: &Identity| *it == identity;
        let watched_processes: Vec<_> = self
            .watched_processes
            .iter()
            .filter(|(_, it)| of_it(it))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in watched_processes {
            self.watched_processes.remove(&conn);
            self.manager
                .handle_input(Input::ProcessEnded { conn }, self.now);
        }
        let connections: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, it)| of_it(&it.identity))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in connections {
            self.break_connection(conn);
        }
        self.run();
    }

    fn send(&mut self, conn: ConnectionId, delivery: Delivery) {
        self.in_flight.entry(conn).or_default().push_back(delivery);
    }

    /// Returns the connections on which something is in flight.
    pub(crate) fn busy_connections(&self) -> Vec<ConnectionId> {
        self.in_flight.keys().copied().collect()
    }

    /// Returns the sockets that were dialled since the last call, and the time of each dial.
    pub(crate) fn take_dials(&mut self) -> Vec<(Identity, Time)> {
        std::mem::take(&mut self.dialled)
    }

    /// Returns the connections that were hung up.
    pub(crate) fn hung_up(&self) -> Vec<ConnectionId> {
        self.hung_up.iter().copied().collect()
    }

    /// Returns the number of processes that are watched.
    pub(crate) fn watched_processes(&self) -> usize {
        self.watched_processes.len()
    }

    /// Returns the connections that the manager has not hung up.
    pub(crate) fn open_connections(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    /// Delivers what is in flight first on this connection.
    pub(crate) fn deliver(&mut self, conn: ConnectionId) {
        let Some(queue) = self.in_flight.get_mut(&conn) else {
            return;
        };
        let delivery = queue.pop_front();
        if queue.is_empty() {
            self.in_flight.remove(&conn);
        }
        match delivery {
            Some(Delivery::Dialled(path, wanted)) => self.dialled(conn, path, wanted),
            Some(Delivery::Bytes(bytes)) => self.receive(conn, &bytes),
            Some(Delivery::Close) => self.manager.handle_input(Input::Closed { conn }, self.now),
            None => {}
        }
    }

    /// Splits what is in flight first on this connection in two at `at`, if that is possible.
    pub(crate) fn split(&mut self, conn: ConnectionId, at: usize) {
        let Some(queue) = self.in_flight.get_mut(&conn) else {
            return;
        };
        if let Some(Delivery::Bytes(bytes)) = queue.front_mut() {
            if at < bytes.len() {
                let rest = bytes.split_off(at);
                queue.insert(1, Delivery::Bytes(rest));
            }
        }
    }

    /// Closes the plugin's end of this connection.
    pub(crate) fn break_connection(&mut self, conn: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&conn).filter(|it| it.is_open) {
            connection.is_open = false;
            self.send(conn, Delivery::Close);
        }
    }

    /// Sends one more message on the stream of [`WATCH`](crate::script::WATCH) on this connection.
    pub(crate) fn say(&mut self, conn: ConnectionId, message: &str) {
        let words = self.connections[&conn].serving.say(message);
        self.send(conn, Delivery::Bytes(words));
        self.run();
    }

    /// Puts several messages in one frame in flight on this connection, without delivering them.
    pub(crate) fn send_in_one_frame(&mut self, conn: ConnectionId, messages: &[String]) {
        let frame = self.connections[&conn].serving.in_one_frame(messages);
        self.send(conn, Delivery::Bytes(frame));
    }

    /// Ends the stream of [`WATCH`](crate::script::WATCH) on this connection.
    pub(crate) fn stop(&mut self, conn: ConnectionId) {
        let connection = self
            .connections
            .get_mut(&conn)
            .expect("the connection is open");
        let words = connection.serving.stop();
        self.send(conn, Delivery::Bytes(words));
        self.run();
    }

    /// Sends one more message on each open stream of the plugin behind the socket at `path`.
    pub(crate) fn push(&mut self, path: &str, message: &[u8]) {
        self.write_to(path, |serving| serving.push(message));
    }

    /// Ends each open stream of the plugin behind the socket at `path` with this status.
    pub(crate) fn end_streams(&mut self, path: &str, code: u16) {
        self.write_to(path, |serving| serving.end(code));
    }

    fn write_to(&mut self, path: &str, write: impl Fn(&mut Serving) -> Vec<u8>) {
        let path = Path::new(path);
        let of_it = |it: &(&ConnectionId, &mut Connection)| it.1.is_open && *it.1.path == *path;
        let open = self.connections.iter_mut().filter(of_it);
        let written: Vec<_> = open
            .map(|(conn, it)| (*conn, write(&mut it.serving)))
            .collect();
        for (conn, bytes) in written {
            if !bytes.is_empty() {
                self.send(conn, Delivery::Bytes(bytes));
            }
        }
        self.run();
    }

    /// Closes the plugin's end of every connection to the socket at `path`.
    pub(crate) fn cut(&mut self, path: &str) {
        let of_it = |it: &Connection| *it.path == *Path::new(path);
        let connections: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, it)| of_it(it))
            .collect();
        let connections: Vec<_> = connections.into_iter().map(|(conn, _)| *conn).collect();
        for conn in connections {
            self.break_connection(conn);
        }
        self.run();
    }

    /// Returns the number of open connections to the socket at `path`.
    pub(crate) fn open_to(&self, path: &str) -> usize {
        let of_it = |it: &&Connection| it.is_open && *it.path == *Path::new(path);
        self.connections.values().filter(of_it).count()
    }

    fn dialled(&mut self, conn: ConnectionId, path: Arc<Path>, wanted: Option<Identity>) {
        let connected = match (self.identity(&path), self.listener(&path)) {
            _ if !self.has_descriptors => Err(DialError::NoDescriptors),
            (None, _) => Err(DialError::Gone),
            (Some(there), _) if wanted.is_some_and(|wanted| wanted != there) => {
                Err(DialError::Replaced)
            }
            (Some(_), None) => Err(DialError::Refused),
            (Some(identity), Some(plugin)) => Ok((identity, plugin.uid)),
        };
        let input = match connected {
            Err(error) => Input::DialFailed { conn, error },
            Ok((identity, uid)) => {
                let connection = Connection {
                    path,
                    identity,
                    serving: Serving::default(),
                    is_open: true,
                };
                if !self.hung_up.contains(&conn) {
                    self.connections.insert(conn, connection);
                }
                let process = Some(Process { pid: None, uid });
                Input::Connected { conn, process }
            }
        };
        self.manager.handle_input(input, self.now);
    }

    fn transmit(&mut self, conn: ConnectionId) {
        let Some(end) = self.manager.endpoint(conn) else {
            return;
        };
        let bytes = end.transmit().to_vec();
        end.sent(bytes.len(), self.now);
        self.manager.handle_io(conn, self.now);
        let Some(connection) = self.connections.get_mut(&conn).filter(|it| it.is_open) else {
            return;
        };
        let is_there = self.sockets.values().any(|it| *it == connection.identity);
        let plugin = self.plugins.get_mut(&connection.identity);
        let Some(plugin) = plugin.and_then(Option::as_mut).filter(|_| is_there) else {
            return;
        };
        let reaction = connection.serving.read(plugin, &bytes);
        connection.is_open = !reaction.close;
        if !reaction.write.is_empty() {
            self.send(conn, Delivery::Bytes(reaction.write));
        }
        if reaction.close {
            self.send(conn, Delivery::Close);
        }
    }

    fn receive(&mut self, conn: ConnectionId, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = self.manager.endpoint(conn);
            let n = end.map_or(0, |end| end.receive_from(bytes, self.now));
            if n == 0 {
                return;
            }
            bytes = &bytes[n..];
            self.manager.handle_io(conn, self.now);
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

    /// Returns the number of desired sockets, and of registered plugins.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (
            self.manager.desired().count(),
            self.manager.registered().count(),
        )
    }

    /// Answers a question that a handler left open.
    pub(crate) fn answer(&mut self, ticket: Ticket, result: Result<(), Reason>) {
        self.manager
            .handle_input(Input::Answered { ticket, result }, self.now);
        self.run();
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

/// What the recording handler was asked, and its next answers; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<LogState>>);

#[derive(Debug, Default)]
struct LogState {
    notified: Vec<String>,
    answers: VecDeque<Answer>,
    open: Vec<Ticket>,
}

impl Log {
    /// Adds answers to the next questions; after these, every answer is yes.
    pub(crate) fn will_answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.lock().answers.extend(answers);
    }

    /// Returns the questions that were left open since the last call, oldest first.
    pub(crate) fn open(&self) -> Vec<Ticket> {
        std::mem::take(&mut self.lock().open)
    }

    /// Returns what the handler was asked since the last call.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.lock().notified).join(", ")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LogState> {
        self.0.lock().expect("no panic under the lock")
    }

    fn asked(&self, what: &str, plugin: &Plugin, context: &Context<'_>) -> Answer {
        let mut state = self.lock();
        let mut line = format!("{what} {}", plugin.name);
        if plugin.endpoint != plugin.socket {
            write!(line, "@{}", plugin.endpoint.display()).expect("a string can be written to");
        }
        state.notified.push(line);
        let answer = state.answers.pop_front().unwrap_or(Answer::YES);
        if answer == Answer::Pending {
            state.open.extend(context.ticket());
        }
        answer
    }
}

#[derive(Debug)]
pub(crate) struct Recorder(pub(crate) Log);

impl PluginHandler for Recorder {
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.0.asked("validate", plugin, context)
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.0.asked("register", plugin, context)
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.0.asked("deregister", plugin, context)
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) {
        let line = format!("promoted {}@{}", plugin.name, plugin.endpoint.display());
        self.0.lock().notified.push(line);
    }

    fn abandon(&mut self, _: Ticket, _: &mut Context<'_>) {
        self.0.lock().notified.push("abandon".into());
    }
}

/// More outputs than the manager has at one moment for a handful of sockets, or for a thousand.
const AT_ONE_MOMENT: usize = 100_000;

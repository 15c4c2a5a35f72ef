//! kubelet's device-plugins directory in the poll loop: `kubelet.sock`, its clients, and what they
//! announce.
//!
//! ```text
//!   Directory -- accept() --> Client -- bytes --> Registrar -- Announce --> PluginManager
//!       ^                       ^                     |                          |
//!       | inotify, mounts       +------- bytes -------+------- answer() <--------+
//! ```
//!
//! `directory` is the directory with its socket.

mod directory;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Event;
use mio::{Interest, Registry};

use self::directory::Directory;
pub(in crate::daemon) use self::directory::remedy;
use crate::config::{MAX_REGISTRATIONS, REGISTRATION_RETRY, SYSTEM_RETRY};
use crate::daemon::connection::{self, Connection};
use crate::daemon::fs::acceptor::SocketProblem;
use crate::daemon::source::Source;
use crate::escape;
use crate::http2::Endpoint as _;
use crate::manager::{AnnouncementError, AnnouncementId, Input, Process};
use crate::registration::{ClientId, Output, Registrar};
use crate::time::Time;

/// The service for device plugins that announce themselves.
#[derive(Debug)]
pub(crate) struct DevicePlugins {
    pub(crate) dir: Arc<Path>,
    /// `None` while the service cannot listen, or once the daemon is stopping.
    directory: Option<Directory>,
    registrar: Registrar,
    clients: Vec<(ClientId, Connection)>,
    /// Whether clients may have to be served although the loop reports nothing.
    is_any_ready: bool,
    /// Whether the directory is to be checked, because it, or a mount on it, may have changed.
    pub(crate) is_check_due: bool,
    /// The time before which the service neither listens again nor checks the directory.
    listen_at: Time,
    /// The last pause between two attempts to listen.
    pause: Duration,
    /// The problem because of which the service cannot listen, as logged.
    problem: Option<String>,
    is_stopping: bool,
}

impl DevicePlugins {
    /// Starts the service in a directory, which is created if it is missing. Removes the sockets in
    /// it first, as kubelet does: both that and the new socket make plugins announce themselves
    /// again.
    pub(crate) fn open(dir: &Path, registry: &Registry) -> Result<Self, SocketProblem> {
        directory::create_and_clear(dir)?;
        let directory = Directory::open(dir, registry)?;
        let dir: Arc<Path> = dir.into();
        Ok(Self {
            dir: dir.clone(),
            is_check_due: false,
            directory: Some(directory),
            registrar: Registrar::new(dir),
            clients: Vec::new(),
            is_any_ready: true,
            listen_at: Time::ZERO,
            pause: REGISTRATION_RETRY.first,
            problem: None,
            is_stopping: false,
        })
    }

    /// Records an event that the loop has reported: about the socket, its directory or a client.
    pub(crate) fn record_event(&mut self, event: &Event) {
        let token = event.token();
        match (Source::of(token), &mut self.directory) {
            (Source::DevicePluginsDir, _) => self.is_check_due = true,
            (Source::RegistrationListener, Some(directory)) => {
                directory.acceptor.record_readiness();
            }
            _ => {}
        }
        let mut clients = self.clients.iter_mut();
        let is_it = |it: &&mut (ClientId, _)| Source::RegistrationClient(it.0).token() == token;
        if let Some((_, connection)) = clients.find(is_it) {
            connection.record_event(event);
            self.is_any_ready = true;
        }
    }

    /// Returns when there is something to do although the loop reports nothing.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let is_any_ready = self.is_any_ready.then_some(Time::ZERO);
        let room_at = if self.registrar.has_room() {
            Some(Time::ZERO)
        } else {
            self.registrar.make_room_at()
        };
        let accept_at = room_at.zip(self.accept_time()).map(|(a, b)| a.max(b));
        let is_watched = self.directory.as_ref().is_some_and(|it| it.is_watched);
        let is_examined = !self.is_stopping && (self.is_check_due || !is_watched);
        let listen_at = is_examined.then_some(self.listen_at);
        let client = self.registrar.poll_timeout();
        let times = [is_any_ready, accept_at, client, listen_at];
        times.into_iter().flatten().min()
    }

    /// Returns when to try to accept a client, or `None` until the loop reports one.
    fn accept_time(&self) -> Option<Time> {
        self.directory.as_ref()?.acceptor.ready_at
    }

    /// Accepts clients, reads their calls and writes the answers, a piece of each. Listens again if
    /// that is due. Returns the plugins that announce themselves, and the calls that are over.
    pub(crate) fn serve(&mut self, registry: &Registry, now: Time) -> Vec<Input> {
        self.registrar.handle_timeout(now);
        self.listen_again_if_needed(registry, now);
        self.is_any_ready = false;
        for client in &mut self.clients {
            self.is_any_ready |= serve_client(client, &mut self.registrar, now);
        }
        self.remove_closed_clients();
        self.accept_clients(registry, now);
        let mut announced = Vec::new();
        while let Some(output) = self.registrar.poll_output() {
            match output {
                Output::Announce { id, plugin, caller } => {
                    announced.push(Input::Announced { id, plugin, caller });
                }
                Output::CallEnded { id } => announced.push(Input::CallEnded { id }),
                Output::Rejected { caller, reason } => self.log_rejected(caller, &reason),
            }
        }
        announced
    }

    /// Answers a call.
    pub(crate) fn answer(
        &mut self,
        id: AnnouncementId,
        result: Result<(), AnnouncementError>,
        now: Time,
    ) {
        let answered = self.registrar.answer(id, result, now);
        let mut clients = self.clients.iter_mut();
        if let Some(client) = answered.and_then(|id| clients.find(|client| client.0 == id)) {
            self.is_any_ready |= serve_client(client, &mut self.registrar, now);
        }
    }

    /// Removes the socket and closes all connections: plugins that are still being registered get
    /// no answer.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
        self.directory = None;
        for client in std::mem::take(&mut self.clients) {
            close_client(client, &mut self.registrar);
        }
    }

    /// Listens again if the socket or its directory was removed or replaced, or if the last attempt
    /// to listen failed.
    fn listen_again_if_needed(&mut self, registry: &Registry, now: Time) {
        if self.is_stopping || now < self.listen_at {
            return;
        }
        let is_check_due = std::mem::take(&mut self.is_check_due);
        let dir = escape::path(&self.dir);
        if let Some(directory) = &mut self.directory {
            if !is_check_due && directory.is_watched {
                return;
            }
            directory.watch(&self.dir);
            if directory.is_in_place() {
                if !directory.is_watched {
                    self.listen_at = now + SYSTEM_RETRY;
                }
                return;
            }
            log::warn!("{dir}: kubelet.sock was removed or replaced, creating it again");
        }
        self.directory = None; // Does not remove the file, which was removed or replaced.
        match Directory::open(&self.dir, registry) {
            Ok(directory) => {
                self.directory = Some(directory);
                self.listen_at = now + REGISTRATION_RETRY.first;
                self.pause = REGISTRATION_RETRY.first;
                if self.problem.take().is_some() {
                    log::info!("{dir}: device plugins can register again");
                }
            }
            Err(problem) => {
                self.pause = REGISTRATION_RETRY.next_pause(Some(self.pause));
                self.listen_at = now + self.pause;
                let problem = problem.to_string();
                if self.problem.as_ref() != Some(&problem) {
                    log::error!("{dir}: cannot serve kubelet.sock, retrying: {problem}");
                    self.problem = Some(problem);
                }
            }
        }
    }

    /// Accepts clients that wait, as long as there is room or room can be made: the backlog should
    /// not be full when a plugin connects. If many wait, most are left to the next turn, so that
    /// those already accepted are served before room has to be made.
    fn accept_clients(&mut self, registry: &Registry, now: Time) {
        for _ in 0..MAX_REGISTRATIONS / 4 {
            if self.accept_time().is_none_or(|at| at > now) {
                return;
            }
            if !self.registrar.has_room() {
                self.registrar.make_room(now);
                self.remove_closed_clients();
            }
            if !self.registrar.has_room() || !self.accept_one(registry, now) {
                return;
            }
        }
    }

    /// Accepts a client that waits. Returns whether there was one.
    fn accept_one(&mut self, registry: &Registry, now: Time) -> bool {
        let directory = self.directory.as_mut();
        let Some(mut stream) = directory.and_then(|it| it.acceptor.accept(now)) else {
            return false;
        };
        self.is_any_ready = true;
        let id = self
            .registrar
            .accept(connection::peer_process(&stream), now);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Source::RegistrationClient(id).token();
        match registry.register(&mut stream, token, interest) {
            Ok(()) => self.clients.push((id, Connection::new(stream))),
            Err(error) => {
                let dir = escape::path(&self.dir);
                log::debug!("{dir}: cannot serve a device plugin: {error}");
                self.registrar.remove(id);
            }
        }
        true
    }

    fn remove_closed_clients(&mut self) {
        let mut at = 0;
        while let Some((id, _)) = self.clients.get(at) {
            if self.registrar.is_closed(*id) {
                close_client(self.clients.remove(at), &mut self.registrar);
            } else {
                at += 1;
            }
        }
    }

    fn log_rejected(&self, caller: Option<Process>, reason: &str) {
        let (dir, reason) = (escape::path(&self.dir), escape::text(reason));
        match caller {
            Some(Process { pid, uid }) => {
                let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
                log::warn!("{dir}: rejected a device plugin: {reason} pid={pid} uid={uid}");
            }
            None => log::warn!("{dir}: rejected a device plugin: {reason}"),
        }
    }
}

/// Writes once and reads once. Returns whether there may be more to do without another report of
/// the loop.
fn serve_client(
    (id, connection): &mut (ClientId, Connection),
    to: &mut Registrar,
    now: Time,
) -> bool {
    let end = to.endpoint(*id);
    let has_moved = end.is_some_and(|end| connection.pump(end, now));
    if has_moved {
        to.process_received(*id, now);
    }
    has_moved
}

/// Writes the final bytes and closes the connection.
fn close_client((id, connection): (ClientId, Connection), to: &mut Registrar) {
    let end = to.endpoint(id);
    connection.hang_up(end.map_or(&[][..], |end| end.transmit()));
    to.remove(id);
}

/// The descriptors of the service: one for each of its connections, one for the socket and one for
/// watching the directory.
pub(crate) const DESCRIPTORS: usize = 2 * MAX_REGISTRATIONS + 2;

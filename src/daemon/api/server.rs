//! The API in the poll loop: its sockets, its clients, and the state that the responses are made
//! from.
//!
//! ```text
//!   Listener -- accept() --> Client -- bytes --> Server -- poll_change() --> PluginManager
//!                              ^                   |  ^
//!                              + pending_output() -+  +-- View: manager, watch, events
//! ```
//!
//! Everything is done at the end of a turn, within limits: on the number of clients that are
//! accepted, the bytes that are read from each, the writes to each, the text that is rendered for
//! all, and the changes that are made. So clients delay plugins by a few milliseconds at most.

use std::collections::hash_map::RandomState;
use std::fmt::Debug;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::path::Path;
use std::process;

use mio::Registry;
use mio::event::Event;
use mio::net::UnixStream;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Uid;
use serde_json::json;

use super::exchange::{self, Client};
use super::listener::Listener;
use crate::api::{self, Access, Change, ClientId, EventLog, Response, Selection, Server, Status};
use crate::config::{API_CLIENTS, API_STOP_GRACE, Config};
use crate::daemon::clock::{Calendar, time_of_day};
use crate::daemon::process::peer_groups::is_in_group;
use crate::daemon::source::Source;
use crate::escape;
use crate::handler::Inventory;
use crate::handler::device::Wish;
use crate::manager::Manager;
use crate::time::Time;
use crate::watch::Rescanned;

/// The API and its clients.
#[derive(Debug)]
pub(crate) struct Api {
    /// Empty if the API is off, and once the daemon is stopping.
    listeners: Vec<Listener>,
    /// The group whose members may be granted devices.
    allocate_group: Option<u32>,
    pub(crate) server: Server,
    clients: Vec<Client>,
    /// The events that are kept for readers.
    pub(crate) events: EventLog,
    pub(crate) daemon: api::Daemon,
    pub(crate) calendar: Calendar,
    /// What the built-in handlers know about their plugins, if it is shown.
    pub(crate) inventory: Option<Inventory>,
    /// The logger whose filter clients may change.
    pub(crate) log: Option<&'static dyn Filtered>,
    /// Whether a client that held devices, or waited for some, has disconnected.
    pub(crate) has_freed: bool,
    /// The clients that wait for a rescan, each with the number of that rescan.
    pub(crate) rescans: Vec<(ClientId, u64)>,
    /// The clients that wait for a reload, which the owner carries out; `None` if it does not.
    pub(crate) reloads: Option<Vec<ClientId>>,
    /// The time at which clients that have not read their last response are disconnected.
    stop_at: Option<Time>,
}

impl Api {
    /// Creates the API on these sockets, and adds them to the loop.
    pub(crate) fn new(
        mut listeners: Vec<Listener>,
        config: &Config,
        registry: &Registry,
        now: Time,
    ) -> io::Result<Self> {
        let token = Source::ApiListener.token();
        for listener in &mut listeners {
            listener.acceptor.register(token, registry)?;
        }
        Ok(Self {
            listeners,
            allocate_group: config.allocate_group,
            // The CDI device of a client is named after its number: a container that was created
            // with the device of an earlier process must not get that of another client.
            server: Server::with_last_id(ClientId(random() >> 1)),
            clients: Vec::new(),
            events: EventLog::default(),
            daemon: api::Daemon {
                pid: process::id(),
                mode: config.mode,
                instance: format!("{:016x}", random()),
                started: now,
                start_time: time_of_day(),
                sandbox: "off".to_owned(),
            },
            calendar: Calendar::default(),
            inventory: None,
            log: None,
            has_freed: false,
            rescans: Vec::new(),
            reloads: None,
            stop_at: None,
        })
    }

    /// Returns the path of the socket for the API, or of that for metrics only, until the daemon is
    /// stopping. A socket that was passed in may have a word in place of a path.
    pub(crate) fn socket_path(&self, serves_api: bool) -> Option<&Path> {
        let mut listeners = self.listeners.iter();
        let listener = listeners.find(|it| it.serves_api == serves_api);
        listener.map(|it| &*it.path)
    }

    /// Records an event that the loop has reported: about the listeners, or about a client.
    pub(crate) fn record_event(&mut self, event: &Event) {
        if event.token() == Source::ApiListener.token() {
            for listener in &mut self.listeners {
                listener.acceptor.record_readiness();
            }
        }
        let is_it = |client: &&mut Client| Source::ApiClient(client.id).token() == event.token();
        if let Some(client) = self.clients.iter_mut().find(is_it) {
            client.record_event(event);
        }
    }

    /// Returns when the API has something to do although the loop reports nothing.
    pub(crate) fn poll_timeout(&self, manager: &Manager) -> Option<Time> {
        if self.clients.iter().any(|it| it.is_ready(&self.server)) {
            return Some(Time::ZERO);
        }
        let listeners = self.listeners.iter();
        let accepting = listeners.filter_map(|it| it.acceptor.ready_at);
        let stop_at = self.stop_at.filter(|_| !self.clients.is_empty());
        let work_at = self.server.next_work_time(manager.generation());
        let times = [self.server.poll_timeout(), work_at, stop_at];
        times.into_iter().flatten().chain(accepting).min()
    }

    /// Accepts up to [`API_CLIENTS`] of the clients that wait on each socket, reads the clients'
    /// requests, and handles the deadlines that have passed. Returns how many clients were refused
    /// because there were too many.
    pub(crate) fn accept_and_read(&mut self, registry: &Registry, now: Time) -> usize {
        self.server.handle_timeout(now);
        self.remove_finished_clients(); // This makes room for others.
        let mut refused = 0;
        for at in 0..self.listeners.len() {
            for _ in 0..API_CLIENTS {
                let listener = &mut self.listeners[at];
                let serves_api = listener.serves_api;
                let Some(stream) = listener.acceptor.accept(now) else {
                    break;
                };
                match self.add_client(stream, serves_api, registry, now) {
                    Ok(is_added) => refused += usize::from(!is_added),
                    Err(error) => {
                        log::debug!("cannot serve a client of the API or of the metrics: {error}");
                    }
                }
            }
        }
        for client in &mut self.clients {
            client.read(&mut self.server, now);
        }
        refused
    }

    /// Writes the pending responses, and closes the connections that are over.
    pub(crate) fn write_responses(&mut self, now: Time) {
        for client in &mut self.clients {
            client.write(&mut self.server, now);
        }
        if self.stop_at.is_some_and(|at| at <= now) {
            self.close_all();
        }
        self.remove_finished_clients();
    }

    /// Closes all connections, which frees the devices of their clients. Pending output is lost.
    pub(crate) fn close_all(&mut self) {
        for client in &mut self.clients {
            client.is_broken = true;
        }
        self.remove_finished_clients();
    }

    /// Returns the next change that a client asks for, and logs it.
    pub(crate) fn poll_change(&mut self) -> Option<(ClientId, Change)> {
        let (id, change) = self.server.poll_change()?;
        let (pid, uid) = self.peer(id).unwrap_or_default();
        let (name, target) = describe(&change);
        log::info!("{name} requested through the API{target} pid={pid} uid={uid}");
        Some((id, change))
    }

    /// Returns the process ID and the user ID of a client, if they are known.
    pub(crate) fn peer(&self, id: ClientId) -> Option<(i32, u32)> {
        self.clients.iter().find(|it| it.id == id)?.peer
    }

    /// Responds to the clients that waited for this rescan or for an earlier one.
    pub(crate) fn answer_rescan(&mut self, result: Rescanned, now: Time) {
        let response = Response::json(&json!({
            "directories": result.directories,
            "found": result.found,
            "lost": result.lost,
        }));
        self.rescans.retain(|(id, awaited)| {
            let is_over = *awaited <= result.number;
            if is_over {
                self.server.answer_change(*id, &response, now);
            }
            !is_over
        });
    }

    /// Records that a client requests a reload and waits for it, or responds with an error if a
    /// reload is not offered.
    pub(crate) fn request_reload(&mut self, id: ClientId, now: Time) {
        if let Some(reloads) = &mut self.reloads {
            return reloads.push(id);
        }
        let why = "the plugin manager has no configuration to reload";
        let refused = Response::error(Status::NOT_FOUND, why);
        self.server.answer_change(id, &refused, now);
    }

    /// Responds to the clients that wait for a reload.
    pub(crate) fn answer_reload(&mut self, response: &Response, now: Time) {
        for id in self.reloads.iter_mut().flat_map(std::mem::take) {
            self.server.answer_change(id, response, now);
        }
    }

    /// Changes the filter of the log. Returns the response to the client that has requested it.
    pub(crate) fn set_log_filter(&self, filter: &str) -> Response {
        let Some(log) = self.log else {
            let why = "the plugin manager has no access to the log filter";
            return Response::error(Status::NOT_FOUND, why);
        };
        match log.set_filter(filter) {
            Ok(()) => Response::json(&json!({ "filter": filter })),
            Err(error) => Response::error(Status::BAD_REQUEST, &error),
        }
    }

    /// Removes the sockets, and closes each connection after the response in progress, or after
    /// [`API_STOP_GRACE`] at the latest.
    pub(crate) fn stop(&mut self, now: Time) {
        self.listeners.clear();
        self.server.stop(now);
        self.stop_at.get_or_insert(now + API_STOP_GRACE);
    }

    /// Returns whether there is neither a socket nor a client: the API is off, or its stop is
    /// complete.
    pub(crate) fn is_stopped(&self) -> bool {
        self.listeners.is_empty() && self.clients.is_empty()
    }

    /// Closes the connections that are finished or broken.
    fn remove_finished_clients(&mut self) {
        self.clients.retain_mut(|client| {
            let is_over = client.is_broken || self.server.is_finished(client.id);
            if is_over {
                self.server.remove(client.id);
                self.rescans.retain(|(id, _)| *id != client.id);
                let inventory = self.inventory.as_ref();
                self.has_freed |= inventory.is_some_and(|it| it.leases.remove_client(client.id.0));
                exchange::discard_input(&mut client.connection.stream);
            }
            !is_over
        });
    }

    /// Adds a client to the loop, or refuses it if there are too many. Returns whether it was
    /// added.
    fn add_client(
        &mut self,
        stream: UnixStream,
        serves_api: bool,
        registry: &Registry,
        now: Time,
    ) -> io::Result<bool> {
        let peer = getsockopt(&stream, sockopt::PeerCredentials).ok();
        let may_allocate = peer.zip(self.allocate_group);
        let may_allocate =
            may_allocate.is_some_and(|(peer, group)| is_in_group(&stream, peer.gid(), group));
        let peer = peer.map(|peer| (peer.pid(), peer.uid()));
        let may_change = peer.is_some_and(|(_, uid)| {
            let uid = Uid::from_raw(uid);
            uid.is_root() || uid == Uid::effective()
        });
        let access = match serves_api {
            false => Access::Metrics,
            true if may_change => Access::Change,
            true if may_allocate => Access::Allocate,
            true => Access::Read,
        };
        let Some(id) = self.server.accept(access, now) else {
            exchange::refuse(stream);
            return Ok(false);
        };
        let client = Client::open(id, stream, peer, registry);
        let client = client.inspect_err(|_| self.server.remove(id))?;
        self.clients.push(client);
        Ok(true)
    }
}

/// A log whose filter clients may change.
pub(crate) trait Filtered: Debug + Sync {
    /// Sets the filter, or returns the problem with it.
    fn set_filter(&self, directives: &str) -> Result<(), String>;
}

/// Returns the name of a change and what it concerns, for the log.
fn describe(change: &Change) -> (&'static str, String) {
    let plugin = |kind, name| {
        let (kind, name) = (escape::text(kind), escape::text(name));
        format!(" type={kind} name={name}")
    };
    match change {
        Change::Retry(Selection::All) => ("retry", String::new()),
        Change::Retry(Selection::Socket(path)) => {
            ("retry", format!(" socket={}", escape::path(path)))
        }
        Change::Retry(Selection::Plugin { kind, name }) => ("retry", plugin(kind, name)),
        Change::Rescan => ("rescan", String::new()),
        Change::Reload => ("reload", String::new()),
        Change::Log(filter) => ("log filter", format!(" filter={}", escape::text(filter))),
        Change::Forget { kind, name } => ("forget", plugin(kind, name)),
        Change::Allocate(Wish { resources, .. }) => {
            let names = resources.iter().map(|(name, _)| name.as_str());
            let names = names.collect::<Vec<_>>().join(",");
            ("allocation", format!(" resources={}", escape::text(&names)))
        }
    }
}

/// Returns a random number, from the seed that the standard library has for its hash maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

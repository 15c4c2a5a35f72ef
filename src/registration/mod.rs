//! The service `v1beta1.Registration`, by which device plugins announce themselves: kubelet's
//! `kubelet.sock`.
//!
//! Pure, like the whole folder: the daemon owns the sockets and the clock. A connection has a
//! [`ClientId`], its octets are passed through an [`Endpoint`], and each acceptable call is
//! returned as an [`Output`], to be answered when the outcome is known.
//!
//! ```text
//!   accept() -> ClientId
//!   endpoint(), process_received() -> Server -- Register --> request: is it acceptable?
//!                              ^                      |            |
//!                              +---- no: a status ----+            | yes
//!                              +---- answer(AnnouncementId) <-- poll_output() -> Announce
//! ```
//!
//! Each stream is a call of its own, as with kubelet's server, and a client may have
//! [`MAX_CLIENT_REGISTRATIONS`] calls in progress. A call that ends before it is answered (by a
//! reset, its deadline or the end of the connection) does not register its plugin.
//!
//! [`MAX_REGISTRATIONS`] clients without a call in progress may be connected, and twice as many
//! clients in all. If others wait to be accepted, a client is closed to make room: the oldest one
//! of the process with the most clients, one without a call first; else the oldest one without a
//! call, once it has had [`REGISTRATION_PATIENCE`] to call. So a process that opens ever more
//! connections displaces its own.

mod client;
mod request;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use self::client::{Client, Event};
use self::request::Rejected;
pub(crate) use self::request::SOCKET;
#[cfg(doc)]
use crate::config::MAX_CLIENT_REGISTRATIONS;
use crate::config::{MAX_REGISTRATIONS, REGISTRATION_PATIENCE};
use crate::grpc::{Code, Status};
use crate::handler::Plugin;
use crate::http2::Endpoint;
use crate::manager::{AnnouncementError, AnnouncementId, Process};
use crate::time::Time;

/// The number of a connection to the service; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(crate) u64);

/// A request to the daemon.
#[derive(Debug)]
pub enum Output {
    /// Register this plugin, and answer its call with [`Registrar::answer`].
    Announce {
        /// The number of the call.
        id: AnnouncementId,
        /// The plugin, as it described itself.
        plugin: Box<Plugin>,
        /// The process of the client, if it is known.
        caller: Option<Process>,
    },
    /// The call with this number has ended before it was answered.
    CallEnded {
        /// The number of the call.
        id: AnnouncementId,
    },
    /// Log that a call was rejected.
    Rejected {
        /// The process of the client, if it is known.
        caller: Option<Process>,
        /// The reason, as it was sent to the client.
        reason: String,
    },
}

/// The service, with the connections of its clients.
#[derive(Debug)]
pub struct Registrar {
    /// The directory of the plugins' sockets.
    dir: Arc<Path>,
    clients: Vec<Client>,
    last_client: ClientId,
    last_call: AnnouncementId,
    /// Whether clients wait to be accepted.
    is_crowded: bool,
    outputs: VecDeque<Output>,
}

impl Registrar {
    /// Creates the service for plugins with sockets in `dir`.
    pub fn new(dir: Arc<Path>) -> Self {
        Self {
            dir,
            clients: Vec::new(),
            last_client: ClientId(0),
            last_call: AnnouncementId(0),
            is_crowded: false,
            outputs: VecDeque::new(),
        }
    }

    /// Returns whether another connection may be accepted. If not, call [`Registrar::make_room`].
    pub fn has_room(&self) -> bool {
        let idle = self.clients.iter().filter(|client| !client.is_calling());
        idle.count() < MAX_REGISTRATIONS && self.clients.len() < 2 * MAX_REGISTRATIONS
    }

    /// Makes room for a connection that waits to be accepted: closes a client now, or else the
    /// first one whose calls are answered. Clients of one user whose process IDs are not known
    /// count as clients of one process: otherwise such a process could keep out all others.
    pub fn make_room(&mut self, now: Time) {
        self.is_crowded = true;
        let count = |caller| self.clients.iter().filter(|it| it.caller == caller).count();
        let clients = self.clients.iter().enumerate().rev();
        let clients = clients.map(|(at, client)| {
            let count = count(client.caller);
            // A client with a call in progress does not count itself: it is closed only if its
            // process has other clients.
            let rank = if client.is_calling() {
                count - 1
            } else {
                count
            };
            (rank, !client.is_calling(), at)
        });
        // `max_by_key` returns the last maximum, which is the oldest client in this order.
        let chosen = clients.max_by_key(|(rank, is_idle, _)| (*rank, *is_idle));
        if let Some((rank, is_idle, at)) = chosen.filter(|(rank, ..)| *rank > 0) {
            let client = &mut self.clients[at];
            let is_late = client.accepted_at + REGISTRATION_PATIENCE <= now;
            if rank > 1 || !is_idle || is_late {
                client.close_now(now);
            }
        }
    }

    /// Returns when to call [`Registrar::make_room`] again if no client has ended by then: the time
    /// at which the oldest client without a call may be closed, or `None` if all clients call.
    pub fn make_room_at(&self) -> Option<Time> {
        let idle = self.clients.iter().filter(|client| !client.is_calling());
        let oldest = idle.map(|client| client.accepted_at).min()?;
        Some(oldest + REGISTRATION_PATIENCE)
    }

    /// Adds a connection that was just accepted.
    pub fn accept(&mut self, caller: Option<Process>, now: Time) -> ClientId {
        self.last_client.0 += 1;
        let client = Client::new(self.last_client, caller, now);
        self.clients.push(client);
        self.is_crowded = false; // `make_room` sets it again if more clients wait.
        self.last_client
    }

    /// Returns the server's end of a connection. After reading into it or writing from it, call
    /// [`Registrar::process_received`].
    pub fn endpoint(&mut self, id: ClientId) -> Option<&mut impl Endpoint> {
        let client = self.clients.iter_mut().find(|client| client.id == id)?;
        Some(&mut client.server)
    }

    /// Returns whether a connection has ended. Its endpoint may still have final bytes to write.
    pub fn is_closed(&self, id: ClientId) -> bool {
        let mut clients = self.clients.iter();
        !clients.any(|client| client.id == id && !client.is_closed())
    }

    /// Removes a connection that has ended, and reports the end of its calls in progress.
    pub fn remove(&mut self, id: ClientId) {
        if let Some(at) = self.clients.iter().position(|client| client.id == id) {
            let calls = self.clients.remove(at).into_calls();
            let ended = calls.map(|id| Output::CallEnded { id });
            self.outputs.extend(ended);
        }
        self.is_crowded &= !self.has_room();
    }

    /// Processes what a client has sent.
    pub fn process_received(&mut self, id: ClientId, now: Time) {
        if let Some(at) = self.clients.iter().position(|client| client.id == id) {
            self.process_events(at, now);
        }
    }

    /// Returns the time of the next [`Registrar::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let timeouts = self.clients.iter().map(|it| it.server.poll_timeout());
        timeouts.flatten().min()
    }

    /// Handles the timeouts that are due by `now`. Calling this early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        for at in 0..self.clients.len() {
            let server = &mut self.clients[at].server;
            if server.poll_timeout().is_some_and(|due| due <= now) {
                server.handle_timeout(now);
                self.process_events(at, now);
            }
        }
    }

    /// Removes and returns the oldest request to the daemon.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Answers a call. Returns the connection on which the answer is to be written, or `None` if
    /// the call is not in progress any more. If other clients wait to be accepted and this was the
    /// client's last call in progress, closes the connection after the answer.
    pub fn answer(
        &mut self,
        id: AnnouncementId,
        result: Result<(), AnnouncementError>,
        now: Time,
    ) -> Option<ClientId> {
        let mut clients = self.clients.iter_mut();
        let client = clients.find(|client| client.plugin_endpoint(id).is_some())?;
        let endpoint = client.plugin_endpoint(id).cloned()?;
        let result = result.map_err(|error| error_status(&error, &endpoint));
        // The manager emits no event for a plugin that exceeds a limit.
        let is_limit = |status: &&Status| status.code == Code::ResourceExhausted;
        if let Some(status) = result.as_ref().err().filter(is_limit) {
            let (caller, reason) = (client.caller, status.message.clone());
            self.outputs.push_back(Output::Rejected { caller, reason });
        }
        client.answer(id, result, now);
        if self.is_crowded && !client.is_calling() {
            client.close(now);
        }
        Some(client.id)
    }

    /// Processes the events of a client: begins acceptable calls, and rejects others.
    fn process_events(&mut self, at: usize, now: Time) {
        let client = &mut self.clients[at];
        let caller = client.caller;
        while let Some(event) = client.poll_event(now) {
            let output = match event {
                Event::Ended(id) => Output::CallEnded { id },
                Event::Called(stream, request) => match request::parse_request(&request, &self.dir)
                {
                    Ok(plugin) => {
                        self.last_call.0 += 1;
                        let id = self.last_call;
                        client.add_call(stream, id, plugin.endpoint.clone());
                        let plugin = Box::new(plugin);
                        Output::Announce { id, plugin, caller }
                    }
                    Err(Rejected { code, reason }) => {
                        client.reject(stream, Status::new(code, reason.clone()), now);
                        Output::Rejected { caller, reason }
                    }
                },
            };
            self.outputs.push_back(output);
        }
    }
}

/// Returns the status for a plugin that is not registered, with kubelet's message if it has one.
fn error_status(error: &AnnouncementError, endpoint: &Path) -> Status {
    let code = match error {
        // The code that grpc-go sends for an error that is not a status.
        AnnouncementError::Failed(_) => Code::Unknown,
        AnnouncementError::Superseded | AnnouncementError::Withdrawn => Code::Aborted,
        AnnouncementError::TooMany | AnnouncementError::TooManyOfProcess => Code::ResourceExhausted,
        AnnouncementError::Stopping => Code::Unavailable,
    };
    Status::new(code, error.status_error(endpoint))
}

#[cfg(test)]
mod tests;

//! The service `v1beta1.Registration`, by which device plugins announce themselves: kubelet's
//! `kubelet.sock`.
//!
//! Pure, as all of the folder. The shell owns the sockets and the clock: connections are named by a
//! [`ClientId`], octets are read and written at an [`Endpoint`], and calls that are acceptable are
//! returned as an [`Output`], to be answered when the outcome is known.
//!
//! ```text
//!   accept() -> ClientId
//!   endpoint(), advance() -> Server -- Register --> request: is it acceptable?
//!                              ^                      |            |
//!                              +---- no: a status ----+            | yes
//!                              +---- answer(AnnouncementId) <-- poll_output() -> Announce
//! ```
//!
//! A client has one call in progress; its other calls wait, and few may. There are at most
//! [`MAX_REGISTRATIONS`] clients, so there are as many calls in progress at most. While others wait
//! to be accepted, a client without a call in progress is closed, and one whose call has been
//! answered does not begin another. So a client delays others by the time of one call at most. Of
//! several such clients, the oldest one of the process with the most clients is closed. The only
//! client of a process has [`REGISTRATION_PATIENCE`] to call: a process that connects without end
//! displaces itself.

mod client;
mod request;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use self::client::Client;
use self::request::Rejected;
pub(crate) use self::request::SOCKET;
use crate::config::{MAX_REGISTRATIONS, REGISTRATION_PATIENCE};
use crate::grpc::{Code, Status};
use crate::handler::Plugin;
use crate::http2::Endpoint;
use crate::manager::{AnnouncementError, AnnouncementId, Process};
use crate::time::Time;

/// The number of a connection to the service; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(crate) u64);

/// A request to the shell.
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
    /// Log that a call was rejected.
    Rejected {
        /// The process of the client, if it is known.
        caller: Option<Process>,
        /// The reason, as it was sent to the client.
        reason: String,
    },
}

/// The service, and the connections of its clients.
#[derive(Debug)]
pub struct Registrar {
    /// The directory of the plugins' sockets.
    dir: Arc<Path>,
    clients: Vec<Client>,
    last_client: ClientId,
    last_call: AnnouncementId,
    /// Whether others wait to be accepted.
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

    /// Returns whether another connection may be accepted. Otherwise it has to wait for
    /// [`Registrar::make_room`].
    pub fn has_room(&self) -> bool {
        self.clients.len() < MAX_REGISTRATIONS
    }

    /// Makes room for a connection that waits: closes one without a call in progress, or the first
    /// one whose call ends.
    pub fn make_room(&mut self, now: Time) {
        self.is_crowded = true;
        let count = |caller| self.clients.iter().filter(|it| it.caller == caller).count();
        let idle = self.clients.iter().enumerate().rev();
        let idle = idle.filter(|(_, client)| !client.is_calling());
        let idle = idle.map(|(at, client)| (count(client.caller), at));
        // `max_by_key` returns the last maximum, which is the oldest client in this order.
        if let Some((count, at)) = idle.max_by_key(|(count, _)| *count) {
            let client = &mut self.clients[at];
            if count > 1 || client.accepted_at + REGISTRATION_PATIENCE <= now {
                client.drop_calls(now);
            }
        }
    }

    /// Returns when to call [`Registrar::make_room`] again, unless a client ends before.
    pub fn room_at(&self) -> Option<Time> {
        let idle = self.clients.iter().filter(|client| !client.is_calling());
        let oldest = idle.map(|client| client.accepted_at).min()?;
        Some(oldest + REGISTRATION_PATIENCE)
    }

    /// Adds a connection that was just accepted.
    pub fn accept(&mut self, caller: Option<Process>, now: Time) -> ClientId {
        self.last_client.0 += 1;
        let client = Client::new(self.last_client, caller, now);
        self.clients.push(client);
        self.last_client
    }

    /// Returns the server's end of a connection. After reading into it or writing from it, call
    /// [`Registrar::advance`].
    pub fn endpoint(&mut self, id: ClientId) -> Option<&mut impl Endpoint> {
        let client = self.clients.iter_mut().find(|client| client.id == id)?;
        Some(&mut client.server)
    }

    /// Returns whether a connection has ended. What its endpoint still has to write are the final
    /// bytes.
    pub fn is_closed(&self, id: ClientId) -> bool {
        let mut clients = self.clients.iter();
        !clients.any(|client| client.id == id && !client.is_closed())
    }

    /// Removes a connection that has ended. The plugin of its call in progress is registered all
    /// the same.
    pub fn remove(&mut self, id: ClientId) {
        self.clients.retain(|client| client.id != id);
        self.is_crowded &= !self.has_room();
    }

    /// Processes what a client has sent.
    pub fn advance(&mut self, id: ClientId, now: Time) {
        if let Some(at) = self.clients.iter().position(|client| client.id == id) {
            self.clients[at].receive(now);
            self.begin_calls(at, now);
        }
    }

    /// Returns the time of the next [`Registrar::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let timeouts = self.clients.iter().map(|it| it.server.poll_timeout());
        timeouts.flatten().min()
    }

    /// Does what is due by `now`. Calling this early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        for at in 0..self.clients.len() {
            let server = &mut self.clients[at].server;
            if server.poll_timeout().is_some_and(|due| due <= now) {
                server.handle_timeout(now);
                self.clients[at].receive(now);
                self.begin_calls(at, now);
            }
        }
    }

    /// Removes and returns the oldest request to the shell.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Answers a call. Returns the connection on which the answer is to be written, unless that has
    /// ended.
    pub fn answer(
        &mut self,
        id: AnnouncementId,
        result: Result<(), AnnouncementError>,
        now: Time,
    ) -> Option<ClientId> {
        let mut clients = self.clients.iter();
        let at = clients.position(|client| client.is_in_progress(id))?;
        let client = &mut self.clients[at];
        let result = result.map_err(|error| status(&error, client.endpoint_in_progress()));
        client.answer(result, now);
        if self.is_crowded {
            client.close(now);
        }
        let id = client.id;
        self.begin_calls(at, now);
        Some(id)
    }

    /// Begins the next call of a client, unless one is in progress. Rejects those that are not
    /// acceptable.
    fn begin_calls(&mut self, at: usize, now: Time) {
        let client = &mut self.clients[at];
        let caller = client.caller;
        while let Some(request) = client.next_request() {
            let output = match request::read(&request, &self.dir) {
                Ok(plugin) => {
                    self.last_call.0 += 1;
                    let id = self.last_call;
                    client.begin(id, plugin.endpoint.clone());
                    let plugin = Box::new(plugin);
                    Output::Announce { id, plugin, caller }
                }
                Err(Rejected { code, reason }) => {
                    client.answer(Err(Status::new(code, reason.clone())), now);
                    Output::Rejected { caller, reason }
                }
            };
            self.outputs.push_back(output);
        }
    }
}

/// Returns the status for a plugin that is not registered, in kubelet's words if it has any.
fn status(error: &AnnouncementError, endpoint: &Path) -> Status {
    let code = match error {
        // The code of an error of a Go function without a status.
        AnnouncementError::Failed(_) => Code::Unknown,
        AnnouncementError::Superseded | AnnouncementError::Withdrawn => Code::Aborted,
        AnnouncementError::TooMany => Code::ResourceExhausted,
        AnnouncementError::Stopping => Code::Unavailable,
    };
    Status::new(code, error.status_error(endpoint))
}

#[cfg(test)]
mod tests;

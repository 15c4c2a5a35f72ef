//! The clients, and their responses in progress.
//!
//! Pure. The shell carries octets between clients and their [`Connection`]s, lends a [`View`] to
//! [`Server::advance`] at [`Server::work_at`], and carries out changes: it takes each with
//! [`Server::poll_change`] and reports its outcome with [`Server::answer`].
//!
//! Each turn has a budget for all clients, and begins with another client than the turn before. So
//! neither a long list nor a client that asks for much holds up plugins or other clients.

use super::answer::{Answer, Turn};
use super::connection::Connection;

use super::request::Request;
use super::response::{ContentType, Response, Status};
use super::route::{Call, Change, route};
use super::view::View;
use crate::config::{API_CLIENTS, METRICS_CLIENTS};
use crate::json::Writer;
use crate::manager::event::Generation;
use crate::time::Time;

/// The clients of the API.
#[derive(Debug, Default)]
pub struct Server {
    clients: Vec<Client>,
    /// The ID of the newest client.
    last: u64,
    /// The number of clients that come after the others in the next turn.
    served: usize,
    is_stopping: bool,
}

/// The number of a client, which is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// What a client may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The metrics, and whether the daemon runs and is ready.
    Metrics,
    /// Everything but changes.
    Read,
    /// Everything.
    Change,
}

/// A client.
#[derive(Debug)]
struct Client {
    id: ClientId,
    access: Access,
    connection: Connection,
    /// The response in progress.
    answer: Option<Answer>,
}

/// What a change has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// So many sockets are tried again.
    Retried(usize),
    /// Every directory was read again.
    Rescanned {
        /// The number of directories.
        directories: usize,
        /// The number of sockets that were not known.
        found: usize,
        /// The number of sockets that were removed.
        lost: usize,
    },
    /// The log has this filter.
    Logs(String),
    /// So many plugins are deregistered.
    Forgotten(usize),
    /// The configuration was read again.
    Reloaded {
        /// The keys of what has changed and is in force.
        changed: Vec<String>,
        /// The keys of what has changed and is in force after a restart.
        needs_restart: Vec<String>,
    },
}

/// The reason why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The status of the response.
    pub status: Status,
    /// The reason.
    pub reason: String,
}

impl Server {
    /// The response to a client beyond [`API_CLIENTS`]: it is written to the new connection, which
    /// is closed then.
    pub const BUSY: &'static [u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
        Content-Type: application/json\r\n\
        Content-Length: 29\r\n\
        Connection: close\r\n\r\n\
        {\"error\":\"too many clients\"}\n";

    /// Adds a client that has connected. Returns `None` if there are too many, or if the server is
    /// stopping. Clients for the metrics, which may be on other machines, leave room for others.
    pub fn accept(&mut self, access: Access, now: Time) -> Option<ClientId> {
        let is_full = match access {
            Access::Metrics => {
                let alike = self.clients.iter().filter(|it| it.access == access);
                alike.count() >= METRICS_CLIENTS
            }
            Access::Read | Access::Change => false,
        };
        if is_full || self.clients.len() >= API_CLIENTS || self.is_stopping {
            return None;
        }
        self.last += 1;
        let id = ClientId(self.last);
        self.clients.push(Client {
            id,
            access,
            connection: Connection::new(now),
            answer: None,
        });
        Some(id)
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Returns whether octets of the client are wanted. If not, they are left in the kernel.
    pub fn wants_input(&self, id: ClientId) -> bool {
        self.get(id)
            .is_some_and(|client| client.connection.wants_input())
    }

    /// Processes octets that the client sent.
    pub fn receive(&mut self, id: ClientId, octets: &[u8], now: Time) {
        self.with(id, |client| {
            client.connection.receive(octets, now);
            client.take_requests(now);
        });
    }

    /// Records that the client sends nothing more. The requests that were received are answered.
    pub fn eof(&mut self, id: ClientId, now: Time) {
        self.with(id, |client| {
            client.connection.eof();
            client.take_requests(now);
        });
    }

    /// Returns the octets to write to the client next.
    pub fn pending(&self, id: ClientId) -> &[u8] {
        self.get(id)
            .map_or(&[], |client| client.connection.pending())
    }

    /// Counts octets that were written to the client.
    pub fn sent(&mut self, id: ClientId, octets: usize, now: Time) {
        self.with(id, |client| {
            client.connection.sent(octets, now);
            client.take_requests(now);
        });
    }

    /// Returns whether the connection of the client is to be closed, and the client removed.
    pub fn is_finished(&self, id: ClientId) -> bool {
        self.get(id)
            .is_none_or(|client| client.connection.is_finished())
    }

    /// Removes a client: its connection is closed. A change in progress is not undone.
    pub fn remove(&mut self, id: ClientId) {
        self.clients.retain(|client| client.id != id);
    }

    /// Returns the next change that is to be made. The client waits for [`Server::answer`].
    pub fn poll_change(&mut self) -> Option<(ClientId, Change)> {
        self.clients.iter_mut().find_map(|client| {
            let Some(Answer::Change(change)) = &mut client.answer else {
                return None;
            };
            Some((client.id, change.take()?))
        })
    }

    /// Responds to the change that the client has asked for. Does nothing if the client has left.
    pub fn answer(&mut self, id: ClientId, outcome: &Result<Done, Refused>, now: Time) {
        self.with(id, |client| {
            if let Some(Answer::Change(None)) = client.answer {
                client.respond(&response_to(outcome), now);
            }
        });
    }

    /// Returns the earliest time at which [`Server::advance`] would render anything if the manager
    /// is at this generation; `None` if it would not.
    pub fn work_at(&self, generation: Generation) -> Option<Time> {
        let ready = self.clients.iter().filter(|it| it.connection.room() > 0);
        let answers = ready.filter_map(|client| client.answer.as_ref());
        answers.filter_map(|it| it.work_at(generation)).min()
    }

    /// Renders responses for the clients that have room for them, within the budget of a turn.
    pub fn advance(&mut self, view: &View<'_>) {
        let mut turn = Turn::new(self.clients.len());
        let served = self.served.min(self.clients.len());
        self.clients.rotate_left(served);
        self.served = 0;
        for client in &mut self.clients {
            client.advance(view, &mut turn);
            self.served += 1;
            if turn.is_over() {
                break;
            }
        }
    }

    /// Returns the time of the next [`Server::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let deadlines = self.clients.iter();
        deadlines
            .filter_map(|client| client.connection.poll_timeout())
            .min()
    }

    /// Does what is due by `now`: afterwards, clients may be finished. Calling this early, or
    /// twice, is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        for client in &mut self.clients {
            client.connection.handle_timeout(now);
            client.drop_finished();
        }
    }

    /// Accepts no further clients, ends responses that have no end of their own, and closes each
    /// connection after its response in progress. The caller continues until every client is
    /// finished, or until a deadline of its own.
    pub fn stop(&mut self, now: Time) {
        self.is_stopping = true;
        for client in &mut self.clients {
            client.connection.stop();
            let answer = client.answer.as_ref();
            if answer.is_some_and(Answer::is_open_ended) {
                let stopping = "the daemon is stopping";
                let stopping = Response::error(Status::ServiceUnavailable, stopping);
                client.connection.finish_body(now);
                client.respond(&stopping, now); // Unless the response has begun.
            }
        }
    }

    fn get(&self, id: ClientId) -> Option<&Client> {
        self.clients.iter().find(|client| client.id == id)
    }

    fn with(&mut self, id: ClientId, act: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
            act(client);
            client.drop_finished();
        }
    }
}

impl Client {
    /// Takes requests until one has to be answered by the caller.
    fn take_requests(&mut self, now: Time) {
        while self.answer.is_none() {
            let Some(request) = self.connection.poll_request(now) else {
                return;
            };
            match self.permitted(&request) {
                Ok(call) => self.answer = Some(Answer::new(call)),
                Err(refusal) => self.connection.respond(&refusal, now),
            }
        }
    }

    /// Returns the call of a request, if the client may make it.
    fn permitted(&self, request: &Request) -> Result<Call, Response> {
        let path = request.target.split('?').next();
        if self.access == Access::Metrics && path.is_none_or(|path| !FOR_METRICS.contains(&path)) {
            return Err(Response::error(Status::NotFound, "no such path"));
        }
        let call = route(request)?;
        if matches!(call, Call::Change(_)) && self.access != Access::Change {
            let why = "only root and the user of the daemon may change anything";
            return Err(Response::error(Status::Forbidden, why));
        }
        Ok(call)
    }

    /// Completes the answer in progress with this response.
    fn respond(&mut self, response: &Response, now: Time) {
        self.connection.respond(response, now);
        self.answer = None;
        self.take_requests(now);
    }

    /// Renders as much as fits in the turn and in the output.
    fn advance(&mut self, view: &View<'_>, turn: &mut Turn) {
        while let Some(answer) = &mut self.answer {
            let has_room = self.connection.room() > 0 && !turn.is_over();
            if !has_room || !answer.advance(&mut self.connection, view, turn) {
                return;
            }
            self.answer = None;
            self.take_requests(view.now);
        }
    }

    /// Drops the answer of a client that will not read it.
    fn drop_finished(&mut self) {
        if self.connection.is_finished() {
            self.answer = None;
        }
    }
}

/// Returns the response to a change.
fn response_to(outcome: &Result<Done, Refused>) -> Response {
    let done = match outcome {
        Ok(done) => done,
        Err(refused) => return Response::error(refused.status, &refused.reason),
    };
    let mut body = Vec::new();
    let mut json = Writer(&mut body);
    json.open(b'{');
    match done {
        Done::Retried(sockets) => json.key("retried").number(*sockets as u64),
        Done::Forgotten(plugins) => json.key("forgotten").number(*plugins as u64),
        Done::Logs(filter) => json.key("filter").text(filter),
        Done::Reloaded {
            changed,
            needs_restart,
        } => {
            json.key("changed").texts(changed);
            json.key("needsRestart").texts(needs_restart);
        }
        Done::Rescanned {
            directories,
            found,
            lost,
        } => {
            json.key("directories").number(*directories as u64);
            json.key("found").number(*found as u64);
            json.key("lost").number(*lost as u64);
        }
    }
    json.close(b'}');
    body.push(b'\n');
    Response::new(Status::Ok, ContentType::Json, body)
}

/// The paths that a client for the metrics may ask for.
const FOR_METRICS: [&str; 3] = ["/metrics", "/livez", "/readyz"];

#[cfg(test)]
mod tests;

//! The clients of the API, and the response that each of them waits for.
//!
//! `daemon` carries octets between clients and their [`Connection`]s, passes a [`View`] to
//! [`Server::render_responses`] at [`Server::next_work_time`], and carries out changes: it takes
//! each with [`Server::poll_change`] and responds to it with [`Server::answer_change`] or
//! [`Server::answer_allocation`].
//!
//! Once more than [`API_TURN`] octets are rendered, the remaining clients wait for the next turn,
//! which begins with them. So long responses delay neither plugins nor other clients for long.

use serde_json::Value;

use super::answer::render_response;
use super::connection::Connection;
use super::follow::Follower;
use super::request::Request;
use super::response::{Response, Status};
use super::route::{Call, Change, route};
use super::view::View;
use crate::config::{API_CLIENTS, API_CLIENTS_KEPT, API_TURN, MAX_LEASES};
use crate::manager::event::Generation;
use crate::time::Time;

/// The clients of the API.
#[derive(Debug, Default)]
pub struct Server {
    clients: Vec<Client>,
    /// The ID of the newest client.
    last: u64,
    /// The number of clients that were served in the last turn; they come last in the next one.
    served: usize,
    /// The maximum number of clients that hold devices or wait for some; `None`: [`MAX_LEASES`].
    pub(crate) lease_limit: Option<usize>,
    is_stopping: bool,
}

/// The ID of a client. Never reused, and unlikely to be one that a client of an earlier process
/// had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// The requests that a client may send. `Api::add_client` in `daemon` decides who may send which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The metrics, and whether the daemon runs and is ready.
    Metrics,
    /// Everything but changes.
    Read,
    /// What [`Access::Read`] permits, and the allocation of devices.
    Allocate,
    /// Everything.
    Change,
}

/// A client.
#[derive(Debug)]
struct Client {
    id: ClientId,
    access: Access,
    connection: Connection,
    task: Option<Task>,
    /// Whether the client holds devices, or waits for some. Such clients have a limit of their own
    /// and do not count towards the limit of the others.
    is_lease: bool,
}

/// The response that a client waits for.
#[derive(Debug)]
enum Task {
    /// The response to a call, which is rendered as a whole.
    Answer(Call),
    /// The outcome of a change. Contains the change until the caller takes it.
    Change(Option<Change>),
    /// Lines, one for each further change or event.
    Follow(Follower),
    /// Nothing: the response stays open as long as the client holds devices.
    Hold,
}

impl Server {
    /// Creates a server whose first client has the ID after this one.
    pub fn with_last_id(last: ClientId) -> Self {
        Self {
            last: last.0,
            ..Self::default()
        }
    }

    /// Returns the response to a client that [`accept`](Self::accept) has refused. The caller
    /// writes the response to the new connection, and closes that connection.
    pub fn busy_response() -> Vec<u8> {
        Response::error(Status::SERVICE_UNAVAILABLE, TOO_MANY).encode(false)
    }

    /// Adds a client that has connected. Returns `None` if there are too many, or if the server is
    /// stopping. Metrics clients, which may be on other machines, leave room for other clients, and
    /// clients that may not make changes leave room for those that may.
    pub fn accept(&mut self, access: Access, now: Time) -> Option<ClientId> {
        let others = || self.clients.iter().filter(|it| !it.is_lease);
        let metrics = others().filter(|it| it.access == Access::Metrics).count();
        let limited = others().filter(|it| it.access < Access::Change).count();
        let is_full = access == Access::Metrics && metrics >= API_CLIENTS / 2
            || access < Access::Change && limited >= API_CLIENTS - API_CLIENTS_KEPT
            || others().count() >= API_CLIENTS;
        if is_full || self.is_stopping {
            return None;
        }
        self.last += 1;
        let id = ClientId(self.last);
        self.clients.push(Client {
            id,
            access,
            connection: Connection::new(now),
            task: None,
            is_lease: false,
        });
        Some(id)
    }

    /// Returns whether to read from the client. If not, its octets stay in the kernel's buffer.
    pub fn wants_input(&self, id: ClientId) -> bool {
        self.get(id)
            .is_some_and(|client| client.connection.wants_input())
    }

    /// Processes octets that the client sent.
    pub fn receive(&mut self, id: ClientId, octets: &[u8], now: Time) {
        let leases = self.clients.iter().filter(|it| it.is_lease).count();
        let has_room = leases < self.lease_limit.unwrap_or(MAX_LEASES);
        if let Some(client) = self.get_mut(id) {
            if let Some(request) = client.connection.receive(octets, now) {
                client.handle_request(&request, has_room, now);
            }
        }
    }

    /// Records that the client sends nothing more. A complete request is still answered.
    pub fn eof(&mut self, id: ClientId) {
        if let Some(client) = self.get_mut(id) {
            client.connection.eof();
        }
    }

    /// Returns the octets to write to the client next.
    pub fn pending_output(&self, id: ClientId) -> &[u8] {
        self.get(id)
            .map_or(&[], |client| client.connection.pending_output())
    }

    /// Records that octets of [`pending_output`](Self::pending_output) were written to the client.
    pub fn sent(&mut self, id: ClientId, octets: usize, now: Time) {
        if let Some(client) = self.get_mut(id) {
            client.connection.sent(octets, now);
        }
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

    /// Returns the next requested change, that of the client that has connected first. The client
    /// waits for [`Server::answer_change`] or [`Server::answer_allocation`].
    pub fn poll_change(&mut self) -> Option<(ClientId, Change)> {
        let changes = self.clients.iter_mut().filter_map(|client| {
            let Some(Task::Change(change)) = &mut client.task else {
                return None;
            };
            change.is_some().then_some((client.id, change))
        });
        let (id, change) = changes.min_by_key(|(id, _)| *id)?;
        Some((id, change.take()?))
    }

    /// Responds to the change that the client has requested. Does nothing if the client has left.
    pub fn answer_change(&mut self, id: ClientId, response: &Response, now: Time) {
        if let Some(client) = self.get_mut(id) {
            if let Some(Task::Change(None)) = client.task {
                client.respond(response, now);
            }
        }
    }

    /// Begins the response to a client that was granted devices: sends a line that describes them,
    /// and keeps the response open until the client closes its connection. Does nothing if the
    /// client has left.
    pub fn answer_allocation(&mut self, id: ClientId, devices: &Value, now: Time) {
        if let Some(client) = self.get_mut(id) {
            if client.connection.begin_stream(now) {
                client.connection.send(Response::json(devices).body, now);
                client.task = Some(Task::Hold);
            }
        }
    }

    /// Returns the earliest time at which [`Server::render_responses`] would render anything, or
    /// [`Server::poll_change`] return a change, if the manager is at this generation; `None` if
    /// there is nothing to do.
    pub fn next_work_time(&self, generation: Generation) -> Option<Time> {
        let times = self.clients.iter();
        times
            .filter_map(|client| client.next_work_time(generation))
            .min()
    }

    /// Renders responses for the clients that have room for them, until [`API_TURN`] is exceeded.
    pub fn render_responses(&mut self, view: &View<'_>) {
        let count = self.clients.len();
        self.clients.rotate_left(self.served.min(count));
        self.served = 0;
        let mut rendered = 0;
        for client in &mut self.clients {
            rendered += client.render(view, count);
            self.served += 1;
            if rendered > API_TURN {
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

    /// Handles the deadlines that have passed at `now`: afterwards, clients may be finished.
    /// Calling this early, or twice, is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        for client in &mut self.clients {
            client.connection.handle_timeout(now);
        }
    }

    /// Stops the server: accepts no further clients, ends responses that have no end of their own,
    /// answers pending changes with 503, and closes connections without a request. The caller
    /// continues until every client is finished, or until a deadline of its own.
    pub fn stop(&mut self, now: Time) {
        self.is_stopping = true;
        for client in &mut self.clients {
            client.connection.eof();
            match client.task {
                Some(Task::Follow(_) | Task::Hold) => client.finish_response(),
                Some(Task::Change(_)) => {
                    let stopping = "the daemon is stopping";
                    client.respond(&Response::error(Status::SERVICE_UNAVAILABLE, stopping), now);
                }
                Some(Task::Answer(_)) | None => {}
            }
        }
    }

    fn get(&self, id: ClientId) -> Option<&Client> {
        self.clients.iter().find(|client| client.id == id)
    }

    fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.id == id)
    }
}

impl Client {
    /// Sets the task that the request begins, or refuses the request.
    fn handle_request(&mut self, request: &Request, has_room: bool, now: Time) {
        let call = match self.permitted_call(request) {
            Ok(call) => call,
            Err(refusal) => return self.respond(&refusal, now),
        };
        self.is_lease = matches!(call, Call::Change(Change::Allocate(_)));
        if self.is_lease && !has_room {
            return self.respond(&Response::error(Status::SERVICE_UNAVAILABLE, TOO_MANY), now);
        }
        let task = match call {
            Call::Change(change) => Task::Change(Some(change)),
            Call::Watch { since } => Task::Follow(Follower::watch(since)),
            Call::Events {
                since,
                follow: true,
            } => Task::Follow(Follower::events(since)),
            call => Task::Answer(call),
        };
        let is_followed = matches!(task, Task::Follow(_));
        if !is_followed || self.connection.begin_stream(now) {
            self.task = Some(task);
        }
    }

    /// Returns the call of a request if the client may make it, or the response that refuses it.
    fn permitted_call(&self, request: &Request) -> Result<Call, Response> {
        let path = request.target.split('?').next();
        if self.access == Access::Metrics && path.is_none_or(|path| !FOR_METRICS.contains(&path)) {
            return Err(Response::error(Status::NOT_FOUND, "no such path"));
        }
        let call = route(request)?;
        let (needed, why) = match call {
            Call::Change(Change::Allocate(_)) => (
                Access::Allocate,
                "only root, the user of the daemon and members of --allocate-group may use devices",
            ),
            Call::Change(_) => (
                Access::Change,
                "only root and the user of the daemon may change anything",
            ),
            _ => (Access::Metrics, ""),
        };
        if self.access < needed {
            return Err(Response::error(Status::FORBIDDEN, why));
        }
        Ok(call)
    }

    fn next_work_time(&self, generation: Generation) -> Option<Time> {
        match self.task.as_ref()? {
            Task::Answer(_) => Some(Time::ZERO),
            Task::Change(change) => change.as_ref().map(|_| Time::ZERO),
            Task::Hold => None,
            Task::Follow(_) if self.connection.is_finished() => None,
            Task::Follow(follower) => {
                let at = follower.next_work_time(generation)?;
                (self.connection.room() > 0).then_some(at)
            }
        }
    }

    /// Renders what can be rendered now. Returns the number of octets rendered.
    fn render(&mut self, view: &View<'_>, clients: usize) -> usize {
        let work_at = self.next_work_time(view.manager.generation());
        if work_at.is_none_or(|at| at > view.now) {
            return 0;
        }
        match &mut self.task {
            Some(Task::Answer(call)) => {
                let response = render_response(call, view, clients);
                self.respond(&response, view.now);
                response.body.len()
            }
            Some(Task::Follow(follower)) => {
                let mut lines = Vec::new();
                let is_over = follower.render(view, self.connection.room(), &mut lines);
                let len = lines.len();
                self.connection.send(lines, view.now);
                if is_over {
                    self.finish_response();
                }
                len
            }
            Some(Task::Change(_) | Task::Hold) | None => 0,
        }
    }

    fn respond(&mut self, response: &Response, now: Time) {
        self.connection.respond(response, now);
        self.task = None;
    }

    /// Ends a response that has no end of its own.
    fn finish_response(&mut self) {
        self.connection.finish_stream();
        self.task = None;
    }
}

const TOO_MANY: &str = "too many clients";

/// The paths that a metrics client may request.
const FOR_METRICS: [&str; 3] = ["/metrics", "/livez", "/readyz"];

#[cfg(test)]
mod tests;

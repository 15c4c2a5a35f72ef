//! A client of the service: its connection, and its calls.

use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

use super::ClientId;
use crate::config::{MAX_CLIENT_REGISTRATIONS, MAX_SMALL_MESSAGE};
use crate::grpc::{Code, Incoming, Server, Status};
use crate::http2::StreamId;
use crate::manager::{AnnouncementId, Process};
use crate::proto::v1beta1::{Empty, registration};
use crate::time::Time;

/// A connected client of the service.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: ClientId,
    /// The process at the other end, if it is known.
    pub(super) caller: Option<Process>,
    pub(super) server: Server,
    /// The calls in progress.
    calls: Vec<Call>,
    is_closing: bool,
    /// Whether the connection is closed without waiting for calls to end.
    is_dropped: bool,
    pub(super) accepted_at: Time,
}

/// A call in progress.
#[derive(Debug)]
struct Call {
    stream: StreamId,
    id: AnnouncementId,
    /// The plugin's endpoint.
    endpoint: Arc<Path>,
}

/// An event on the connection of a client.
#[derive(Debug)]
pub(super) enum Event {
    /// The client has sent this request.
    Called(StreamId, Vec<u8>),
    /// A call in progress has ended before it was answered.
    Ended(AnnouncementId),
}

impl Client {
    pub(super) fn new(id: ClientId, caller: Option<Process>, now: Time) -> Self {
        Self {
            id,
            caller,
            server: Server::new(METHODS, MAX_SMALL_MESSAGE, now),
            calls: Vec::new(),
            is_closing: false,
            is_dropped: false,
            accepted_at: now,
        }
    }

    /// Returns whether a call is in progress.
    pub(super) fn is_calling(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.is_dropped || self.server.is_closed()
    }

    /// Returns the endpoint of the plugin that the call with that number registers, or `None` if
    /// this client has no such call in progress.
    pub(super) fn plugin_endpoint(&self, id: AnnouncementId) -> Option<&Arc<Path>> {
        let call = self.calls.iter().find(|call| call.id == id)?;
        Some(&call.endpoint)
    }

    /// Returns the next event of the connection. Rejects calls that exceed
    /// [`MAX_CLIENT_REGISTRATIONS`], or that begin while the connection is closing.
    pub(super) fn poll_event(&mut self, now: Time) -> Option<Event> {
        loop {
            match self.server.poll_event(now)? {
                Incoming::Called { call, message, .. } => {
                    if self.calls.len() < MAX_CLIENT_REGISTRATIONS && !self.is_closing {
                        return Some(Event::Called(call, message));
                    }
                    self.server.finish(call, too_many_calls_status(), now);
                }
                Incoming::Ended { call } => {
                    if let Some(at) = self.calls.iter().position(|it| it.stream == call) {
                        return Some(Event::Ended(self.calls.remove(at).id));
                    }
                }
                Incoming::Closed(_) => {} // The calls end when the client is removed.
            }
        }
    }

    /// Records that a call with an acceptable request is in progress.
    pub(super) fn add_call(&mut self, stream: StreamId, id: AnnouncementId, endpoint: Arc<Path>) {
        self.calls.push(Call {
            stream,
            id,
            endpoint,
        });
    }

    /// Rejects a request.
    pub(super) fn reject(&mut self, stream: StreamId, status: Status, now: Time) {
        self.server.finish(stream, status, now);
    }

    /// Answers a call in progress.
    pub(super) fn answer(&mut self, id: AnnouncementId, result: Result<(), Status>, now: Time) {
        let Some(at) = self.calls.iter().position(|call| call.id == id) else {
            return;
        };
        let Call { stream, .. } = self.calls.remove(at);
        match result {
            Ok(()) => self.server.reply(stream, &Empty {}.encode_to_vec(), now),
            Err(status) => self.server.finish(stream, status, now),
        }
    }

    /// Returns the calls in progress of a connection that has ended.
    pub(super) fn into_calls(self) -> impl Iterator<Item = AnnouncementId> {
        self.calls.into_iter().map(|call| call.id)
    }

    /// Closes the connection when the calls in progress are answered.
    pub(super) fn close(&mut self, now: Time) {
        self.is_closing = true;
        self.server.shutdown(now);
    }

    /// Closes the connection at once, without waiting for calls to end or for the client to read.
    pub(super) fn close_now(&mut self, now: Time) {
        self.close(now);
        self.is_dropped = true;
    }
}

fn too_many_calls_status() -> Status {
    let message = "too many registrations are in progress";
    Status::new(Code::ResourceExhausted, message)
}

/// The method that is served.
const METHODS: &[&str] = &[registration::REGISTER];

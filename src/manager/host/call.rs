//! A call, stream or connection that a handler asked for.
//!
//! Pure. Plugins are called within a millisecond of listening on their registration sockets, and
//! many serve their endpoints a moment later: a call may be repeated until its endpoint is ready
//! (gRPC's wait-for-ready).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{DIAL_TIMEOUT, MAX_REPLY, READY_RETRY};
use crate::grpc::{self, Client, Code};
use crate::handler::{Call, CallFailure, DialError, EffectId, Event as HandlerEvent, Stream};
use crate::http2::Endpoint as _;
use crate::manager::connections::{Connection, Owner};
use crate::manager::context::Context;
use crate::manager::event::Shortage;
use crate::manager::messages::Output;
use crate::time::Time;

/// A call to a plugin's endpoint that has not ended.
#[derive(Debug)]
pub(super) struct EndpointCall {
    id: EffectId,
    /// `None` unless it is dialled or open.
    connection: Option<Connection>,
    request: EndpointRequest,
    /// The time at which the handler asked for it.
    began: Time,
    /// The time by which a call must have ended, or a stream or connection must be established.
    deadline: Time,
    wait: Option<WaitForReady>,
    /// Whether the handler of a connection knows that it is established.
    is_reported: bool,
}

/// What a handler asked for.
#[derive(Debug)]
pub(super) enum EndpointRequest {
    /// One reply.
    Call(Box<Call>),
    /// Any number of replies; `None` once the stream is opened.
    Stream(Option<Box<Stream>>),
    /// That the connection is established, and that it is lost.
    Connection,
}

impl EndpointRequest {
    /// Returns the method of a unary call.
    fn method(&self) -> &'static str {
        match self {
            Self::Call(call) => call.method,
            Self::Stream(_) | Self::Connection => "",
        }
    }
}

/// The repetition of a call whose endpoint is not ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitForReady {
    /// The time of the last repetition.
    until: Time,
    /// The length of the next pause.
    pause: Duration,
}

/// What follows from a change of a call.
#[derive(Debug)]
pub(super) enum Progress {
    /// An event for the handler.
    Event(HandlerEvent),
    /// The last event for the handler.
    Ended(HandlerEvent),
    /// The call is to be repeated at that time.
    NotReady(Time),
}

impl EndpointCall {
    /// Creates a unary call, which is repeated until `ready_by` if its endpoint is not ready.
    pub(super) fn unary(id: EffectId, call: Call, ready_by: Option<Time>, now: Time) -> Self {
        let deadline = now + call.timeout;
        let until = ready_by.filter(|until| now < *until);
        let wait = until.map(|until| WaitForReady {
            until,
            pause: READY_RETRY.first,
        });
        let request = EndpointRequest::Call(Box::new(call));
        Self {
            wait,
            ..Self::new(id, request, deadline, now)
        }
    }

    /// Creates a stream.
    pub(super) fn stream(id: EffectId, stream: Stream, now: Time) -> Self {
        let deadline = now + stream.dial_timeout;
        Self::new(
            id,
            EndpointRequest::Stream(Some(Box::new(stream))),
            deadline,
            now,
        )
    }

    /// Creates a connection on which no calls are made.
    pub(super) fn connection(id: EffectId, now: Time) -> Self {
        Self::new(id, EndpointRequest::Connection, now + DIAL_TIMEOUT, now)
    }

    fn new(id: EffectId, request: EndpointRequest, deadline: Time, now: Time) -> Self {
        Self {
            id,
            connection: None,
            request,
            began: now,
            deadline,
            wait: None,
            is_reported: false,
        }
    }

    /// Dials the endpoint. If no descriptor is left, returns what follows from that.
    pub(super) fn dial(&mut self, endpoint: &Path, context: &mut Context) -> Option<Progress> {
        let (owner, shortage, has_room) = match self.request {
            EndpointRequest::Call(_) => (Owner::Call(self.id), Shortage::Call, context.make_room()),
            EndpointRequest::Stream(_) | EndpointRequest::Connection => {
                let has_room = context.make_room_for_stream();
                (Owner::Stream(self.id), Shortage::Stream, has_room)
            }
        };
        if !has_room {
            context.warn_of_shortage(shortage);
            return Some(self.dial_failed(DialError::NoDescriptors, context.now));
        }
        let conn = context.connections.add(owner);
        self.connection = Some(Connection::dialling(conn));
        let path = context.endpoint_path(endpoint);
        context.outputs.push_back(Output::Dial {
            conn,
            path,
            identity: None,
        });
        None
    }

    /// Returns whether it is a stream that can be opened on the connection of a call that has just
    /// succeeded.
    pub(super) fn may_reuse(&self, connection: &Connection, context: &Context) -> bool {
        let client = connection.client.as_ref();
        matches!(self.request, EndpointRequest::Stream(_))
            && client.is_some_and(|client| !client.is_closed())
            && context.connections.has_room_for_stream()
    }

    /// Opens the stream on that connection.
    pub(super) fn reuse(&mut self, mut connection: Connection, context: &mut Context) {
        let owner = Owner::Stream(self.id);
        context.connections.hand_over(connection.id, owner);
        if let Some(client) = &mut connection.client {
            self.begin(client, context.now);
        }
        self.connection = Some(connection);
    }

    /// Removes and returns the connection of a call that has succeeded, and its endpoint.
    pub(super) fn take_idle(&mut self) -> Option<(Arc<Path>, Connection)> {
        Some((self.endpoint()?, self.connection.take()?))
    }

    /// Returns the time since the handler asked for it.
    pub(super) fn age(&self, now: Time) -> Duration {
        now.saturating_since(self.began)
    }

    /// Returns the number of the effect.
    pub(super) fn id(&self) -> EffectId {
        self.id
    }

    /// Returns the endpoint of a call that is repeated.
    pub(super) fn endpoint(&self) -> Option<Arc<Path>> {
        match &self.request {
            EndpointRequest::Call(call) => Some(call.endpoint.clone()),
            EndpointRequest::Stream(_) | EndpointRequest::Connection => None,
        }
    }

    /// Returns whether the call has a connection.
    pub(super) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Returns the client of the connection, once it is established.
    pub(super) fn client(&mut self) -> Option<&mut Client> {
        self.connection.as_mut()?.client.as_deref_mut()
    }

    /// Makes the call on its connection, which is established.
    pub(super) fn connected(&mut self, context: &Context) {
        let now = context.now;
        if self.connection.is_none() {
            return;
        }
        let mut client = Box::new(Client::new(now).within(&context.budget));
        self.begin(&mut client, now);
        client.set_handshake_deadline(self.deadline);
        if let Some(connection) = &mut self.connection {
            connection.client = Some(client);
        }
    }

    /// Makes the call with this client.
    fn begin(&mut self, client: &mut Client, now: Time) {
        match &mut self.request {
            EndpointRequest::Call(call) => {
                let (method, request) = (call.method, &call.request);
                client.unary(method, request, MAX_REPLY, self.deadline, now);
            }
            EndpointRequest::Stream(stream) => {
                if let Some(stream) = stream.take() {
                    let (method, request) = (stream.method, &stream.request);
                    client.server_streaming(method, request, MAX_REPLY, None, now);
                }
            }
            EndpointRequest::Connection => {}
        }
    }

    /// Returns what follows from a failed dial.
    pub(super) fn dial_failed(&mut self, error: DialError, now: Time) -> Progress {
        self.failed(CallFailure::Dial(error), now)
    }

    /// Returns what follows from the failure of a call, stream or connection.
    fn failed(&mut self, failure: CallFailure, now: Time) -> Progress {
        self.connection = None;
        let id = self.id;
        match self.request {
            EndpointRequest::Call(_) => self.ended(Err(failure), now),
            EndpointRequest::Stream(_) => Progress::Ended(HandlerEvent::StreamEnded {
                id,
                result: Err(failure),
            }),
            EndpointRequest::Connection => {
                let error = match failure {
                    CallFailure::Dial(error) => Some(error),
                    CallFailure::Call(_) => None,
                };
                Progress::Ended(HandlerEvent::Disconnected { id, error })
            }
        }
    }

    /// Returns what follows from a deadline that has passed.
    pub(super) fn handle_timeout(&mut self, context: &mut Context) -> Option<Progress> {
        let now = context.now;
        if let Some(client) = self.client() {
            client.handle_timeout(now);
            return None;
        }
        if now < self.deadline {
            return None;
        }
        self.hang_up(context);
        Some(self.dial_failed(DialError::TimedOut, now))
    }

    /// Returns what follows next from what the connection has received; `None` once there is
    /// nothing left.
    pub(super) fn poll(&mut self, context: &mut Context) -> Option<Progress> {
        let (id, now) = (self.id, context.now);
        let client = self.connection.as_mut()?.client.as_deref_mut()?;
        let progress = match client.poll_event(now) {
            Some(grpc::Event::Message { message, .. }) => {
                return Some(Progress::Event(HandlerEvent::StreamMessage { id, message }));
            }
            Some(grpc::Event::Finished { result, .. }) => {
                if result.is_err() {
                    self.hang_up(context);
                }
                return Some(self.ended(result.map_err(CallFailure::Call), now));
            }
            Some(grpc::Event::Closed { result, .. }) => {
                let result = result.map_err(CallFailure::Call);
                Progress::Ended(HandlerEvent::StreamEnded { id, result })
            }
            None if !matches!(self.request, EndpointRequest::Connection) => return None,
            None if client.is_closed() => {
                Progress::Ended(HandlerEvent::Disconnected { id, error: None })
            }
            None if self.is_reported || client.peer_settings().is_none() => return None,
            None => {
                self.is_reported = true;
                return Some(Progress::Event(HandlerEvent::Connected { id }));
            }
        };
        self.hang_up(context);
        Some(progress)
    }

    /// Requests that what the client has to write is written.
    pub(super) fn flush(&mut self, context: &mut Context) {
        let Some(Connection {
            id: conn, client, ..
        }) = &mut self.connection
        else {
            return;
        };
        let conn = *conn;
        if client.as_mut().is_some_and(|it| !it.transmit().is_empty()) {
            context.outputs.push_back(Output::Transmit { conn });
        }
    }

    /// Has the connection polled again after others had their turn.
    pub(super) fn resume(&self, context: &mut Context) {
        if let Some(Connection { id: conn, .. }) = self.connection {
            context.outputs.push_back(Output::Resume { conn });
        }
    }

    /// Returns the next deadline.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let connection = self.connection.as_ref()?;
        match connection.client {
            Some(_) => connection.deadline(),
            None => Some(self.deadline),
        }
    }

    /// Closes the connection, whatever its state.
    pub(super) fn hang_up(&mut self, context: &mut Context) {
        if let Some(connection) = self.connection.take() {
            context.connections.remove(connection.id);
            context.outputs.push_back(connection.hang_up(context.now));
        }
    }

    /// Returns what follows from the result of a unary call: it is repeated, or its handler gets
    /// the result.
    fn ended(&mut self, result: Result<Vec<u8>, CallFailure>, now: Time) -> Progress {
        let failure = result.as_ref().err().filter(|it| is_not_ready(it));
        let deadline = self.deadline;
        let wait = self.wait.as_mut().filter(|wait| now < wait.until);
        if let (Some(wait), Some(_)) = (wait, failure) {
            let at = (now + wait.pause).min(wait.until);
            wait.pause = READY_RETRY.after(Some(wait.pause));
            if at < deadline {
                return Progress::NotReady(at);
            }
        }
        let (id, method) = (self.id, self.request.method());
        Progress::Ended(HandlerEvent::Called { id, method, result })
    }
}

/// Returns whether a call failed in a way that may pass once its plugin is ready, or once there are
/// descriptors.
fn is_not_ready(failure: &CallFailure) -> bool {
    match failure {
        CallFailure::Dial(error) => {
            matches!(
                error,
                DialError::Gone | DialError::Refused | DialError::Busy | DialError::NoDescriptors
            )
        }
        CallFailure::Call(error) => error.code() == Code::Unavailable,
    }
}

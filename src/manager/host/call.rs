//! A call, stream or connection that a handler has requested.
//!
//! Plugins are called within a millisecond of listening on their registration sockets, and
//! many serve their endpoints a moment later: a call may be repeated until its endpoint is ready
//! (gRPC's wait-for-ready).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{DIAL_TIMEOUT, MAX_REPLY, READY_RETRY};
use crate::grpc::{self, Client, Code};
use crate::handler::{CallFailure, DialError, EffectId, EndpointRequest, Event as HandlerEvent};
use crate::http2::Endpoint as _;
use crate::manager::connections::{Connection, Owner};
use crate::manager::context::Context;
use crate::manager::event::Shortage;
use crate::manager::messages::Output;
use crate::time::Time;

/// A call, stream or connection to a plugin's endpoint that has not ended.
#[derive(Debug)]
pub(super) struct EndpointCall {
    id: EffectId,
    pub(super) endpoint: Arc<Path>,
    /// `None` unless a connection is being dialed or is open.
    pub(super) connection: Option<Connection>,
    request: EndpointRequest,
    /// The time of the handler's request.
    pub(super) began: Time,
    /// The time by which a call must have ended, or a stream or connection must be established.
    deadline: Time,
    /// The time after which a call is not repeated if its endpoint is not ready.
    ready_by: Option<Time>,
    /// The pause before the last repetition.
    pause: Option<Duration>,
    /// The time of the next repetition, if the call waits for that.
    retry_at: Option<Time>,
    /// Whether the handler was informed that its [`EndpointRequest::Connection`] is established.
    is_reported: bool,
}

impl EndpointCall {
    /// Creates a call, stream or connection that is about to be dialed. A call is repeated until
    /// `ready_by` if its endpoint is not ready.
    pub(super) fn new(
        id: EffectId,
        request: EndpointRequest,
        ready_by: Option<Time>,
        now: Time,
    ) -> Self {
        let (endpoint, timeout) = match &request {
            EndpointRequest::Call(call) => (&call.endpoint, call.timeout),
            EndpointRequest::Stream(stream) => (&stream.endpoint, stream.dial_timeout),
            EndpointRequest::Connection(endpoint) => (endpoint, DIAL_TIMEOUT),
        };
        Self {
            id,
            endpoint: endpoint.clone(),
            connection: None,
            began: now,
            deadline: now + timeout,
            ready_by,
            pause: None,
            retry_at: None,
            is_reported: false,
            request,
        }
    }

    /// Dials the endpoint. If no descriptor is left, returns the event for the handler, unless the
    /// call is repeated later.
    pub(super) fn dial(&mut self, context: &mut Context) -> Option<HandlerEvent> {
        let (owner, shortage, has_room) = match self.request {
            EndpointRequest::Call(_) => (Owner::Call(self.id), Shortage::Call, context.make_room()),
            EndpointRequest::Stream(_) | EndpointRequest::Connection(_) => {
                let has_room = context.connections.has_room_for_stream() && context.make_room();
                (Owner::Stream(self.id), Shortage::Stream, has_room)
            }
        };
        if !has_room {
            context.warn_of_shortage(shortage);
            return self.handle_dial_failed(DialError::NoDescriptors, context.now);
        }
        let conn = context.connections.add(owner);
        self.connection = Some(Connection {
            id: conn,
            client: None,
        });
        let path = context.endpoint_path(&self.endpoint);
        context.outputs.push_back(Output::Dial {
            conn,
            path,
            identity: None,
        });
        None
    }

    /// Opens the stream on the connection of a call that has just succeeded, if that is possible.
    /// Otherwise returns the connection.
    pub(super) fn reuse_connection(
        &mut self,
        mut connection: Connection,
        context: &mut Context,
    ) -> Option<Connection> {
        let client = connection.client.as_mut().filter(|it| !it.is_closed());
        let (Some(client), EndpointRequest::Stream(_)) = (client, &self.request) else {
            return Some(connection);
        };
        if !context.connections.has_room_for_stream() {
            return Some(connection);
        }
        self.send_request(client, context.now);
        let owner = Owner::Stream(self.id);
        context.connections.hand_over(connection.id, owner);
        self.connection = Some(connection);
        None
    }

    /// Returns the client of the connection, once it is established.
    pub(super) fn client(&mut self) -> Option<&mut Client> {
        self.connection.as_mut()?.client.as_deref_mut()
    }

    /// Attaches a client to the connection, which is established, and sends the request of the call
    /// or stream.
    pub(super) fn attach_client(&mut self, context: &Context) {
        let mut client = Box::new(Client::new(context.now).with_budget(&context.budget));
        self.send_request(&mut client, context.now);
        client.set_handshake_deadline(self.deadline);
        if let Some(connection) = &mut self.connection {
            connection.client = Some(client);
        }
    }

    /// Sends the request of the call or stream with this client.
    fn send_request(&self, client: &mut Client, now: Time) {
        match &self.request {
            EndpointRequest::Call(call) => {
                let (method, request) = (call.method, &call.request);
                client.unary(method, request, MAX_REPLY, self.deadline, now);
            }
            EndpointRequest::Stream(stream) => {
                let (method, request) = (stream.method, &stream.request);
                client.server_streaming(method, request, MAX_REPLY, None, now);
            }
            EndpointRequest::Connection(_) => {}
        }
    }

    /// Processes a failed dial. Returns the event for the handler, or `None` if the call is
    /// repeated later.
    pub(super) fn handle_dial_failed(
        &mut self,
        error: DialError,
        now: Time,
    ) -> Option<HandlerEvent> {
        self.connection = None;
        let id = self.id;
        match self.request {
            EndpointRequest::Call(_) => self.handle_result(Err(CallFailure::Dial(error)), now),
            EndpointRequest::Stream(_) => {
                let result = Err(CallFailure::Dial(error));
                Some(HandlerEvent::StreamEnded { id, result })
            }
            EndpointRequest::Connection(_) => {
                let error = Some(error);
                Some(HandlerEvent::Disconnected { id, error })
            }
        }
    }

    /// Processes a deadline that has passed. Returns the event for the handler, if there is one.
    pub(super) fn handle_timeout(&mut self, context: &mut Context) -> Option<HandlerEvent> {
        let now = context.now;
        if let Some(client) = self.client() {
            client.handle_timeout(now);
            return None;
        }
        if self.retry_at.take_if(|at| *at <= now).is_some() {
            return self.dial(context);
        }
        if now < self.deadline {
            return None;
        }
        self.hang_up(context);
        self.handle_dial_failed(DialError::TimedOut, now)
    }

    /// Processes the next event of the gRPC client. Returns the event for the handler, or `None` if
    /// there is none or the call is repeated later.
    pub(super) fn poll(&mut self, context: &mut Context) -> Option<HandlerEvent> {
        let (id, now) = (self.id, context.now);
        let client = self.connection.as_mut()?.client.as_deref_mut()?;
        let last = match client.poll_event(now) {
            Some(grpc::Event::Message { message, .. }) => {
                return Some(HandlerEvent::StreamMessage { id, message });
            }
            Some(grpc::Event::Finished { result, .. }) => {
                if result.is_err() {
                    self.hang_up(context);
                }
                return self.handle_result(result.map_err(CallFailure::Call), now);
            }
            Some(grpc::Event::Closed { result, .. }) => {
                let result = result.map_err(CallFailure::Call);
                HandlerEvent::StreamEnded { id, result }
            }
            None if !matches!(self.request, EndpointRequest::Connection(_)) => return None,
            None if client.is_closed() => HandlerEvent::Disconnected { id, error: None },
            None if self.is_reported || client.peer_settings().is_none() => return None,
            None => {
                self.is_reported = true;
                return Some(HandlerEvent::Connected { id });
            }
        };
        self.hang_up(context);
        Some(last)
    }

    /// Returns the next deadline.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match &self.connection {
            Some(Connection { client: None, .. }) => Some(self.deadline),
            Some(connection) => connection.deadline(),
            None => self.retry_at,
        }
    }

    /// Closes the connection, whatever its state.
    pub(super) fn hang_up(&mut self, context: &mut Context) {
        if let Some(connection) = self.connection.take() {
            context.hang_up(connection);
        }
    }

    /// Processes the result of a unary call. Returns the event for the handler, or `None` if the
    /// call is repeated later.
    fn handle_result(
        &mut self,
        result: Result<Vec<u8>, CallFailure>,
        now: Time,
    ) -> Option<HandlerEvent> {
        let is_not_ready = result.as_ref().is_err_and(is_not_ready);
        let until = self.ready_by.filter(|until| is_not_ready && now < *until);
        if let Some(until) = until {
            let pause = READY_RETRY.next_pause(self.pause);
            let at = (now + pause).min(until);
            self.pause = Some(pause);
            if at < self.deadline {
                self.retry_at = Some(at);
                return None;
            }
        }
        let method = match &self.request {
            EndpointRequest::Call(call) => call.method,
            EndpointRequest::Stream(_) | EndpointRequest::Connection(_) => "",
        };
        let id = self.id;
        Some(HandlerEvent::Called { id, method, result })
    }
}

/// Returns whether a call failed for a reason that may be temporary: its plugin is not ready yet,
/// or no descriptor is left.
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

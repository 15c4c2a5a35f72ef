//! One call on the client: a request that is sent, and a reply or a stream of messages that is
//! received.
//!
//! The two directions are independent of each other: a server may respond before it has read the
//! request.
//!
//! ```text
//!     refused, once
//!   +---------------+
//!   v    opened     |  headers         message: kept (unary, one) or returned (stream)
//! (new) -----> has a stream -----> has headers <--+
//!   |               |               |    |   +----+
//!   |               |               |    | trailers
//!   | deadline, cancel, any error   |    v
//!   +---------------+---------------+--> outcome
//! ```
//!
//! Headers that end the response (Trailers-Only) also lead from "has a stream" to the outcome, and
//! so does a second refusal. The outcome ends the call: [`Client`](super::Client) drops the call
//! and queues the event.

use super::CallId;
use super::error::{CallError, ProtocolError};
use super::headers;
use super::message::{self, Assembler};
use super::status::{Code, Status};
use crate::http2::{Connection, Encoder, Fields, OpenError, StreamId, Taken};
use crate::time::Time;

/// The result of a call: the message of the reply, or an error. The messages of a stream were
/// returned before, so its result is empty.
pub(super) type Outcome = Result<Vec<u8>, CallError>;

/// The type of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallType {
    /// The response is one message.
    Unary,
    /// The response is any number of messages.
    ServerStreaming,
}

/// A call in progress.
#[derive(Debug)]
pub(super) struct ClientCall {
    /// The identifier of the call.
    pub(super) id: CallId,
    /// The type of the call.
    pub(super) call_type: CallType,
    /// The time by which the call must have ended, if it is limited.
    pub(super) deadline: Option<Time>,
    /// The time from which the deadline counts.
    began: Time,
    /// The path, followed by the message with its prefix. Empty once all of it is sent and the
    /// headers of the response are received; until then, a retry may have to send it again.
    request: Vec<u8>,
    /// The length of the path in `request`. The path is sent in the headers.
    path_len: usize,
    /// The number of octets of `request` that were sent. The path counts as sent from the start.
    sent: usize,
    /// Whether the call is sent again because the server refused it once.
    is_retry: bool,
    /// The stream of the call, once it has one.
    pub(super) stream: Option<StreamId>,
    /// Whether the headers of the response were received.
    has_headers: bool,
    /// The part of the next message of the response that was received.
    assembler: Assembler,
    /// The message of the response to a unary call, once it is complete.
    reply: Option<Vec<u8>>,
}

impl ClientCall {
    /// Returns a call that is not yet on the wire.
    pub(super) fn new(
        id: CallId,
        call_type: CallType,
        path: &str,
        message: &[u8],
        max_message: usize,
        deadline: Option<Time>,
        now: Time,
    ) -> Self {
        let mut request = Vec::with_capacity(path.len() + message::PREFIX + message.len());
        request.extend_from_slice(path.as_bytes());
        message::encode(message, &mut request);
        Self {
            id,
            call_type,
            deadline,
            began: now,
            request,
            path_len: path.len(),
            sent: path.len(),
            is_retry: false,
            stream: None,
            has_headers: false,
            assembler: Assembler::new(max_message),
            reply: None,
        }
    }

    /// Prepares the call to be sent again in the time that is left, after the server reported that
    /// the call was not processed. Returns whether a retry is allowed: only once, and not after the
    /// headers of a response.
    ///
    /// RFC 9113 §8.7: "Any request that was sent on the reset stream can be safely retried."
    pub(super) fn prepare_retry(&mut self) -> bool {
        if self.is_retry || self.has_headers {
            return false;
        }
        self.is_retry = true;
        self.sent = self.path_len;
        self.stream = None;
        true
    }

    /// Sets the deadline as if the call had been started at `now`.
    pub(super) fn restart_deadline(&mut self, now: Time) {
        if let Some(deadline) = &mut self.deadline {
            *deadline = now + deadline.saturating_since(self.began);
            self.began = now;
        }
    }

    /// Returns whether a part of the request is still to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.request.len()
    }

    /// Sends as much of the request as possible now. On an error, the caller must end the call.
    pub(super) fn send_request(
        &mut self,
        http2: &mut Connection,
        now: Time,
    ) -> Result<(), CallError> {
        let stream = if let Some(stream) = self.stream {
            stream
        } else {
            let path = &self.request[..self.path_len];
            let left = self.deadline.map(|deadline| deadline.saturating_since(now));
            let mut write = |block: &mut Encoder<'_>| headers::write_request(path, left, block);
            match http2.open_with(&mut write, false, now) {
                Ok(stream) => stream,
                Err(OpenError::Later) => return Ok(()),
                Err(OpenError::TooLarge) => return Err(CallError::RequestHeaders),
                Err(OpenError::Exhausted) => return Err(CallError::TooManyCalls),
                Err(OpenError::Closing(error)) => {
                    let written = false;
                    return Err(CallError::Connection { error, written });
                }
            }
        };
        self.stream = Some(stream);
        match http2.send_data(stream, &self.request[self.sent..], true, now) {
            Taken::All => self.sent = self.request.len(),
            Taken::Some(octets) => self.sent += octets,
        }
        self.drop_request_if_done();
        Ok(())
    }

    /// Drops the request once all of it is sent, unless it may be needed for a retry.
    fn drop_request_if_done(&mut self) {
        if self.has_headers && !self.has_unsent() {
            self.request = Vec::new();
            self.sent = 0;
        }
    }

    /// Processes the headers of the response; returns the outcome of the call if they end it.
    pub(super) fn receive_headers(
        &mut self,
        status: u16,
        fields: &Fields,
        end_stream: bool,
    ) -> Option<Outcome> {
        // gRPC: "Trailers-Only → HTTP-Status Content-Type Trailers": a status in the first headers
        // counts only if they are also the last.
        if end_stream && fields.get(b"grpc-status").is_some() {
            return Some(self.receive_trailers(fields));
        }
        if let Err(not_grpc) = headers::check_response(status, fields) {
            return Some(Err(CallError::NotGrpc(not_grpc)));
        }
        if end_stream {
            return Some(Err(CallError::Protocol(ProtocolError::NoStatus)));
        }
        self.has_headers = true;
        self.drop_request_if_done();
        None
    }

    /// Consumes `data` up to the end of a message, or all of `data` if it does not complete one.
    /// Returns the message if the call is streaming; keeps that of a unary call until the trailers.
    pub(super) fn receive_message(
        &mut self,
        data: &mut &[u8],
    ) -> Result<Option<Vec<u8>>, CallError> {
        match (self.assembler.receive(data)?, self.call_type) {
            (message, CallType::ServerStreaming) | (message @ None, _) => Ok(message),
            (Some(_), _) if self.reply.is_some() => {
                Err(CallError::Protocol(ProtocolError::SecondMessage))
            }
            (message, CallType::Unary) => {
                self.reply = message;
                Ok(None)
            }
        }
    }

    /// Returns the error for a response that ends without trailers.
    pub(super) fn truncation_error(&self) -> CallError {
        CallError::Protocol(if self.assembler.is_inside_message() {
            ProtocolError::CutMessage
        } else {
            ProtocolError::NoStatus
        })
    }

    /// Processes the trailers of the response; returns the outcome of the call.
    pub(super) fn receive_trailers(&mut self, fields: &Fields) -> Outcome {
        let Some(Code::Ok) = Code::from_fields(fields) else {
            let status = Status::from_fields(fields);
            let status = status.ok_or(CallError::Protocol(ProtocolError::NoStatus))?;
            return Err(CallError::Status(status));
        };
        if self.assembler.is_inside_message() {
            return Err(CallError::Protocol(ProtocolError::CutMessage));
        }
        match self.call_type {
            CallType::ServerStreaming => Ok(Vec::new()),
            CallType::Unary => {
                let reply = self.reply.take();
                reply.ok_or(CallError::Protocol(ProtocolError::NoMessage))
            }
        }
    }

    /// Returns the number of octets of memory held, beyond the value itself.
    pub(super) fn mem_used(&self) -> usize {
        let reply = self.reply.as_ref().map_or(0, Vec::capacity);
        self.request.capacity() + self.assembler.mem_used() + reply
    }
}

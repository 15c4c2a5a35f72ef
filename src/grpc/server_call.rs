//! One call on the server: a request that is received, and a response that is sent.
//!
//! ```text
//!                    message, END_STREAM              finish()                written
//! AwaitingRequest -----------------------> Answering ----------> Ending -----------------> dropped
//!        |                                     |                    ^     time is up: reset
//!        | not gRPC, unknown method,           | time is up         |
//!        | invalid, too large, time is up      v                    |
//!        +-------------------------------------+--------------------+
//! ```

use super::error::{CallError, ProtocolError};
use super::headers::{self, CONTENT_TYPE};
use super::message::{self, Assembler};
use super::status::{self, Code, Status};
use crate::config;
use crate::http2::{Connection, ErrorCode, Fields, HeadersError, StreamId, Taken};
use crate::time::Time;

/// A call in progress.
#[derive(Debug)]
pub(super) struct ServerCall {
    /// The stream of the call, which identifies it.
    pub(super) stream: StreamId,
    /// The deadline from `grpc-timeout`, if the client sent one.
    deadline: Option<Time>,
    state: State,
    /// The queued messages of the response, each with its prefix.
    answer: Vec<u8>,
    /// The number of octets of `answer` that are sent.
    sent: usize,
    /// Whether the headers of the response are sent.
    has_begun: bool,
}

/// The state of a call.
#[derive(Debug)]
enum State {
    /// The call waits for the rest of the request.
    AwaitingRequest {
        /// The method that was called.
        method: &'static str,
        /// The part of the request message that was received.
        assembler: Assembler,
        /// The message, once it is complete.
        message: Option<Vec<u8>>,
        /// The time by which the request must be complete.
        until: Time,
    },
    /// The owner of the server handles the call.
    Answering,
    /// The response is finished, and the call waits for room to write the rest of it.
    Ending {
        /// The end of the response.
        end: ResponseEnd,
        /// The time by which the response must be written.
        until: Time,
    },
}

/// The end of a response.
#[derive(Debug)]
enum ResponseEnd {
    /// A gRPC status.
    Status(Status),
    /// An HTTP status: the request was not gRPC.
    Http(&'static [u8]),
}

impl ServerCall {
    /// Creates a call from the headers of its request. A call that must be refused is `Ending` from
    /// the beginning.
    pub(super) fn from_headers(
        stream: StreamId,
        fields: &Fields,
        methods: &[&'static str],
        max_request: usize,
        now: Time,
    ) -> Self {
        let mut call = Self {
            stream,
            deadline: None,
            state: State::Answering,
            answer: Vec::new(),
            sent: 0,
            has_begun: false,
        };
        match check_request(fields, methods, now) {
            Ok((method, deadline)) => {
                call.deadline = deadline;
                call.state = State::AwaitingRequest {
                    method,
                    assembler: Assembler::new(max_request),
                    message: None,
                    until: now + config::PEER_TIMEOUT,
                };
            }
            Err(end) => call.end_response(end, now),
        }
        call
    }

    /// Returns whether the owner handles the call and has not finished it.
    pub(super) fn is_answering(&self) -> bool {
        matches!(self.state, State::Answering)
    }

    /// Returns the deadline of the call in its present state, if it has one.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        match self.state {
            State::AwaitingRequest { until, .. } => {
                Some(self.deadline.map_or(until, |deadline| deadline.min(until)))
            }
            State::Answering => self.deadline,
            State::Ending { until, .. } => Some(until),
        }
    }

    /// Ends the call with DEADLINE_EXCEEDED because its deadline has passed, and drops its queued
    /// messages. Returns `true`, and does nothing, if the response was finished but not written in
    /// time: then the caller must reset the stream.
    pub(super) fn time_out(&mut self, now: Time) -> bool {
        if matches!(self.state, State::Ending { .. }) {
            return true;
        }
        self.answer.clear();
        self.sent = 0;
        self.finish(
            Status::new(Code::DeadlineExceeded, "the call timed out"),
            now,
        );
        false
    }

    /// Processes a part of the request.
    pub(super) fn receive_data(&mut self, mut data: &[u8], now: Time) {
        let State::AwaitingRequest {
            assembler, message, ..
        } = &mut self.state
        else {
            return;
        };
        while !data.is_empty() {
            match assembler.receive(&mut data) {
                Ok(None) => {}
                Ok(Some(_)) if message.is_some() => {
                    let words = "the request has more than one message";
                    let second = Status::new(Code::Internal, words);
                    return self.finish(second, now);
                }
                Ok(complete) => *message = complete,
                Err(error) => return self.finish(refusal_status(&error), now),
            }
        }
    }

    /// Processes the end of the request; returns the method and the message. Returns `None` if the
    /// call was ended before, or is ended now because its message is missing or incomplete.
    pub(super) fn end_request(&mut self, now: Time) -> Option<(&'static str, Vec<u8>)> {
        let State::AwaitingRequest {
            method,
            assembler,
            message,
            ..
        } = &mut self.state
        else {
            return None;
        };
        let message = message.take().filter(|_| !assembler.is_inside_message());
        let called = message.map(|message| (*method, message));
        if called.is_some() {
            self.state = State::Answering;
        } else {
            let words = "the request has no complete message";
            self.finish(Status::new(Code::Internal, words), now);
        }
        called
    }

    /// Returns whether a part of the response waits to be written.
    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.answer.len() || matches!(self.state, State::Ending { .. })
    }

    /// Returns whether so much is unsent that further messages are refused.
    pub(super) fn is_queue_full(&self) -> bool {
        self.answer.len() - self.sent >= config::MAX_UNSENT_OCTETS
    }

    /// Queues a message of the response; drops the message if the response is finished.
    pub(super) fn queue_message(&mut self, message: &[u8]) {
        if self.is_answering() {
            self.answer.drain(..self.sent);
            self.sent = 0;
            message::encode(message, &mut self.answer);
        }
    }

    /// Ends the response with a status.
    pub(super) fn finish(&mut self, status: Status, now: Time) {
        self.end_response(ResponseEnd::Status(status), now);
    }

    fn end_response(&mut self, end: ResponseEnd, now: Time) {
        if !matches!(self.state, State::Ending { .. }) {
            let until = now + config::PEER_TIMEOUT;
            self.state = State::Ending { end, until };
        }
    }

    /// Writes as much of the response as the connection accepts. Returns whether the call is over:
    /// all is written, or the stream was reset because the headers are too large.
    pub(super) fn write_response(&mut self, http2: &mut Connection, now: Time) -> bool {
        match self.try_write_response(http2, now) {
            Ok(is_written) => is_written,
            Err(HeadersError::Later) => false,
            Err(HeadersError::TooLarge) => {
                http2.reset(self.stream, ErrorCode::INTERNAL_ERROR, now);
                true
            }
        }
    }

    fn try_write_response(
        &mut self,
        http2: &mut Connection,
        now: Time,
    ) -> Result<bool, HeadersError> {
        let stream = self.stream;
        if self.sent < self.answer.len() {
            if !self.has_begun {
                http2.send_headers(stream, &HEAD, false, now)?;
                self.has_begun = true;
            }
            match http2.send_data(stream, &self.answer[self.sent..], false, now) {
                Taken::All => {
                    self.answer = Vec::new();
                    self.sent = 0;
                }
                Taken::Some(octets) => {
                    self.sent += octets;
                    return Ok(false);
                }
            }
        }
        let State::Ending { end, .. } = &self.state else {
            return Ok(false);
        };
        send_trailers(end, self.has_begun, stream, http2, now)?;
        // RFC 9113 §8.1: "a server MAY request that the client abort transmission of a request
        // without error by sending a RST_STREAM with an error code of NO_ERROR after sending a
        // complete response".
        http2.reset(stream, ErrorCode::NO_ERROR, now);
        Ok(true)
    }

    /// Returns the number of octets of memory held, beyond the value itself.
    pub(super) fn mem_used(&self) -> usize {
        let request = match &self.state {
            State::AwaitingRequest {
                assembler, message, ..
            } => assembler.mem_used() + message.as_ref().map_or(0, Vec::capacity),
            State::Answering | State::Ending { .. } => 0,
        };
        self.answer.capacity() + request
    }
}

/// Sends the end of a response: trailers if it `has_begun`, else headers with END_STREAM.
///
/// gRPC: "Response → (Response-Headers *Length-Prefixed-Message Trailers) / Trailers-Only".
fn send_trailers(
    response_end: &ResponseEnd,
    has_begun: bool,
    stream: StreamId,
    http2: &mut Connection,
    now: Time,
) -> Result<(), HeadersError> {
    let status = match response_end {
        ResponseEnd::Http(status) => {
            return http2.send_headers(stream, &[(":status", *status)], true, now);
        }
        ResponseEnd::Status(status) => status,
    };
    let (code, message) = (status.code.encode(), status.encode_message());
    let details = status.encode_details();
    let fields = [
        HEAD[0],
        HEAD[1],
        ("grpc-status", code.as_bytes()),
        ("grpc-message", &message),
        (status::DETAILS, &details),
    ];
    let begin = if has_begun { HEAD.len() } else { 0 };
    let end = match (message.is_empty(), details.is_empty()) {
        (_, false) => fields.len(),
        (false, true) => fields.len() - 1,
        (true, true) => fields.len() - 2,
    };
    http2.send_headers(stream, &fields[begin..end], true, now)
}

/// Checks whether a request can be served. Returns its method and deadline, or the end of the
/// response that refuses it.
fn check_request(
    fields: &Fields,
    methods: &[&'static str],
    now: Time,
) -> Result<(&'static str, Option<Time>), ResponseEnd> {
    if fields.get(b":method") != Some(b"POST") {
        return Err(ResponseEnd::Http(b"405"));
    }
    if !headers::is_grpc(fields.get(b"content-type").unwrap_or_default()) {
        return Err(ResponseEnd::Http(b"415"));
    }
    let path = fields.get(b":path").unwrap_or_default();
    let served = methods.iter().find(|served| served.as_bytes() == path);
    let method = served.ok_or_else(|| {
        let words = format!("unknown method {}", String::from_utf8_lossy(path));
        ResponseEnd::Status(Status::new(Code::Unimplemented, words))
    })?;
    let timeout = fields.get(b"grpc-timeout").map(headers::parse_timeout);
    match timeout {
        None => Ok((method, None)),
        Some(Some(timeout)) => Ok((method, Some(now + timeout))),
        Some(None) => {
            let malformed = Status::new(Code::Internal, "malformed grpc-timeout");
            Err(ResponseEnd::Status(malformed))
        }
    }
}

/// Returns the status for a request whose message cannot be accepted.
fn refusal_status(error: &CallError) -> Status {
    match error {
        CallError::TooLarge { announced, limit } => {
            let words = format!("the message is too large octets={announced} limit={limit}");
            Status::new(Code::ResourceExhausted, words)
        }
        // gRPC: a server answers a message in an encoding that it does not support with
        // UNIMPLEMENTED.
        CallError::Protocol(ProtocolError::Compressed) => {
            Status::new(Code::Unimplemented, "compression is not supported")
        }
        _ => Status::new(Code::Internal, "the message has an unknown flag"),
    }
}

/// The first headers of every gRPC response.
const HEAD: [(&str, &[u8]); 2] = [(":status", b"200"), ("content-type", CONTENT_TYPE)];

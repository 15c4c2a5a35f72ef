//! The server's end of a gRPC connection: its public methods.
//!
//! The caller, which drives the server as an [`Endpoint`], owns the socket and the clock, and takes
//! events with [`Server::poll_event`] until it returns `None`.
//!
//! ```text
//!        poll_event()                 send(), any number of times       finish()
//! client ------------> Called(call) --------------------------------------------> written, dropped
//!                          |
//!                          | the client cancels it, its deadline passes, the connection ends
//!                          v
//!                        Ended(call)
//! ```
//!
//! A call has one request message. A unary call is answered with one message and a status
//! ([`Server::reply`]), a server-streaming call with any number of messages. Calls of unknown
//! methods, and requests that are not gRPC, invalid, late or too large, are answered here and not
//! reported.

use std::collections::VecDeque;

use super::server_call::ServerCall;
use super::status::Status;
use crate::http2::{Connection, ConnectionError, Endpoint, ErrorCode, Event, StreamId};
use crate::time::Time;

/// An event on a server's connection. A call is identified by its stream, which is never reused on
/// a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A method was called, and the request is complete.
    Called {
        /// The identifier of the call.
        call: StreamId,
        /// The method, as passed to [`Server::new`].
        method: &'static str,
        /// The octets of the request.
        message: Vec<u8>,
    },
    /// A call ended before its response was finished; anything more sent on it is dropped.
    Ended {
        /// The call.
        call: StreamId,
    },
    /// The connection has ended. This is the last event.
    Closed(ConnectionError),
}

/// The error for a client that does not read: so much is unsent that the message was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client reads too slowly: too much data is unsent")]
pub struct Backpressure;

/// The server's end of a connection.
#[derive(Debug)]
pub struct Server {
    http2: Connection,
    methods: &'static [&'static str],
    max_request: usize,
    /// The calls whose responses are not completely written, in the order of arrival.
    pub(super) calls: Vec<ServerCall>,
    /// Whether a call may have octets to write that the connection has not accepted yet.
    has_unsent: bool,
    /// The events not yet returned: at most one for each call, and [`Incoming::Closed`].
    events: VecDeque<Incoming>,
}

impl Server {
    /// Returns a server on a connection that was just accepted. It serves these methods
    /// (`/<package>.<Service>/<Method>`), with requests of at most `max_request` octets.
    pub fn new(methods: &'static [&'static str], max_request: usize, now: Time) -> Self {
        Self {
            http2: Connection::server(now),
            methods,
            max_request,
            calls: Vec::new(),
            has_unsent: false,
            events: VecDeque::new(),
        }
    }

    /// Returns the next event, or `None` until more is received or written, or time passes.
    pub fn poll_event(&mut self, now: Time) -> Option<Incoming> {
        while self.events.is_empty() && self.process_event(now) {}
        self.write_responses(now);
        self.events.pop_front()
    }

    /// Answers a call with one message and the status OK.
    pub fn reply(&mut self, call: StreamId, message: &[u8], now: Time) {
        if let Some(index) = self.position(call) {
            self.calls[index].queue_message(message);
            self.calls[index].finish(Status::ok(), now);
            self.write_response(index, now);
        }
    }

    /// Sends a message of a streaming call; returns an error if too much is unsent.
    pub fn send(&mut self, call: StreamId, message: &[u8], now: Time) -> Result<(), Backpressure> {
        if let Some(index) = self.position(call) {
            if self.calls[index].is_queue_full() {
                return Err(Backpressure);
            }
            self.calls[index].queue_message(message);
            self.write_response(index, now);
        }
        Ok(())
    }

    /// Ends the response to a call with a status, after the messages that were sent before.
    pub fn finish(&mut self, call: StreamId, status: Status, now: Time) {
        if let Some(index) = self.position(call) {
            self.calls[index].finish(status, now);
            self.write_response(index, now);
        }
    }

    /// Sends GOAWAY: new calls are not accepted, and the connection ends with the last open call.
    pub fn shutdown(&mut self, now: Time) {
        self.http2.shutdown(now);
    }

    /// Returns whether the connection has ended. [`transmit`](Self::transmit) may still return its
    /// final bytes.
    pub fn is_closed(&self) -> bool {
        self.http2.is_ended()
    }

    /// Processes one event of the connection; returns whether there was one.
    fn process_event(&mut self, now: Time) -> bool {
        let Some(event) = self.http2.poll_event(now) else {
            return false;
        };
        match event {
            Event::Request { stream, end_stream } => {
                let fields = self.http2.fields();
                let call =
                    ServerCall::from_headers(stream, fields, self.methods, self.max_request, now);
                self.calls.push(call);
                self.report_if_complete(stream, end_stream, now);
            }
            Event::Data { stream, end_stream } => {
                let content = self.http2.content();
                let octets = content.len();
                if let Some(call) = find_call(&mut self.calls, stream) {
                    call.receive_data(content, now);
                }
                self.http2.consume(stream, octets, now);
                self.report_if_complete(stream, end_stream, now);
            }
            Event::Trailers { stream } => self.report_if_complete(stream, true, now),
            Event::Reset { stream, .. } | Event::Failed { stream, .. } => self.drop_call(stream),
            Event::Closed(error) => {
                while let Some(call) = self.calls.first() {
                    self.drop_call(call.stream);
                }
                self.events.push_back(Incoming::Closed(error));
            }
            // A client still accepts responses after its GOAWAY. Only clients get `Response`.
            Event::GoAway { .. } | Event::Response { .. } => {}
        }
        true
    }

    /// Queues the event for a call if `end_stream` completes its request. Also notes whether there
    /// is a response to write, because a call may be refused as soon as its headers are received.
    fn report_if_complete(&mut self, stream: StreamId, end_stream: bool, now: Time) {
        let Some(call) = find_call(&mut self.calls, stream) else {
            return;
        };
        if let Some((method, message)) = end_stream.then(|| call.end_request(now)).flatten() {
            self.events.push_back(Incoming::Called {
                call: stream,
                method,
                message,
            });
        }
        self.has_unsent |= call.has_unsent();
    }

    /// Drops a call whose stream or connection has ended; queues [`Incoming::Ended`] if the call
    /// was reported and its response is not finished.
    fn drop_call(&mut self, stream: StreamId) {
        if let Some(index) = self.position(stream) {
            if self.calls.remove(index).is_answering() {
                self.events.push_back(Incoming::Ended { call: stream });
            }
        }
    }

    /// Writes as much of the responses as the connection accepts.
    fn write_responses(&mut self, now: Time) {
        if !std::mem::take(&mut self.has_unsent) {
            return;
        }
        let mut index = 0;
        while index < self.calls.len() {
            if !self.write_response(index, now) {
                index += 1;
            }
        }
    }

    /// Writes as much of a response as the connection accepts. Drops the call once the response is
    /// complete, or if its headers are too large to be sent. Returns whether the call was dropped.
    fn write_response(&mut self, index: usize, now: Time) -> bool {
        let call = &mut self.calls[index];
        let is_over = call.write_response(&mut self.http2, now);
        if !is_over {
            self.has_unsent |= call.has_unsent();
            return false;
        }
        if call.is_answering() {
            let call = call.stream;
            self.events.push_back(Incoming::Ended { call });
        }
        self.calls.remove(index);
        true
    }

    /// Returns the index of the call on a stream.
    fn position(&self, stream: StreamId) -> Option<usize> {
        self.calls.iter().position(|call| call.stream == stream)
    }
}

impl Endpoint for Server {
    fn recv_buf(&mut self) -> &mut [u8] {
        self.http2.recv_buf()
    }

    fn received(&mut self, octets: usize, now: Time) {
        self.http2.received(octets, now);
    }

    fn eof(&mut self, now: Time) {
        self.http2.eof(now);
    }

    fn transmit(&self) -> &[u8] {
        self.http2.transmit()
    }

    fn sent(&mut self, octets: usize, now: Time) {
        self.http2.sent(octets, now);
        self.write_responses(now);
    }

    fn has_work(&self) -> bool {
        !self.events.is_empty() || self.http2.has_work()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let deadlines = self.calls.iter().filter_map(ServerCall::next_deadline);
        deadlines.chain(self.http2.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.http2.handle_timeout(now);
        for call in &mut self.calls {
            if call.next_deadline().is_some_and(|due| due <= now) {
                let is_reported = call.is_answering();
                if call.time_out(now) {
                    self.http2.reset(call.stream, ErrorCode::CANCEL, now);
                }
                self.has_unsent = true;
                if is_reported {
                    self.events.push_back(Incoming::Ended { call: call.stream });
                }
            }
        }
        self.write_responses(now);
    }

    fn mem_used(&self) -> usize {
        let calls: usize = self.calls.iter().map(ServerCall::mem_used).sum();
        self.http2.mem_used()
            + calls
            + self.calls.capacity() * size_of::<ServerCall>()
            + self.events.capacity() * size_of::<Incoming>()
    }
}

/// Returns the call on a stream.
fn find_call(calls: &mut [ServerCall], stream: StreamId) -> Option<&mut ServerCall> {
    calls.iter_mut().find(|call| call.stream == stream)
}

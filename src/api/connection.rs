//! The HTTP/1.1 connection of one client: it parses one request, buffers the response, and keeps
//! the deadlines.
//!
//! A connection has one request: what a client sends after it is ignored, and every response ends
//! with the connection.
//!
//! ```text
//!               request                 respond(), or HEAD
//!   Reading --------------> Requested ----------------------> Closing
//!      |                        |                                ^
//!      |                        | begin_stream()                 |
//!      |                        v                                |
//!      |                    Streaming ---------------------------+
//!      |                       send()       finish_stream()      |
//!      |                                                         |
//!      +---------------------------------------------------------+
//!                refused, timeout, end of input
//! ```
//!
//! In every state but `Reading`, a connection also ends if its client does not read for
//! [`API_STALL`] while output is pending.

use std::mem;

use super::request::{Method, Request};
use super::response::{Response, Status, stream_head};
use crate::config::{API_STALL, MAX_UNSENT_OCTETS, PEER_TIMEOUT};
use crate::time::Time;

/// The connection of one client.
#[derive(Debug)]
pub struct Connection {
    state: State,
    /// The octets to write.
    output: Vec<u8>,
    /// The number of octets of `output` that were written.
    written: usize,
    /// The last time at which output was written, or was queued while none was pending.
    last_progress: Time,
}

/// The state of a connection.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The rest of the request is awaited, until a deadline.
    Reading { input: Vec<u8>, until: Time },
    /// The caller has to respond to the request.
    Requested { is_head: bool },
    /// The head of the response is queued, and the caller sends lines.
    Streaming,
    /// The rest of the output is written, and nothing is read from the client.
    Closing,
}

impl Connection {
    /// Returns a connection that was accepted at `now`.
    pub fn new(now: Time) -> Self {
        Self {
            state: State::Reading {
                input: Vec::new(),
                until: now + PEER_TIMEOUT,
            },
            output: Vec::new(),
            written: 0,
            last_progress: now,
        }
    }

    /// Returns whether to read from the client: only until its request is complete.
    pub fn wants_input(&self) -> bool {
        matches!(self.state, State::Reading { .. })
    }

    /// Adds octets that the client sent. Returns the request once it is complete; the caller has to
    /// respond to it. An invalid request is refused here.
    pub fn receive(&mut self, octets: &[u8], now: Time) -> Option<Request> {
        let State::Reading { input, .. } = &mut self.state else {
            return None;
        };
        input.extend_from_slice(octets);
        match Request::parse(input) {
            Ok(request) => {
                let request = request?;
                self.state = State::Requested {
                    is_head: request.method == Method::Head,
                };
                Some(request)
            }
            Err(refusal) => {
                self.refuse(&refusal, now);
                None
            }
        }
    }

    /// Records that the client sends nothing more. A complete request is still answered.
    pub fn eof(&mut self) {
        if self.wants_input() {
            self.state = State::Closing;
        }
    }

    /// Responds to the request. Does nothing if no request waits for a response.
    pub fn respond(&mut self, response: &Response, now: Time) {
        if let State::Requested { is_head } = self.state {
            self.push_output(response.encode(is_head), now);
            self.state = State::Closing;
        }
    }

    /// Begins a response whose lines follow. Returns whether the caller has to send lines: not if
    /// the method is HEAD, or if no request waits for a response.
    pub fn begin_stream(&mut self, now: Time) -> bool {
        let State::Requested { is_head } = self.state else {
            return false;
        };
        self.push_output(stream_head(), now);
        self.state = if is_head {
            State::Closing
        } else {
            State::Streaming
        };
        !is_head
    }

    /// Adds lines to the stream in progress: about as many octets as [`room`](Self::room) returns.
    pub fn send(&mut self, lines: Vec<u8>, now: Time) {
        if self.state == State::Streaming {
            self.push_output(lines, now);
        }
    }

    /// Ends the stream in progress.
    pub fn finish_stream(&mut self) {
        if self.state == State::Streaming {
            self.state = State::Closing;
        }
    }

    /// Returns how many more octets of a stream may be rendered now.
    pub fn room(&self) -> usize {
        MAX_UNSENT_OCTETS.saturating_sub(self.pending_output().len())
    }

    /// Returns the octets to write next.
    pub fn pending_output(&self) -> &[u8] {
        &self.output[self.written..]
    }

    /// Records that octets of [`pending_output`](Self::pending_output) were written.
    pub fn sent(&mut self, octets: usize, now: Time) {
        self.written = self.output.len().min(self.written + octets);
        if octets > 0 {
            self.last_progress = now;
        }
        if self.pending_output().is_empty() {
            self.drop_output();
        }
    }

    /// Returns whether everything is written and the connection is to be closed.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closing && self.pending_output().is_empty()
    }

    /// Returns the time of the next [`Connection::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Reading { until, .. } => Some(*until),
            _ => (!self.pending_output().is_empty()).then(|| self.last_progress + API_STALL),
        }
    }

    /// Ends the connection if its deadline has passed at `now`; responds with 408 if the request is
    /// incomplete. Calling this early, or twice, is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        if self.wants_input() {
            let why = "the request was not complete within 10 s";
            self.refuse(&Response::error(Status::REQUEST_TIMEOUT, why), now);
        } else {
            self.drop_output();
            self.state = State::Closing;
        }
    }

    /// Queues a response that refuses the request, after which the connection closes.
    fn refuse(&mut self, response: &Response, now: Time) {
        self.push_output(response.encode(false), now);
        self.state = State::Closing;
    }

    fn push_output(&mut self, mut octets: Vec<u8>, now: Time) {
        if self.pending_output().is_empty() {
            self.last_progress = now;
        }
        self.output.drain(..mem::take(&mut self.written));
        self.output.append(&mut octets);
    }

    fn drop_output(&mut self) {
        self.output = Vec::new();
        self.written = 0;
    }
}

#[cfg(test)]
mod tests;

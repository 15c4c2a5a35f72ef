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
//!      |                       send()          finish()          |
//!      |                                                         |
//!      +---------------------------------------------------------+
//!                refused, timeout, end of input  
//! ```

use std::mem;

use super::request::{Method, Request};
use super::response::{Response, Status, stream_head};
use crate::config::{API_OUTPUT, API_REQUEST_TIME, API_STALL};
use crate::time::Time;

/// The connection of one client.
#[derive(Debug)]
pub struct Connection {
    state: State,
    /// The octets to write.
    output: Vec<u8>,
    /// The number of octets of `output` that are written.
    written: usize,
    /// The time at which output was written last, or began to wait.
    moved: Time,
}

/// What the connection waits for.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The rest of the request, until a deadline.
    Reading { input: Vec<u8>, until: Time },
    /// The caller's response.
    Requested { is_head: bool },
    /// More lines of the caller's response, whose head is written.
    Streaming,
    /// The client reads the rest of the output; nothing is read from it.
    Closing,
}

impl Connection {
    /// Returns a connection that was accepted at `now`.
    pub fn new(now: Time) -> Self {
        Self {
            state: State::Reading {
                input: Vec::new(),
                until: now + API_REQUEST_TIME,
            },
            output: Vec::new(),
            written: 0,
            moved: now,
        }
    }

    /// Returns whether octets of the client are wanted: until its request is complete.
    pub fn wants_input(&self) -> bool {
        matches!(self.state, State::Reading { .. })
    }

    /// Adds octets that the client sent. Returns the request once it is complete; the caller has to
    /// respond to it. A request that is not valid is refused here.
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

    /// Records that the client sends nothing more. A request that was received is answered.
    pub fn eof(&mut self) {
        if self.wants_input() {
            self.state = State::Closing;
        }
    }

    /// Responds to the request. Does nothing if no request waits for a response.
    pub fn respond(&mut self, response: &Response, now: Time) {
        if let State::Requested { is_head } = self.state {
            self.push(response.encode(is_head), now);
            self.state = State::Closing;
        }
    }

    /// Begins a response whose lines follow. Returns whether they are to be sent: the response to
    /// HEAD is complete without them.
    pub fn begin_stream(&mut self, now: Time) -> bool {
        let State::Requested { is_head } = self.state else {
            return false;
        };
        self.push(stream_head(), now);
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
            self.push(lines, now);
        }
    }

    /// Ends the stream in progress.
    pub fn finish(&mut self) {
        if self.state == State::Streaming {
            self.state = State::Closing;
        }
    }

    /// Returns how much more of a stream may be rendered now (octets).
    pub fn room(&self) -> usize {
        API_OUTPUT.saturating_sub(self.pending().len())
    }

    /// Returns the octets to write next.
    pub fn pending(&self) -> &[u8] {
        &self.output[self.written..]
    }

    /// Counts octets that were written.
    pub fn sent(&mut self, octets: usize, now: Time) {
        self.written = self.output.len().min(self.written + octets);
        if octets > 0 {
            self.moved = now;
        }
        if self.pending().is_empty() {
            self.drop_output();
        }
    }

    /// Returns whether everything is written and the connection is to be closed.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closing && self.pending().is_empty()
    }

    /// Returns the time of the next [`Connection::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Reading { until, .. } => Some(*until),
            _ => (!self.pending().is_empty()).then(|| self.moved + API_STALL),
        }
    }

    /// Does what is due by `now`. Calling this early, or twice, is harmless.
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

    /// Responds with a refusal, after which the connection closes.
    fn refuse(&mut self, response: &Response, now: Time) {
        self.push(response.encode(false), now);
        self.state = State::Closing;
    }

    fn push(&mut self, mut octets: Vec<u8>, now: Time) {
        if self.pending().is_empty() {
            self.moved = now;
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

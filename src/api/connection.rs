//! HTTP/1.1 of one client: octets in, one request at a time out, octets out, and the deadlines.
//!
//! Pure.
//!
//! ```text
//!            head complete               respond(), or
//!  Reading ----------------> Requested ----------------> Reading, or Closing
//!     |                          |         HEAD             ^
//!     | refused, timeout,        | begin_body()             |
//!     | idle, end of input       v                          |
//!     |                       Sending ----------------------+
//!     +--> Closing               send_body()  finish_body()
//! ```
//!
//! After [`receive`](Connection::receive), [`eof`](Connection::eof), [`sent`](Connection::sent) and
//! each response, the caller takes the next request with
//! [`poll_request`](Connection::poll_request), until there is none or one to respond to.

use std::mem;

use super::request::{Method, Request, Scan, Scanner, is_head};
use super::response::{ContentType, Framing, Head, LAST_CHUNK, Response, Status, write_chunk};
use crate::config::{API_HEAD, API_IDLE, API_OUTPUT, API_REQUEST_TIME, API_STALL};
use crate::time::Time;

/// The connection of one client.
#[derive(Debug)]
pub struct Connection {
    state: State,
    /// What was received and belongs to no request yet.
    input: Vec<u8>,
    scanner: Scanner,
    /// Whether the client sends nothing more.
    has_ended: bool,
    /// Whether the connection ends after the response in progress.
    is_stopping: bool,
    /// What is to be written.
    output: Vec<u8>,
    /// The number of octets of `output` that are written.
    written: usize,
    /// When the client had to begin a request, or began the one that is incomplete.
    waits_since: Time,
    /// When output was written last, or began to wait.
    moved: Time,
}

/// What the connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A request, or the rest of one.
    Reading,
    /// The caller's response.
    Requested(Terms),
    /// The rest of the caller's response, whose head is written.
    Sending(Terms),
    /// The client reads the rest of the output; nothing is read from it.
    Closing,
}

/// What the request allows its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    is_head: bool,
    chunks: bool,
    keep_alive: bool,
}

impl Connection {
    /// Returns a connection that was accepted at `now`.
    pub fn new(now: Time) -> Self {
        Self {
            state: State::Reading,
            input: Vec::new(),
            scanner: Scanner::default(),
            has_ended: false,
            is_stopping: false,
            output: Vec::new(),
            written: 0,
            waits_since: now,
            moved: now,
        }
    }

    /// Returns whether octets of the client are wanted: not while a request is answered, while too
    /// much output waits, or while a whole head was received and not taken.
    pub fn wants_input(&self) -> bool {
        self.state == State::Reading
            && !self.has_ended
            && self.has_room()
            && self.input.len() < API_HEAD
    }

    /// Adds octets that the client sent.
    pub fn receive(&mut self, octets: &[u8], now: Time) {
        if self.state == State::Closing {
            return;
        }
        if self.input.is_empty() {
            self.waits_since = now;
        }
        self.input.extend_from_slice(octets);
    }

    /// Records that the client sends nothing more. The requests that were received are answered.
    pub fn eof(&mut self) {
        self.has_ended = true;
    }

    /// Returns the next request, if it is complete and the one before was answered. The caller has
    /// to respond to it. A head that is not valid is refused here.
    pub fn poll_request(&mut self, now: Time) -> Option<Request> {
        if self.state != State::Reading || !self.has_room() {
            return None;
        }
        match self.scanner.scan(&self.input) {
            Scan::Partial => {
                if self.has_ended {
                    self.close();
                }
                None
            }
            Scan::Refused(response) => {
                self.refuse(&response, now);
                None
            }
            Scan::Complete(length) => match Request::parse(&self.input[..length]) {
                Ok(request) => {
                    self.scanner = Scanner::default();
                    self.input.drain(..length);
                    self.state = State::Requested(Terms {
                        is_head: request.method == Method::Head,
                        chunks: request.chunks,
                        keep_alive: request.keep_alive,
                    });
                    Some(request)
                }
                Err(response) => {
                    self.refuse(&response, now);
                    None
                }
            },
        }
    }

    /// Responds to the request. Does nothing if none waits for its response.
    pub fn respond(&mut self, response: &Response, now: Time) {
        if let State::Requested(terms) = self.state {
            self.write_response(response, terms, now);
            self.end_response(terms, now);
        }
    }

    /// Begins the response to the request, with a body that follows in parts, and returns whether
    /// the body is wanted: HEAD is answered completely by this.
    pub fn begin_body(&mut self, content_type: ContentType, now: Time) -> bool {
        let State::Requested(mut terms) = self.state else {
            return false;
        };
        let framing = if terms.chunks {
            Framing::Chunks
        } else {
            Framing::End
        };
        terms.keep_alive &= terms.chunks;
        let head = Head {
            status: Status::Ok,
            content_type,
            allow: None,
            framing,
            keep_alive: self.persists(terms),
        };
        self.push(now, &mut |out| head.write(out));
        if terms.is_head {
            self.end_response(terms, now);
        } else {
            self.state = State::Sending(terms);
        }
        !terms.is_head
    }

    /// Adds what `render` appends to the body in progress, which should be about what
    /// [`room`](Self::room) returns. `render` is called only while a body is in progress.
    pub fn send_body(&mut self, render: &mut dyn FnMut(&mut Vec<u8>), now: Time) {
        if let State::Sending(terms) = self.state {
            self.push(now, &mut |out| {
                if terms.chunks {
                    write_chunk(out, render);
                } else {
                    render(out);
                }
            });
        }
    }

    /// Ends the body in progress.
    pub fn finish_body(&mut self, now: Time) {
        if let State::Sending(terms) = self.state {
            if terms.chunks {
                self.push(now, &mut |out| out.extend_from_slice(LAST_CHUNK));
            }
            self.end_response(terms, now);
        }
    }

    /// Returns how much more output may be rendered now (octets).
    pub fn room(&self) -> usize {
        API_OUTPUT.saturating_sub(self.pending().len())
    }

    /// Returns the octets to write next.
    pub fn pending(&self) -> &[u8] {
        &self.output[self.written..]
    }

    /// Counts octets that were written.
    pub fn sent(&mut self, octets: usize, now: Time) {
        let had_room = self.has_room();
        self.written = self.output.len().min(self.written + octets);
        if octets > 0 {
            self.moved = now;
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        // Neither silence nor half a head counts while the client had something to read.
        if self.output.is_empty() && self.input.is_empty() || !had_room && self.has_room() {
            self.waits_since = now;
        }
    }

    /// Returns whether everything is written and the connection is to be closed.
    pub fn is_finished(&self) -> bool {
        self.state == State::Closing && self.pending().is_empty()
    }

    /// Returns the time of the next [`Connection::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let stall = (!self.pending().is_empty()).then(|| self.moved + API_STALL);
        let (Some(stall), Some(request)) = (stall, self.request_deadline()) else {
            return stall.or_else(|| self.request_deadline());
        };
        Some(stall.min(request))
    }

    /// Does what is due by `now`. Calling this early, or twice, is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.pending().is_empty() && self.moved + API_STALL <= now {
            self.output.clear();
            self.written = 0;
            self.close();
        } else if self
            .request_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            if self.input.is_empty() {
                self.close();
            } else {
                let why = "the request head was not complete within 2 s";
                self.refuse(&Response::error(Status::RequestTimeout, why), now);
            }
        }
    }

    /// Ends the connection as soon as the response in progress is complete and written.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        if self.state == State::Reading {
            self.close();
        }
    }

    /// Returns the memory for input and output (octets).
    pub fn mem_used(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    /// Returns the time by which a request has to begin, or to be complete if it has begun.
    fn request_deadline(&self) -> Option<Time> {
        if !self.wants_input() {
            return None;
        }
        if !self.input.is_empty() {
            return Some(self.waits_since + API_REQUEST_TIME);
        }
        self.pending()
            .is_empty()
            .then(|| self.waits_since + API_IDLE)
    }

    fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Refuses what was received, and ends the connection: what follows cannot be told apart.
    fn refuse(&mut self, response: &Response, now: Time) {
        let terms = Terms {
            is_head: is_head(&self.input),
            chunks: false,
            keep_alive: false,
        };
        self.write_response(response, terms, now);
        self.close();
    }

    fn write_response(&mut self, response: &Response, terms: Terms, now: Time) {
        let head = Head {
            status: response.status,
            content_type: response.content_type,
            allow: response.allow,
            framing: Framing::Length(response.body.len()),
            keep_alive: self.persists(terms),
        };
        self.push(now, &mut |out| {
            head.write(out);
            if !terms.is_head {
                out.extend_from_slice(&response.body);
            }
        });
    }

    /// Continues after a complete response.
    fn end_response(&mut self, terms: Terms, now: Time) {
        if self.persists(terms) {
            self.state = State::Reading;
            self.waits_since = now;
        } else {
            self.close();
        }
    }

    fn persists(&self, terms: Terms) -> bool {
        terms.keep_alive && !self.is_stopping
    }

    /// Reads nothing more.
    fn close(&mut self) {
        self.state = State::Closing;
        self.input = Vec::new();
    }

    /// Appends what `write` appends to the output.
    fn push(&mut self, now: Time, write: &mut dyn FnMut(&mut Vec<u8>)) {
        if self.pending().is_empty() {
            self.moved = now;
        }
        self.output.drain(..mem::take(&mut self.written));
        write(&mut self.output);
    }
}

#[cfg(test)]
mod tests;

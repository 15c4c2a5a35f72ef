//! The client's end of a gRPC connection: its public methods.
//!
//! The caller, which drives the client as an [`Endpoint`], owns the socket and the clock, and takes
//! events with [`Client::poll_event`] until it returns `None`.

use smallvec::SmallVec;

use super::client_call::{CallType, ClientCall, Outcome};
use super::error::CallError;
use super::event::{CallId, Event};
use crate::budget::{Budget, Reserved, spilled_octets};
use crate::config;
use crate::http2::{self, Connection, ConnectionError, Endpoint, ErrorCode, Settings, StreamId};
use crate::time::Time;

/// The position in the last DATA frame, part of which is not yet processed.
#[derive(Debug)]
struct UnreadData {
    stream: StreamId,
    /// The number of octets that were processed.
    taken: usize,
    end_stream: bool,
}

/// The client's end of a connection.
#[derive(Debug)]
pub struct Client {
    http2: Connection,
    /// The calls that have not ended, in the order in which they were made.
    calls: SmallVec<[ClientCall; 1]>,
    /// The events that are not yet returned.
    events: SmallVec<[Event; 1]>,
    /// All calls before this index are completely sent.
    first_unsent: usize,
    /// The last received DATA frame, as long as a part of it is not yet processed. Its messages are
    /// returned one at a time, so even many of them need little more memory than the frame. The
    /// next event of the connection is taken only when the whole frame is processed.
    unread: Option<UnreadData>,
    /// The identifier of the next call.
    next: CallId,
    /// Whether the deadlines of calls start only with the server's SETTINGS, which have not been
    /// received yet.
    awaits_settings: bool,
    /// The connection's share of the memory budget, if there is a budget.
    reserved: Option<Reserved>,
}

impl Client {
    /// Returns a client on a connection that was just made.
    pub fn new(now: Time) -> Self {
        Self {
            http2: Connection::client(now),
            calls: SmallVec::new(),
            events: SmallVec::new(),
            first_unsent: 0,
            unread: None,
            next: CallId(0),
            awaits_settings: false,
            reserved: None,
        }
    }

    /// Counts the connection's memory against `budget`. If that memory grows and the budget has no
    /// room for it, all calls of this client end with [`CallError::OverBudget`].
    #[must_use]
    pub fn with_budget(self, budget: &Budget) -> Self {
        let reserved = Some(budget.empty_share());
        Self { reserved, ..self }
    }

    /// Starts a unary call: sends one message, and expects one message of at most `max_reply`
    /// octets before `deadline`.
    ///
    /// A call always ends with one [`Event::Finished`], even on a closed connection. The first call
    /// is written together with the connection preface.
    pub fn unary(
        &mut self,
        path: &str,
        message: &[u8],
        max_reply: usize,
        deadline: Time,
        now: Time,
    ) -> CallId {
        let deadline = Some(deadline);
        self.start_call(CallType::Unary, path, message, max_reply, deadline, now)
    }

    /// Starts a server-streaming call: sends one message, and accepts any number of messages of at
    /// most `max_message` octets each, until the server ends the stream or until `deadline`.
    ///
    /// Each message is returned as an [`Event::Message`], and only while events are polled: flow
    /// control holds up a server that sends faster. A stream always ends with one
    /// [`Event::Closed`]; [`cancel`](Self::cancel) ends it at any time.
    pub fn server_streaming(
        &mut self,
        path: &str,
        message: &[u8],
        max_message: usize,
        deadline: Option<Time>,
        now: Time,
    ) -> CallId {
        let call_type = CallType::ServerStreaming;
        self.start_call(call_type, path, message, max_message, deadline, now)
    }

    /// Starts a call. If that is not possible, queues the event for its end.
    fn start_call(
        &mut self,
        call_type: CallType,
        path: &str,
        message: &[u8],
        max_message: usize,
        deadline: Option<Time>,
        now: Time,
    ) -> CallId {
        let id = self.next;
        self.next = CallId(id.0 + 1);
        let index = self.calls.len();
        let call = ClientCall::new(id, call_type, path, message, max_message, deadline, now);
        self.calls.push(call);
        if index >= config::MAX_STREAMS as usize {
            self.finish_call(index, Err(CallError::TooManyCalls), false, now);
        } else if matches!(deadline, Some(deadline) if deadline <= now) {
            self.finish_call(index, Err(CallError::DeadlineExceeded), false, now);
        } else {
            self.send_requests(now);
        }
        id
    }

    /// Sets the deadline for the server's SETTINGS: if it passes, the connection and every call on
    /// it fail. Does nothing if the SETTINGS were received.
    pub fn set_handshake_deadline(&mut self, at: Time) {
        self.http2.set_handshake_deadline(at);
    }

    /// Postpones the start of the calls' deadlines until the server's SETTINGS are received, which
    /// must be before `until`: a server may listen for some time before it serves.
    pub fn start_deadlines_when_ready(&mut self, until: Time) {
        self.http2.set_handshake_deadline(until);
        self.awaits_settings = self.http2.peer_settings().is_none();
    }

    /// Ends a call with [`CallError::Cancelled`]; does nothing if the call has ended.
    pub fn cancel(&mut self, call: CallId, now: Time) {
        if let Some(index) = self.calls.iter().position(|other| other.id == call) {
            self.finish_call(index, Err(CallError::Cancelled), false, now);
        }
    }

    /// Returns the next event, or `None` until more is received or written, or time passes.
    pub fn poll_event(&mut self, now: Time) -> Option<Event> {
        while self.events.is_empty() && (self.read_message(now) || self.process_event(now)) {}
        if self.awaits_settings && self.http2.peer_settings().is_some() {
            self.awaits_settings = false;
            for call in &mut self.calls {
                call.restart_deadline(now);
            }
        }
        self.send_requests(now);
        self.enforce_budget(now);
        if self.events.is_empty() {
            return None;
        }
        Some(self.events.remove(0))
    }

    /// Cancels all calls and sends GOAWAY; no more calls can be made.
    pub fn close(&mut self, now: Time) {
        while !self.calls.is_empty() {
            self.finish_call(0, Err(CallError::Cancelled), false, now);
        }
        self.http2.shutdown(now);
    }

    /// Returns whether no more calls can be made.
    pub fn is_closed(&self) -> bool {
        self.http2.is_closing()
    }

    /// Returns why no more calls can be made, or `None` if more can be made.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.http2.close_reason()
    }

    /// Returns the server's HTTP/2 settings, or `None` before its first SETTINGS frame.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.http2.peer_settings()
    }

    /// Processes the unread frame up to the end of a message; returns whether there was an unread
    /// frame.
    fn read_message(&mut self, now: Time) -> bool {
        let Some(unread) = self.unread.take() else {
            return false;
        };
        let Some(index) = self.position(unread.stream) else {
            return true;
        };
        let octets = &self.http2.content()[unread.taken..];
        let mut rest = octets;
        let received = self.calls[index].receive_message(&mut rest);
        let (read, is_read) = (octets.len() - rest.len(), rest.is_empty());
        // Consumed even if the message is incomplete: otherwise, a message larger than the window
        // would never be completed.
        self.http2.consume(unread.stream, read, now);
        let end_stream = unread.end_stream;
        if !is_read {
            let taken = unread.taken + read;
            self.unread = Some(UnreadData { taken, ..unread });
        }
        let call = &self.calls[index];
        match received {
            Ok(message) => {
                if let Some(message) = message {
                    let call = call.id;
                    self.events.push(Event::Message { call, message });
                }
                if is_read && end_stream {
                    self.finish_call(index, Err(self.calls[index].truncation_error()), true, now);
                }
            }
            Err(error) => self.finish_call(index, Err(error), end_stream, now),
        }
        true
    }

    /// Processes one event of the connection; returns whether there was one.
    fn process_event(&mut self, now: Time) -> bool {
        let Some(event) = self.http2.poll_event(now) else {
            return false;
        };
        match event {
            http2::Event::Response {
                stream,
                status,
                end_stream,
            } => self.receive_headers(stream, status, end_stream, now),
            http2::Event::Data { stream, end_stream } => {
                self.unread = Some(UnreadData {
                    stream,
                    taken: 0,
                    end_stream,
                });
            }
            http2::Event::Trailers { stream } => {
                if let Some(index) = self.position(stream) {
                    let outcome = self.calls[index].receive_trailers(self.http2.fields());
                    self.finish_call(index, outcome, true, now);
                }
            }
            http2::Event::Reset { stream, code } => match (self.position(stream), code) {
                (Some(index), ErrorCode::REFUSED_STREAM) => self.handle_refusal(index, now),
                (Some(index), _) => self.finish_call(index, Err(CallError::Reset(code)), true, now),
                (None, _) => {}
            },
            http2::Event::Failed { stream, error } => {
                if let Some(index) = self.position(stream) {
                    self.finish_call(index, Err(CallError::Stream(error)), true, now);
                }
            }
            // Only servers get requests.
            http2::Event::Request { .. } => {}
            // mutation: calls wait for streams that a GOAWAY has refused
            http2::Event::GoAway { last_stream, .. } => self.handle_goaway(last_stream, now),
            http2::Event::Closed(error) => self.fail_all_calls(&error, now),
        }
        true
    }

    /// Processes the headers of a response.
    fn receive_headers(&mut self, stream: StreamId, status: u16, end_stream: bool, now: Time) {
        let Some(index) = self.position(stream) else {
            return;
        };
        let fields = self.http2.fields();
        let outcome = self.calls[index].receive_headers(status, fields, end_stream);
        if let Some(outcome) = outcome {
            self.finish_call(index, outcome, end_stream, now);
        }
    }

    /// Returns the index of the call on `stream`.
    fn position(&self, stream: StreamId) -> Option<usize> {
        self.calls
            .iter()
            .position(|call| call.stream == Some(stream))
    }

    /// Retries a call that the server has not processed, immediately but only once. Ends the call
    /// if a retry is not allowed, or if no more streams can be opened.
    fn handle_refusal(&mut self, index: usize, now: Time) {
        let again = self.calls[index].prepare_retry();
        self.first_unsent = self.first_unsent.min(index);
        if !again || self.is_closed() {
            let error = CallError::Refused { again };
            self.finish_call(index, Err(error), false, now);
        }
    }

    /// Ends the calls that the server will not process after its GOAWAY.
    fn handle_goaway(&mut self, last_stream: u32, now: Time) {
        let is_above = |call: &ClientCall| call.stream.is_some_and(|id| id.get() > last_stream);
        while let Some(index) = self.calls.iter().position(is_above) {
            self.handle_refusal(index, now);
        }
    }

    /// Ends all calls because the connection has ended.
    fn fail_all_calls(&mut self, error: &ConnectionError, now: Time) {
        while let Some(call) = self.calls.get_mut(0) {
            let written = call.stream.is_some_and(|id| self.http2.was_written(id));
            let error = error.clone();
            let lost = CallError::Connection { error, written };
            self.finish_call(0, Err(lost), false, now);
        }
    }

    /// Counts the memory held against the budget; ends all calls if the budget has no room for it.
    fn enforce_budget(&mut self, now: Time) {
        let Some(mut reserved) = self.reserved.take() else {
            return;
        };
        if reserved.resize(self.mem_used()).is_err() {
            while !self.calls.is_empty() {
                self.finish_call(0, Err(CallError::OverBudget), false, now);
            }
        }
        self.reserved = Some(reserved);
    }

    /// Sends as much of the requests as the connection accepts.
    fn send_requests(&mut self, now: Time) {
        let mut index = self.first_unsent;
        while index < self.calls.len() && (self.http2.has_room() || self.is_closed()) {
            let call = &mut self.calls[index];
            if let Err(error) = call.send_request(&mut self.http2, now) {
                self.finish_call(index, Err(error), false, now);
                continue;
            }
            index += 1;
            if index == self.first_unsent + 1 && !call.has_unsent() {
                self.first_unsent = index;
            }
        }
    }

    /// Ends a call and queues the event for that. Resets its stream if that is still open: with
    /// NO_ERROR if the response is `complete`, because the server does not need the rest of the
    /// request then, else with CANCEL.
    fn finish_call(&mut self, index: usize, outcome: Outcome, complete: bool, now: Time) {
        let call = self.calls.remove(index);
        self.first_unsent -= usize::from(index < self.first_unsent);
        if let Some(stream) = call.stream {
            let code = if complete {
                ErrorCode::NO_ERROR
            } else {
                ErrorCode::CANCEL
            };
            self.http2.reset(stream, code, now);
        }
        self.events.push(match call.call_type {
            CallType::Unary => Event::Finished {
                call: call.id,
                result: outcome,
            },
            CallType::ServerStreaming => Event::Closed {
                call: call.id,
                result: outcome.map(|_| ()),
            },
        });
    }
}

impl Endpoint for Client {
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
        self.send_requests(now);
    }

    fn has_work(&self) -> bool {
        !self.events.is_empty() || self.unread.is_some() || self.http2.has_work()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let mut next = self.http2.poll_timeout();
        // Until the server's SETTINGS are received, the deadlines of calls do not apply.
        if !self.awaits_settings {
            for call in &self.calls {
                next = next.into_iter().chain(call.deadline).min();
            }
        }
        next
    }

    fn handle_timeout(&mut self, now: Time) {
        self.http2.handle_timeout(now);
        let mut index = 0;
        while !self.awaits_settings && index < self.calls.len() {
            match self.calls[index].deadline {
                Some(deadline) if deadline <= now => {
                    self.finish_call(index, Err(CallError::DeadlineExceeded), false, now);
                }
                _ => index += 1,
            }
        }
    }

    fn mem_used(&self) -> usize {
        let calls: usize = self.calls.iter().map(ClientCall::mem_used).sum();
        self.http2.mem_used() + calls + spilled_octets(&self.calls) + spilled_octets(&self.events)
    }
}

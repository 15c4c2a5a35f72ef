//! The client's end of a gRPC connection: the verbs.
//!
//! Pure. Its driver, which uses it as an [`Endpoint`], owns socket and clock, and takes events out
//! with [`Client::poll_event`] until there are none.

use super::call::{Call, Outcome, Shape};
use super::error::CallError;
use super::event::{CallId, Event};
use crate::config;
use crate::few::Few;
use crate::http2::{self, Connection, ConnectionError, Endpoint, ErrorCode, Settings, StreamId};
use crate::time::Time;

/// The rest of a DATA frame with messages of a stream.
#[derive(Debug)]
struct Unread {
    stream: StreamId,
    octets: Vec<u8>,
    /// How much of it was taken.
    taken: usize,
    end_stream: bool,
}

/// The client's end of a connection.
#[derive(Debug)]
pub struct Client {
    http2: Connection,
    /// The calls that have not ended, in the order they were made.
    calls: Few<Call>,
    /// What was not told yet: at most one event for each call that was made.
    events: Few<Event>,
    /// What was received and not looked at yet. Until it is, nothing else is taken from the
    /// connection: so however many messages fit a frame, they cost no more memory than it.
    unread: Option<Unread>,
    /// The name of the next call.
    next: CallId,
    /// Whether the deadlines of the calls start only when the server's SETTINGS have come, and they
    /// have not.
    awaits_settings: bool,
}

impl Client {
    /// A client on a connection that was just made.
    pub fn new(now: Time) -> Self {
        Self {
            http2: Connection::client(now),
            calls: Few::new(),
            events: Few::new(),
            unread: None,
            next: CallId::FIRST,
            awaits_settings: false,
        }
    }

    /// Makes a unary call: one message there, one message of at most `max_reply` octets back,
    /// before `deadline`.
    ///
    /// A call always ends with one [`Event::Finished`], also on a connection that is closed. The
    /// first call is written together with the connection's preface.
    pub fn unary(
        &mut self,
        path: &str,
        message: &[u8],
        max_reply: usize,
        deadline: Time,
        now: Time,
    ) -> CallId {
        let call = |id| {
            let (shape, deadline) = (Shape::Unary, Some(deadline));
            Call::new(id, shape, path, message, max_reply, deadline, now)
        };
        self.call(call, now)
    }

    /// Makes a server-streaming call: one message there, any number of messages of at most
    /// `max_message` octets each back, as long as the server likes or until `deadline`.
    ///
    /// Each message comes as [`Event::Message`], and only while events are polled: a server that
    /// sends faster than that is held up by flow control. A stream always ends with one
    /// [`Event::Closed`]; [`cancel`](Self::cancel) ends it at any time.
    pub fn server_streaming(
        &mut self,
        path: &str,
        message: &[u8],
        max_message: usize,
        deadline: Option<Time>,
        now: Time,
    ) -> CallId {
        let call = |id| {
            let shape = Shape::ServerStreaming;
            Call::new(id, shape, path, message, max_message, deadline, now)
        };
        self.call(call, now)
    }

    /// Makes a call, if that is possible.
    fn call(&mut self, call: impl FnOnce(CallId) -> Call, now: Time) -> CallId {
        let id = self.next;
        self.next = id.next();
        let call = call(id);
        if self.calls.len() >= config::MAX_CALLS {
            self.tell(&call, Err(CallError::TooManyCalls));
        } else if call.deadline.is_some_and(|deadline| deadline <= now) {
            self.tell(&call, Err(CallError::DeadlineExceeded));
        } else {
            self.calls.push(call);
            self.send(now);
        }
        id
    }

    /// Sets when the server's SETTINGS must have come: the connection, and every call on it, fails
    /// if they have not. Does nothing when they have.
    pub fn set_handshake_deadline(&mut self, at: Time) {
        self.http2.set_handshake_deadline(at);
    }

    /// Starts the deadlines of calls when the server is ready, which is when its SETTINGS have come
    /// and must be at `until`: a server may listen some time before it serves.
    pub fn start_deadlines_when_ready(&mut self, until: Time) {
        self.set_handshake_deadline(until);
        self.awaits_settings = self.peer_settings().is_none();
    }

    /// Ends a call, with [`CallError::Cancelled`] for a result; nothing when it has ended.
    pub fn cancel(&mut self, call: CallId, now: Time) {
        if let Some(index) = self.calls.position(|other| other.id == call) {
            self.finish(index, Err(CallError::Cancelled), ErrorCode::CANCEL, now);
        }
    }

    /// The next event; `None` until something is received or written, or time passes.
    pub fn poll_event(&mut self, now: Time) -> Option<Event> {
        while self.events.is_empty() && (self.read_message(now) || self.receive(now)) {}
        self.start_deadlines(now);
        self.send(now);
        self.events.remove(0)
    }

    /// Says goodbye: all calls are cancelled, and no more can be made.
    pub fn close(&mut self, now: Time) {
        while !self.calls.is_empty() {
            self.finish(0, Err(CallError::Cancelled), ErrorCode::CANCEL, now);
        }
        self.http2.shutdown(now);
    }

    /// Whether no more calls can be made.
    pub fn is_closed(&self) -> bool {
        self.http2.is_closing()
    }

    /// Returns why no more calls can be made, once that is so.
    pub fn closing(&self) -> Option<ConnectionError> {
        self.http2.closing()
    }

    /// What the server wants of an HTTP/2 client, once it said so.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.http2.peer_settings()
    }

    /// A call that has taken too long.
    fn late(&self, now: Time) -> Option<usize> {
        let is_late = |call: &Call| self.due(call).is_some_and(|due| due <= now);
        self.calls.position(is_late)
    }

    /// Returns a call's deadline, unless it has none or it has not started: then the connection has
    /// a deadline for the server's SETTINGS.
    fn due(&self, call: &Call) -> Option<Time> {
        call.deadline.filter(|_| !self.awaits_settings)
    }

    /// Starts the deadlines of the calls, once the server's SETTINGS have come.
    fn start_deadlines(&mut self, now: Time) {
        if self.awaits_settings && self.peer_settings().is_some() {
            self.awaits_settings = false;
            for call in self.calls.iter_mut() {
                call.restart(now);
            }
        }
    }

    /// Looks at a piece of what is unread, up to the end of a message; answers whether there was
    /// any.
    fn read_message(&mut self, now: Time) -> bool {
        let Some(mut unread) = self.unread.take() else {
            return false;
        };
        let Some(call) = find(&mut self.calls, unread.stream) else {
            return true;
        };
        let mut rest = &unread.octets[unread.taken..];
        let message = call.receive_message(&mut rest);
        let taken = unread.octets.len() - rest.len();
        // Also for the piece of a message that is not complete: one that is larger than the window
        // would never be.
        self.http2.consume(unread.stream, taken - unread.taken, now);
        unread.taken = taken;
        let is_read = rest.is_empty();
        match message {
            Ok(message) => {
                let (id, cut) = (call.id, call.cut());
                if let Some(message) = message {
                    self.events.push(Event::Message { call: id, message });
                }
                if is_read && unread.end_stream {
                    self.settle(unread.stream, Some(Err(cut)), true, now);
                }
            }
            Err(error) => {
                let complete = unread.end_stream;
                self.settle(unread.stream, Some(Err(error)), complete, now);
            }
        }
        self.unread = Some(unread).filter(|_| !is_read);
        true
    }

    /// Takes one event from the connection; answers whether there was one.
    fn receive(&mut self, now: Time) -> bool {
        let Some(event) = self.http2.poll_event(now) else {
            return false;
        };
        match event {
            http2::Event::Head {
                stream,
                status,
                fields,
                end_stream,
            } => {
                let call = find(&mut self.calls, stream);
                let outcome = call.and_then(|call| call.receive_head(status, fields, end_stream));
                self.settle(stream, outcome, end_stream, now);
            }
            http2::Event::Data {
                stream,
                data,
                end_stream,
            } => {
                let call = find(&mut self.calls, stream);
                if call.as_ref().is_some_and(|call| call.is_streaming()) {
                    self.unread = Some(Unread {
                        stream,
                        octets: data.to_vec(),
                        taken: 0,
                        end_stream,
                    });
                    return true;
                }
                let octets = data.len();
                let outcome = call.and_then(|call| call.receive_data(data, end_stream));
                self.http2.consume(stream, octets, now);
                self.settle(stream, outcome, end_stream, now);
            }
            http2::Event::Trailers { stream, fields } => {
                let call = find(&mut self.calls, stream);
                let outcome = call.map(|call| call.receive_trailers(fields));
                self.settle(stream, outcome, true, now);
            }
            http2::Event::Reset {
                stream,
                code: ErrorCode::REFUSED_STREAM,
            } => {
                if let Some(index) = self.position(stream) {
                    self.refuse(index, now);
                }
            }
            http2::Event::Reset { stream, code } => {
                self.settle(stream, Some(Err(CallError::Reset(code))), true, now);
            }
            http2::Event::Failed { stream, error } => {
                self.settle(stream, Some(Err(CallError::Stream(error))), true, now);
            }
            // HTTP/2 shows requests to servers only.
            http2::Event::Request { .. } => {}
            http2::Event::GoAway { last_stream, .. } => self.refuse_above(last_stream, now),
            http2::Event::Closed(error) => self.lose(&error, now),
        }
        true
    }

    /// Ends the call on `stream`, if there is an outcome; `complete` when the server has nothing
    /// more to say on it: then nobody waits for the rest of the request, and ending it is no error.
    fn settle(&mut self, stream: StreamId, outcome: Option<Outcome>, complete: bool, now: Time) {
        if let (Some(index), Some(outcome)) = (self.position(stream), outcome) {
            let code = if complete {
                ErrorCode::NO_ERROR
            } else {
                ErrorCode::CANCEL
            };
            self.finish(index, outcome, code, now);
        }
    }

    /// Where the call on `stream` is.
    fn position(&self, stream: StreamId) -> Option<usize> {
        self.calls.position(|call| call.stream() == Some(stream))
    }

    /// Makes a call that the server has not looked at once more, at once, if there can be another
    /// stream for it; or else ends it.
    fn refuse(&mut self, index: usize, now: Time) {
        let call = self.calls.get_mut(index);
        let again = call.is_some_and(Call::begin_again);
        if !again || self.is_closed() {
            let error = CallError::Refused { again };
            self.finish(index, Err(error), ErrorCode::CANCEL, now);
        }
    }

    /// Ends the calls that a server which goes away will not look at.
    fn refuse_above(&mut self, last_stream: u32, now: Time) {
        let is_above = |call: &Call| call.stream().is_some_and(|id| id.get() > last_stream);
        while let Some(index) = self.calls.position(is_above) {
            self.refuse(index, now);
        }
    }

    /// Ends all calls with their connection.
    fn lose(&mut self, error: &ConnectionError, now: Time) {
        while let Some(call) = self.calls.get_mut(0) {
            let written = call.stream().is_some_and(|id| self.http2.was_written(id));
            let error = error.clone();
            let lost = CallError::Connection { error, written };
            self.finish(0, Err(lost), ErrorCode::CANCEL, now);
        }
    }

    /// Sends what the calls have to send and the connection takes.
    fn send(&mut self, now: Time) {
        let mut index = 0;
        while let Some(call) = self.calls.get_mut(index) {
            match call.send(&mut self.http2, now) {
                Ok(()) => index += 1,
                Err(error) => self.finish(index, Err(error), ErrorCode::CANCEL, now),
            }
        }
    }

    /// Ends a call; its stream, where it is still open, is reset with `code`.
    fn finish(&mut self, index: usize, outcome: Outcome, code: ErrorCode, now: Time) {
        let Some(call) = self.calls.remove(index) else {
            return;
        };
        if let Some(stream) = call.stream() {
            self.http2.reset(stream, code, now);
        }
        self.tell(&call, outcome);
    }

    /// Queues the news of a call's end.
    fn tell(&mut self, call: &Call, result: Outcome) {
        self.events.push(match call.shape {
            Shape::Unary => Event::Finished {
                call: call.id,
                result,
            },
            Shape::ServerStreaming => Event::Closed {
                call: call.id,
                result: result.map(|_| ()),
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
        self.send(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let deadlines = self.calls.iter().filter_map(|call| self.due(call));
        deadlines.chain(self.http2.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.http2.handle_timeout(now);
        while let Some(index) = self.late(now) {
            let error = CallError::DeadlineExceeded;
            self.finish(index, Err(error), ErrorCode::CANCEL, now);
        }
    }

    fn mem_used(&self) -> usize {
        let calls: usize = self.calls.iter().map(Call::mem_used).sum();
        self.http2.mem_used()
            + calls
            + self.calls.mem_used()
            + self.events.mem_used()
            + self
                .unread
                .as_ref()
                .map_or(0, |unread| unread.octets.capacity())
    }
}

/// The call on a stream.
fn find(calls: &mut Few<Call>, stream: StreamId) -> Option<&mut Call> {
    calls.iter_mut().find(|call| call.stream() == Some(stream))
}

//! The state machine of one end of a connection, client or server.
//!
//! `receive` has one function for each frame type; `send` has the methods by which the caller
//! sends.
//!
//! ```text
//!             preface             GOAWAY, shutdown()
//! Greeting -----------> Running ---------------------+
//!     |                    |                         |
//!     | no HTTP/2,         | a violation, EOF,       | the last
//!     | too late           | too late                | stream ends
//!     v                    v                         v
//! Ended { error } <--------+-------------------------+
//! ```
//!
//! An ended connection reads nothing more. It still writes what is queued, such as a GOAWAY with
//! the reason.

mod event;
mod receive;
mod send;

use std::ops::Range;
use std::time::Duration;

pub use self::event::Event;
pub use self::send::{HeadersError, OpenError, Taken};
use super::block::Block;
use super::deframer::Deframer;
use super::endpoint::Endpoint;
use super::error::{Awaited, ConnectionError, ErrorCode, GoAwayReceived};
use super::fields::Fields;
use super::flood::FloodGuard;
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::Head;
use super::frame_type::FrameType;
use super::outbox::Outbox;
use super::preface::{self, CLIENT_PREFACE};
use super::settings::{CLIENT_SETTINGS, INITIAL_WINDOW, Role, SERVER_SETTINGS, Settings};
use super::streams::Streams;
use crate::budget::spilled_octets;
use crate::config;
use crate::hpack::Decoder;
use crate::time::{self, Time};

/// One end of an HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    phase: Phase,
    input: Deframer,
    /// Whether the input has ended.
    eof: bool,
    /// The range of the last event's content within the payload of its frame.
    content: Range<usize>,
    outbox: Outbox,
    streams: Streams,
    /// The connection's window for what this end sends.
    send: SendWindow,
    /// The connection's window for what the peer sends.
    receive: ReceiveWindow,
    /// The peer's settings: the initial values before its first SETTINGS frame.
    peer: Settings,
    /// Whether the peer's first SETTINGS frame was received.
    is_settled: bool,
    /// The decoder of the peer's header blocks, kept for the whole life of the connection.
    decoder: Decoder,
    /// The fields of the last block.
    fields: Fields,
    /// An unfinished header block: until it is complete, no other frames are allowed.
    block: Option<Block>,
    flood: FloodGuard,
    goaway_received: Option<GoAwayReceived>,
    goaway_sent: bool,
    /// The last stream that was accepted from the peer, or 0; always 0 on a client, because pushes
    /// are refused.
    last_peer_stream: u32,
    /// The time at which the connection was made.
    began: Time,
    /// The time by which the peer's SETTINGS must have been received.
    handshake_deadline: Time,
    /// The last time at which octets were written, or none were waiting to be written.
    unread_since: Time,
    /// The latest time that a caller passed.
    now: Time,
}

/// The phase of a connection.
#[derive(Debug)]
enum Phase {
    /// The peer's connection preface is awaited.
    Greeting,
    /// Frames are exchanged.
    Running,
    /// The connection has ended.
    Ended {
        /// The reason.
        error: ConnectionError,
        /// Whether [`Event::Closed`] was delivered.
        is_delivered: bool,
    },
}

impl Connection {
    /// Returns the client's end of a connection that was just made. The preface is not written at
    /// once but waits in [`transmit`](Self::transmit), to be written together with the first
    /// request. The server has [`DIAL_TIMEOUT`](config::DIAL_TIMEOUT) for its SETTINGS, unless
    /// [`set_handshake_deadline`](Self::set_handshake_deadline) changes that.
    pub fn client(now: Time) -> Self {
        let outbox = Outbox::new(CLIENT_PREFACE, &CLIENT_SETTINGS);
        Self::new(Role::Client, outbox, now, config::DIAL_TIMEOUT)
    }

    /// Returns the server's end of a connection that was just accepted. The client has
    /// [`HANDSHAKE_TIMEOUT`](config::HANDSHAKE_TIMEOUT) for its preface and SETTINGS.
    pub fn server(now: Time) -> Self {
        let outbox = Outbox::new(b"", &SERVER_SETTINGS);
        Self::new(Role::Server, outbox, now, config::HANDSHAKE_TIMEOUT)
    }

    fn new(role: Role, outbox: Outbox, now: Time, handshake_timeout: Duration) -> Self {
        Self {
            role,
            phase: Phase::Greeting,
            input: Deframer::default(),
            eof: false,
            content: 0..0,
            outbox,
            streams: Streams::new(role),
            send: SendWindow::new(INITIAL_WINDOW),
            receive: ReceiveWindow::new(INITIAL_WINDOW),
            peer: Settings::default(),
            is_settled: false,
            // The initial value of SETTINGS_HEADER_TABLE_SIZE: a lower one is poorly supported.
            decoder: Decoder::new(4096),
            fields: Fields::default(),
            block: None,
            flood: FloodGuard::default(),
            goaway_received: None,
            goaway_sent: false,
            last_peer_stream: 0,
            began: now,
            handshake_deadline: now + handshake_timeout,
            unread_since: now,
            now,
        }
    }

    /// Sets the deadline for the peer's SETTINGS; has no effect once they were received.
    pub fn set_handshake_deadline(&mut self, at: Time) {
        self.handshake_deadline = at;
    }

    /// Returns the next event, or `None` until more is received or written, or a deadline passes;
    /// after [`Event::Closed`], always `None`.
    pub fn poll_event(&mut self, now: Time) -> Option<Event> {
        self.advance_time_to(now);
        loop {
            if let Phase::Ended {
                error,
                is_delivered,
            } = &mut self.phase
            {
                if std::mem::replace(is_delivered, true) {
                    return None;
                }
                let closed = Event::Closed(error.clone());
                (self.input, self.content) = (Deframer::default(), 0..0);
                return Some(closed);
            }
            match self.next_frame() {
                Ok(Some(head)) => {
                    // Taken out of `self`, so that `receive` can borrow the payload and change
                    // everything else.
                    let input = std::mem::take(&mut self.input);
                    let received = self.receive(head, input.payload());
                    self.input = input;
                    match received {
                        Ok(None) => {}
                        Ok(event) => return event,
                        Err(violation) => self.end_with(violation.into()),
                    }
                }
                Ok(None) => return None,
                Err(error) => self.end_with(error),
            }
        }
    }

    /// Returns the fields of the last event: [`Event::Request`], [`Event::Response`] or
    /// [`Event::Trailers`].
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Returns the content of the last event, which must be an [`Event::Data`]. After another
    /// event, the range of the content is out of date, and this may panic.
    pub fn content(&self) -> &[u8] {
        &self.input.payload()[self.content.clone()]
    }

    /// Returns whether the connection has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }

    /// Returns whether the connection has ended, or will end with its last stream after a GOAWAY.
    pub fn is_closing(&self) -> bool {
        self.is_ended() || self.goaway_received.is_some() || self.goaway_sent
    }

    /// Returns why the connection has ended or is closing, or `None` if neither.
    #[inline]
    pub fn close_reason(&self) -> Option<ConnectionError> {
        match (&self.phase, &self.goaway_received) {
            (Phase::Ended { error, .. }, _) => Some(error.clone()),
            (_, Some(gone)) => Some(ConnectionError::GoAwayReceived(gone.clone())),
            (_, None) => self.goaway_sent.then_some(ConnectionError::ShutDown),
        }
    }

    /// Returns the peer's settings, or `None` before its first SETTINGS frame.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.is_settled.then_some(&self.peer)
    }

    /// Advances the time, which never decreases. If nothing waits to be written, also restarts the
    /// time that the peer has to read.
    #[inline]
    fn advance_time_to(&mut self, now: Time) {
        self.now = self.now.max(now);
        if self.outbox.transmit().is_empty() {
            self.unread_since = self.now;
        }
    }

    /// Takes the next frame of the input, if the frame is complete and there is room for an answer.
    /// The error is the reason why the connection must end now.
    fn next_frame(&mut self) -> Result<Option<Head>, ConnectionError> {
        if self.streams.open.is_empty() {
            if let Some(error) = self.close_reason() {
                return Err(error);
            }
        }
        if !self.outbox.has_room_to_answer() {
            return Ok(None);
        }
        if matches!(self.phase, Phase::Greeting) && !self.take_preface()? {
            return Ok(None);
        }
        if let Some(head) = self.input.next()? {
            return Ok(Some(head));
        }
        self.fields.drop_if_large();
        if !self.eof {
            return Ok(None);
        }
        Err(match &self.goaway_received {
            // If the peer closes after a GOAWAY with an error, that error explains more than the
            // end of input.
            Some(gone) if gone.is_error() => ConnectionError::GoAwayReceived(gone.clone()),
            _ => ConnectionError::Eof {
                inside_frame: !self.input.untaken_octets().is_empty(),
            },
        })
    }

    /// Removes the peer's preface from the input, up to its SETTINGS; returns `false` if too few
    /// octets were received to recognise the preface.
    fn take_preface(&mut self) -> Result<bool, ConnectionError> {
        let octets = self.input.untaken_octets();
        let detected = match self.role {
            Role::Client => preface::detect_server_protocol(octets, self.eof),
            Role::Server => preface::detect_client_protocol(octets, self.eof),
        };
        let is_received = detected.map_err(ConnectionError::NotHttp2)?;
        if is_received {
            if matches!(self.role, Role::Server) {
                self.input.skip(CLIENT_PREFACE.len());
            }
            self.phase = Phase::Running;
        }
        Ok(is_received)
    }

    /// Ends the connection. After a violation or a timeout, a GOAWAY replaces the queued frames
    /// that are not begun; after EOF, or if the peer does not speak HTTP/2, all are dropped.
    fn end_with(&mut self, error: ConnectionError) {
        match &error {
            // RFC 9113 §3.4: "A GOAWAY frame [...] MAY be omitted in this case, since an invalid
            // preface indicates that the peer is not using HTTP/2."
            ConnectionError::NotHttp2(_) | ConnectionError::Eof { .. } => self.outbox.close(),
            ConnectionError::Violation(_) | ConnectionError::TimedOut(_) => {
                self.outbox.drop_queue();
                self.push_goaway(error.code());
            }
            ConnectionError::GoAwayReceived(_) | ConnectionError::ShutDown => {}
        }
        self.streams = Streams::new(self.role);
        self.block = None;
        self.fields = Fields::default();
        self.phase = Phase::Ended {
            error,
            is_delivered: false,
        };
    }

    /// Queues a GOAWAY without debug data: the code is enough for the peer, and the details are in
    /// the log of this end.
    fn push_goaway(&mut self, code: ErrorCode) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&self.last_peer_stream.to_be_bytes());
        payload[4..].copy_from_slice(&code.0.to_be_bytes());
        self.outbox.push(FrameType::GOAWAY, 0, 0, &payload);
    }

    /// Returns the deadlines of the peer for its SETTINGS, for the rest of a header block, and for
    /// reading what waits to be written.
    #[inline]
    fn deadlines(&self) -> [Option<Time>; 3] {
        let mut deadlines = [None; 3];
        if self.is_ended() {
            return deadlines;
        }
        if !self.is_settled {
            deadlines[0] = Some(self.handshake_deadline);
        }
        if let Some(block) = &self.block {
            deadlines[1] = Some(block.deadline);
        }
        if !self.outbox.transmit().is_empty() {
            deadlines[2] = Some(self.unread_since + config::PEER_TIMEOUT);
        }
        deadlines
    }

    /// Returns the time that the peer had for its SETTINGS, rounded to tenths of a second, so that
    /// two attempts that differ only in the time that dialing took report the same failure.
    fn handshake_time(&self) -> Duration {
        let within = self.handshake_deadline.saturating_since(self.began);
        let tenths = time::millis(within).saturating_add(50) / 100;
        Duration::from_millis(tenths * 100)
    }
}

impl Endpoint for Connection {
    fn recv_buf(&mut self) -> &mut [u8] {
        if self.is_ended() || self.eof || !self.outbox.has_room_to_answer() {
            return &mut [];
        }
        self.input.recv_buf()
    }

    fn received(&mut self, octets: usize, now: Time) {
        self.advance_time_to(now);
        self.input.received(octets);
    }

    fn eof(&mut self, now: Time) {
        self.advance_time_to(now);
        self.outbox.close();
        self.eof = true;
    }

    fn transmit(&self) -> &[u8] {
        self.outbox.transmit()
    }

    fn sent(&mut self, octets: usize, now: Time) {
        self.advance_time_to(now);
        self.outbox.sent(octets);
        if octets > 0 {
            self.unread_since = self.now;
        }
    }

    fn has_work(&self) -> bool {
        let is_going = self.goaway_sent || self.goaway_received.is_some();
        let is_closing = if let Phase::Ended { is_delivered, .. } = self.phase {
            !is_delivered
        } else {
            is_going && self.streams.open.is_empty()
        };
        is_closing || !self.transmit().is_empty() || self.input.has_frame()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.deadlines().into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.advance_time_to(now);
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        // If several deadlines have passed, because the caller is late, the first of these counts.
        let awaited = match self.deadlines().map(is_due) {
            [true, _, _] => Awaited::Settings {
                within: self.handshake_time(),
            },
            [_, true, _] => Awaited::HeaderBlock,
            [_, _, true] => Awaited::Reading,
            [false, false, false] => return,
        };
        self.end_with(ConnectionError::TimedOut(awaited));
    }

    fn mem_used(&self) -> usize {
        let debug = self.goaway_received.as_ref();
        self.input.octets.capacity()
            + self.outbox.octets.capacity()
            + spilled_octets(&self.streams.open)
            + self.decoder.mem_used()
            + self.fields.mem_used()
            + self.block.as_ref().map_or(0, |it| it.octets.capacity())
            + debug.map_or(0, |gone| gone.debug.capacity())
    }
}

#[cfg(test)]
mod tests;

//! A stream of octets has the same effect as a whole and in pieces: the same events, and the same
//! octets written.
//!
//! This target needs no oracle: the connection is compared with itself. An input is a role, the
//! number of open requests, the sizes of the pieces, and what the peer sends.

use std::fmt::Write as _;

use plugind::http2::{Connection, ConnectionError, Endpoint as _, Event, OtherProtocol, StreamId};
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::listener::Listener;

/// Both ends of a connection, each with its listener.
const ROLES: [Role; 2] = [
    (Connection::client, Listener::client),
    (Connection::server, Listener::server),
];

/// The constructors of one end of a connection and of its listener.
type Role = (fn(Time) -> Connection, fn() -> Listener);

/// Plays the octets as a whole and in pieces.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let role = input.pick(&ROLES);
    let requests = input.below(4);
    let count = input.below(8);
    let pieces = input.take(count);
    let octets = input.rest();
    let whole = Play::run(role, requests, &[], octets);
    let cut = Play::run(role, requests, pieces, octets);
    assert_eq!(whole.told, cut.told, "the events");
    whole.assert_wrote_like(&cut);
}

/// One end of a connection, and what it has emitted and written.
struct Play {
    connection: Connection,
    /// A line for each event; the content of DATA is in `content`.
    told: String,
    content: Vec<u8>,
    /// Everything that was written.
    wrote: Vec<u8>,
    listener: Listener,
    /// Whether the connection ended with GOAWAY, for which queued octets are dropped.
    sent_goaway: bool,
}

impl Play {
    fn run((connection, listener): Role, requests: usize, pieces: &[u8], octets: &[u8]) -> Self {
        let mut play = Self {
            connection: connection(Time::ZERO),
            told: String::new(),
            content: Vec::new(),
            wrote: Vec::new(),
            listener: listener(),
            sent_goaway: false,
        };
        for request in 0..requests {
            let fields: [(&str, &[u8]); 1] = [(":method", b"POST")];
            let _ = play.connection.open(&fields, request % 2 == 0, Time::ZERO);
        }
        play.write();
        let mut rest = octets;
        for size in pieces.iter().cycle().take(octets.len()) {
            let (piece, behind) = rest.split_at(rest.len().min(1 + usize::from(*size)));
            play.feed(piece);
            rest = behind;
        }
        play.feed(rest);
        play.connection.eof(Time::ZERO);
        play.poll();
        assert!(
            play.connection.is_ended(),
            "the connection ends at the end of the stream"
        );
        play
    }

    /// Feeds a piece to the connection, unless that has ended.
    fn feed(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() && !self.connection.is_ended() {
            let octets = self.connection.receive_from(piece, Time::ZERO);
            assert!(
                octets > 0,
                "everything is polled and written, but nothing is read"
            );
            piece = &piece[octets..];
            self.poll();
        }
    }

    /// Handles all events, and writes after each, so that the two plays write at the same times.
    fn poll(&mut self) {
        loop {
            let is_event = self.poll_event();
            let memory = self.connection.mem_used();
            assert!(memory <= CONNECTION_BOUND, "{memory} octets");
            let has_written = self.write();
            if !is_event && !has_written {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> bool {
        match self.connection.poll_event(Time::ZERO) {
            None => return false,
            Some(Event::Data { stream, end_stream }) => {
                let octets = self.connection.content().len();
                writeln!(self.told, "data {stream} {octets} {end_stream}").expect("a string");
                self.content.extend(self.connection.content());
                self.connection.consume(stream, octets, Time::ZERO);
            }
            // The quotation of what is not HTTP/2 depends on how much was received: it is for
            // readers only.
            Some(Event::Closed(ConnectionError::NotHttp2(OtherProtocol::Other(_)))) => {
                self.told.push_str("no HTTP/2");
            }
            Some(Event::Request { stream, .. }) => {
                let fields = self.connection.fields();
                writeln!(self.told, "request {stream} {fields:?}").expect("a string");
                self.answer(stream);
            }
            Some(event) => {
                use ConnectionError::{TimedOut, Violation};
                self.sent_goaway |= matches!(event, Event::Closed(Violation(_) | TimedOut(_)));
                writeln!(self.told, "{event:?}").expect("a string");
            }
        }
        true
    }

    /// Answers a request at once, in one of three ways.
    fn answer(&mut self, stream: StreamId) {
        let fields: [(&str, &[u8]); 1] = [(":status", b"200")];
        let has_content = stream.get() % 3 != 0;
        let sent = self
            .connection
            .send_headers(stream, &fields, !has_content, Time::ZERO);
        let is_over = stream.get() % 3 == 1;
        if sent.is_ok() && has_content {
            self.connection
                .send_data(stream, b"an answer", is_over, Time::ZERO);
        }
    }

    /// Writes everything. Returns whether there was anything.
    fn write(&mut self) -> bool {
        let octets = self.connection.transmit();
        let length = octets.len();
        self.listener.hear(octets);
        assert!(
            self.listener.is_between_frames(),
            "frames are written whole"
        );
        self.wrote.extend(octets);
        self.connection.sent(length, Time::ZERO);
        length > 0
    }

    /// Compares the octets written and all content.
    ///
    /// GOAWAY drops answers that are not written yet, and their number depends on how much was read
    /// at a time: in either play, the last of them may be missing before GOAWAY.
    fn assert_wrote_like(&self, cut: &Self) {
        assert_eq!(self.content, cut.content, "the content");
        if !self.sent_goaway {
            assert_eq!(self.wrote, cut.wrote, "what was written");
            return;
        }
        let (before, goaway) = self.wrote.split_at(self.wrote.len() - GOAWAY);
        let (cut_before, cut_goaway) = cut.wrote.split_at(cut.wrote.len() - GOAWAY);
        let common = before.len().min(cut_before.len());
        assert_eq!(before[..common], cut_before[..common], "what was written");
        assert_eq!(goaway, cut_goaway, "the GOAWAY");
    }
}

/// The length of our GOAWAY (octets).
const GOAWAY: usize = 17;

//! A stream of octets is the same, whole or in pieces: the same events, the same octets written.
//!
//! No oracle is needed: the machine is held against itself. An input is a role, how many requests
//! are under way, the sizes of the pieces, and what the peer sends.

use std::fmt::Write as _;

use plugind::http2::{Connection, ConnectionError, Endpoint as _, Event, Preamble, StreamId};
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::listener::Listener;

/// Whose end of the connection is played with, and who listens to it.
const ROLES: [Role; 2] = [
    (Connection::client, Listener::client),
    (Connection::server, Listener::server),
];

/// One end of a connection and a listener, when both are new.
type Role = (fn(Time) -> Connection, fn() -> Listener);

/// Plays the octets whole and in pieces.
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

/// One end of a connection, and what became of it.
struct Play {
    connection: Connection,
    /// Every event in words, and all content.
    told: String,
    content: Vec<u8>,
    /// Everything that was written.
    wrote: Vec<u8>,
    listener: Listener,
    /// Whether the connection ended with a goodbye, for which what was queued is dropped.
    said_goodbye: bool,
}

impl Play {
    fn run((connection, listener): Role, requests: usize, pieces: &[u8], octets: &[u8]) -> Self {
        let mut play = Self {
            connection: connection(Time::ZERO),
            told: String::new(),
            content: Vec::new(),
            wrote: Vec::new(),
            listener: listener(),
            said_goodbye: false,
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
        assert!(play.connection.is_ended(), "nothing more can come");
        play
    }

    /// Lets the connection read a piece, unless it has ended.
    fn feed(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() && !self.connection.is_ended() {
            let octets = self.connection.receive_from(piece, Time::ZERO);
            assert!(octets > 0, "all is polled and written, and nothing is read");
            piece = &piece[octets..];
            self.poll();
        }
    }

    /// Takes all events, and writes after each, so that the two plays write at the same moments.
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
            Some(Event::Data {
                stream,
                data,
                end_stream,
            }) => {
                let octets = data.len();
                writeln!(self.told, "data {stream} {octets} {end_stream}").expect("a string");
                self.content.extend(data);
                self.connection.consume(stream, octets, Time::ZERO);
            }
            // How much is quoted of what is no HTTP/2 is how much had come: it is for humans.
            Some(Event::Closed(ConnectionError::NotHttp2(Preamble::Other(_)))) => {
                self.told.push_str("no HTTP/2");
            }
            Some(Event::Request { stream, fields, .. }) => {
                writeln!(self.told, "request {stream} {fields:?}").expect("a string");
                self.answer(stream);
            }
            Some(event) => {
                use ConnectionError::{TimedOut, Violation};
                self.said_goodbye |= matches!(event, Event::Closed(Violation(_) | TimedOut(_)));
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

    /// Writes everything; answers whether there was anything.
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

    /// Compares what was written and all content.
    ///
    /// A goodbye drops answers that were not yet written, and how many that are depends on how much
    /// was read at a time: the last of them may be missing in front of it, here or there.
    fn assert_wrote_like(&self, cut: &Self) {
        assert_eq!(self.content, cut.content, "the content");
        if !self.said_goodbye {
            assert_eq!(self.wrote, cut.wrote, "what was written");
            return;
        }
        let (before, goodbye) = self.wrote.split_at(self.wrote.len() - GOODBYE);
        let (cut_before, cut_goodbye) = cut.wrote.split_at(cut.wrote.len() - GOODBYE);
        let common = before.len().min(cut_before.len());
        assert_eq!(before[..common], cut_before[..common], "what was written");
        assert_eq!(goodbye, cut_goodbye, "the goodbye");
    }
}

/// How long our GOAWAY is (octets).
const GOODBYE: usize = 17;

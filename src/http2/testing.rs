//! A peer for tests that sends octets written by hand, and describes what it receives in words.

pub(crate) use super::Endpoint;
use super::error::ErrorCode;
use super::{Connection, Event, StreamId};
use crate::hpack::{Decoder, Encoder};
use crate::time::Time;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

/// The first two streams that a client opens.
pub(crate) const ONE: u32 = 1;
pub(crate) const THREE: u32 = 3;

/// The client connection preface, without its SETTINGS frame.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The headers of a request.
pub(crate) const REQUEST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/a.B/C"),
    (":authority", "localhost"),
];

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length");
    let [_, l1, l2, l3] = length.to_be_bytes();
    let mut octets = vec![l1, l2, l3, kind, flags];
    octets.extend(stream.to_be_bytes());
    octets.extend(payload);
    octets
}

pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let mut encoder = Encoder::begin(&mut block);
    for (name, value) in fields {
        encoder.field(name, value);
    }
    block
}

/// Returns a HEADERS frame with a whole header block.
pub(crate) fn headers(stream: u32, fields: &[(&str, &str)], end_stream: bool) -> Vec<u8> {
    let flags = END_HEADERS | u8::from(end_stream);
    frame(HEADERS, flags, stream, &block(fields))
}

/// Returns a HEADERS frame with the headers of a request.
pub(crate) fn request(stream: u32, end_stream: bool) -> Vec<u8> {
    headers(stream, &REQUEST, end_stream)
}

/// Returns a HEADERS frame with the headers of a response whose content follows.
pub(crate) fn ok(stream: u32) -> Vec<u8> {
    let fields = [(":status", "200"), ("content-type", "application/grpc")];
    headers(stream, &fields, false)
}

pub(crate) fn data(stream: u32, content: &[u8], end_stream: bool) -> Vec<u8> {
    frame(DATA, u8::from(end_stream), stream, content)
}

pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (id, value) in values {
        payload.extend(id.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    frame(SETTINGS, 0, 0, &payload)
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(crate) fn ping(mark: u8) -> Vec<u8> {
    frame(PING, 0, 0, &[mark; 8])
}

pub(crate) fn goaway(last_stream: u32, code: u32, debug: &[u8]) -> Vec<u8> {
    let mut payload = last_stream.to_be_bytes().to_vec();
    payload.extend(code.to_be_bytes());
    payload.extend(debug);
    frame(GOAWAY, 0, 0, &payload)
}

/// Describes the octets that were written, one line per frame.
pub(crate) fn frames_in(mut octets: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(rest) = octets.strip_prefix(PREFACE) {
        lines.push("preface".to_owned());
        octets = rest;
    }
    while let [l1, l2, l3, kind, flags, s1, s2, s3, s4, rest @ ..] = octets {
        let length = u32::from_be_bytes([0, *l1, *l2, *l3]) as usize;
        let stream = u32::from_be_bytes([*s1, *s2, *s3, *s4]);
        let (payload, rest) = rest.split_at(length);
        lines.push(describe_frame(*kind, *flags, stream, payload));
        octets = rest;
    }
    assert!(octets.is_empty(), "frames are written whole");
    lines
}

/// Returns the fields of all header blocks that were written, each in one HEADERS frame.
pub(crate) fn fields_in(mut octets: &[u8]) -> Vec<String> {
    let mut fields = Vec::new();
    while let [l1, l2, l3, kind, _, _, _, _, _, rest @ ..] = octets {
        let (payload, rest) = rest.split_at(u32::from_be_bytes([0, *l1, *l2, *l3]) as usize);
        if *kind == HEADERS {
            let decoded = Decoder::new(4096).decode(payload, &mut |name, value| {
                let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
                fields.push(format!("{}: {}", text(name), text(value)));
            });
            decoded.expect("it decodes");
        }
        octets = rest;
    }
    fields
}

/// Describes a frame in words.
fn describe_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> String {
    let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four"));
    let end = if flags & END_STREAM == 0 { "" } else { " end" };
    match kind {
        DATA => format!("DATA {stream} {}{end}", payload.len()),
        HEADERS => format!("HEADERS {stream}{end}"),
        RST_STREAM => format!("RST_STREAM {stream} {}", ErrorCode(number(0))),
        SETTINGS if flags & ACK != 0 => "SETTINGS ack".to_owned(),
        SETTINGS => format!("SETTINGS of {}", payload.len() / 6),
        PING if flags & ACK != 0 => format!("PING ack {}", payload[0]),
        GOAWAY => format!("GOAWAY {} {}", number(0), ErrorCode(number(4))),
        WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {}", number(0)),
        _ => format!("frame {kind} on {stream}"),
    }
}

/// Describes an event in words.
fn describe_event(event: &Event, connection: &Connection) -> String {
    match event {
        Event::Request { stream, end_stream } => {
            format!("request {stream}{}", end_suffix(*end_stream))
        }
        Event::Response {
            stream,
            status,
            end_stream,
        } => format!("head {stream} {status}{}", end_suffix(*end_stream)),
        Event::Data { stream, end_stream } => {
            let octets = connection.content().len();
            format!("data {stream} {octets}{}", end_suffix(*end_stream))
        }
        Event::Trailers { stream } => format!("trailers {stream}"),
        Event::Reset { stream, code } => format!("reset {stream} {code}"),
        Event::Failed { stream, error } => format!("failed {stream} {}: {error}", error.code()),
        Event::GoAway { last_stream, code } => format!("goaway {last_stream} {code}"),
        Event::Closed(error) => format!("closed {}: {error}", error.code()),
    }
}

fn end_suffix(end_stream: bool) -> &'static str {
    if end_stream { " end" } else { "" }
}

/// A count of the octets that were moved, taken or decoded, with which a test checks that a peer
/// cannot cause the same octets to be processed again and again.
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        static DONE: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn count(octets: usize) {
        DONE.set(DONE.get() + octets);
    }

    /// Returns the count since the last call.
    pub(crate) fn take() -> usize {
        DONE.take()
    }
}

/// A connection under test, and the peer that drives it.
pub(crate) struct Peer {
    pub(crate) machine: Connection,
    pub(crate) now: Time,
    /// Whether received DATA is consumed at once.
    pub(crate) consumes: bool,
    /// The maximum number of octets of memory that the connection held after an event.
    pub(crate) peak: usize,
}

impl Peer {
    /// Returns a server to which the client under test has just connected.
    pub(crate) fn server() -> Self {
        let now = Time::ZERO;
        Self {
            machine: Connection::client(now),
            now,
            consumes: true,
            peak: 0,
        }
    }

    /// Returns a client that has sent its preface and these settings to the server under test.
    pub(crate) fn client_with_settings(values: &[(u16, u32)]) -> Self {
        let mut peer = Self::client();
        let greeting = [PREFACE, &settings(values)].concat();
        assert!(peer.send(&greeting).is_empty());
        assert_eq!(peer.receive(), ["SETTINGS of 2", "SETTINGS ack"]);
        peer
    }

    /// Returns a client that has just connected to the server under test.
    pub(crate) fn client() -> Self {
        let mut peer = Self::server();
        peer.machine = Connection::server(peer.now);
        peer
    }

    /// Returns a server that has received the preface of the client under test, and has sent these
    /// settings.
    pub(crate) fn server_with_settings(values: &[(u16, u32)]) -> Self {
        let mut peer = Self::server();
        assert!(peer.send(&settings(values)).is_empty());
        assert_eq!(
            peer.receive(),
            ["preface", "SETTINGS of 2", "SETTINGS ack"],
            "the client greets"
        );
        peer
    }

    /// Returns a server that has received this many complete requests without content from the
    /// client under test.
    pub(crate) fn server_with_requests(requests: usize) -> Self {
        let mut peer = Self::server_with_settings(&[]);
        for _ in 0..requests {
            peer.open(true);
        }
        peer.receive();
        peer
    }

    /// Makes the client under test open a stream.
    pub(crate) fn open(&mut self, end_stream: bool) -> StreamId {
        let fields: [(&str, &[u8]); 1] = [(":method", b"POST")];
        self.machine
            .open(&fields, end_stream, self.now)
            .expect("a stream can be opened")
    }

    /// Sends octets to the connection; returns its events.
    ///
    /// Octets for which the connection has no room are lost.
    pub(crate) fn send(&mut self, mut octets: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        loop {
            let n = self.machine.receive_from(octets, self.now);
            octets = &octets[n..];
            let before = events.len();
            self.poll_events(&mut events);
            if octets.is_empty() || (n == 0 && events.len() == before) {
                return events;
            }
        }
    }

    /// Sends `octets` up to `times` times and reads what the connection writes, until the
    /// connection has ended; returns its events.
    pub(crate) fn flood(&mut self, octets: &[u8], times: usize) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..times {
            events.extend(self.send(octets));
            if self.machine.is_ended() {
                break;
            }
            self.receive();
        }
        events
    }

    /// Reads and describes everything that the connection writes.
    pub(crate) fn receive(&mut self) -> Vec<String> {
        let octets = self.machine.transmit().to_vec();
        self.machine.sent(octets.len(), self.now);
        frames_in(&octets)
    }

    /// Closes the connection; returns its events.
    pub(crate) fn close(&mut self) -> Vec<String> {
        self.machine.eof(self.now);
        self.send(b"")
    }

    /// Advances the time; returns the events of the connection.
    pub(crate) fn wait(&mut self, millis: u64) -> Vec<String> {
        self.now += std::time::Duration::from_millis(millis);
        self.machine.handle_timeout(self.now);
        self.send(b"")
    }

    fn poll_events(&mut self, events: &mut Vec<String>) {
        while let Some(event) = self.machine.poll_event(self.now) {
            events.push(describe_event(&event, &self.machine));
            if let Event::Data { stream, .. } = event {
                if self.consumes {
                    let octets = self.machine.content().len();
                    self.machine.consume(stream, octets, self.now);
                }
            }
            self.peak = self.peak.max(self.machine.mem_used());
        }
        self.peak = self.peak.max(self.machine.mem_used());
    }
}

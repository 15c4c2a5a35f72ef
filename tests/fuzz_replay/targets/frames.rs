//! One frame, of any kind and form: what it must lead to is read off RFC 9113 §6 a second time.
//!
//! An input is a frame; it comes to a client that has asked one thing, before or after the head of
//! the answer. The verdict here is a table of what each section says about lengths, streams and
//! values. A frame with padding, a priority or flags that mean nothing must do what the same frame
//! does without them.

use plugind::http2::{Connection, ConnectionError, Endpoint as _, Event, StreamId};
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::wire::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING,
    PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, WITH_PRIORITY,
};

/// Plays one frame, and holds what it does to the verdict.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let is_answered = input.coin();
    let frame = Frame {
        kind: input.pick(&KINDS),
        flags: input.octet(),
        stream: input.pick(&STREAMS),
        payload: input.rest(),
    };
    if frame.payload.len() > LARGEST {
        return;
    }
    let played = play(is_answered, &frame);
    match frame.verdict(is_answered) {
        Verdict::Class(class) => assert_eq!(played.class, class, "{frame:?}: {played:?}"),
        Verdict::Like(plain) => assert_eq!(played, play(is_answered, &plain), "{frame:?}"),
        Verdict::Either => {}
    }
    if frame.kind == PING && frame.flags & ACK == 0 && played.class == Class::Fine {
        assert_eq!(played.wrote, wire::frame(PING, ACK, 0, frame.payload));
    }
}

/// A frame as it stands on the wire.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    kind: u8,
    flags: u8,
    /// With the reserved bit.
    stream: u32,
    payload: &'a [u8],
}

/// What a frame must do.
enum Verdict<'a> {
    Class(Class),
    /// What this plainer one does.
    Like(Frame<'a>),
    /// What its header block says, which other targets judge.
    Either,
}

/// Whom a frame harms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Fine,
    StreamError,
    ConnectionError,
}

/// What a frame did.
#[derive(Debug, PartialEq, Eq)]
struct Played {
    class: Class,
    told: Vec<String>,
    wrote: Vec<u8>,
}

impl<'a> Frame<'a> {
    /// What the frame must do to a client whose one stream is open.
    fn verdict(&self, is_answered: bool) -> Verdict<'a> {
        use Class::{ConnectionError, Fine, StreamError};
        let stream = self.stream & !RESERVED;
        let number = self.number();
        let is_ours = stream == OPEN;
        Verdict::Class(match (self.kind, stream, self.payload.len()) {
            (PUSH_PROMISE | CONTINUATION, ..) => ConnectionError,
            (DATA | HEADERS, ..) if !is_ours => ConnectionError,
            (DATA | HEADERS, ..) => return self.message_verdict(is_answered),
            (PRIORITY, 1.., 5) => Fine,
            (PRIORITY, ..) => ConnectionError,
            (RST_STREAM, OPEN, 4) => Fine,
            (RST_STREAM, ..) => ConnectionError,
            (SETTINGS, 0, 0) => Fine,
            (SETTINGS, 0, length) if self.flags & ACK == 0 && length % 6 == 0 => self.settings(),
            (SETTINGS, ..) => ConnectionError,
            (PING, 0, 8) => Fine,
            (PING, ..) => ConnectionError,
            (GOAWAY, 0, 8..) if number % 2 == 1 || number == 0 => Fine,
            (GOAWAY, ..) => ConnectionError,
            (WINDOW_UPDATE, 0 | OPEN, 4) if (1..=WINDOW_LEFT).contains(&number) => Fine,
            (WINDOW_UPDATE, OPEN, 4) => StreamError,
            (WINDOW_UPDATE, ..) => ConnectionError,
            _ => Fine,
        })
    }

    /// What DATA and HEADERS must do on the open stream.
    fn message_verdict(&self, is_answered: bool) -> Verdict<'a> {
        let meant = END_STREAM | if self.kind == HEADERS { END_HEADERS } else { 0 };
        let Some(content) = self.content() else {
            return Verdict::Class(Class::ConnectionError);
        };
        if self.flags & !meant != 0 || self.stream & RESERVED != 0 {
            return Verdict::Like(Self {
                flags: self.flags & meant,
                stream: OPEN,
                payload: content,
                ..*self
            });
        }
        match self.kind {
            DATA if is_answered => Verdict::Class(Class::Fine),
            DATA => Verdict::Class(Class::StreamError),
            _ if self.flags & END_HEADERS == 0 => Verdict::Class(Class::Fine),
            _ => Verdict::Either,
        }
    }

    /// The payload without padding and priority, if these fit.
    fn content(&self) -> Option<&'a [u8]> {
        let mut content = self.payload;
        if self.flags & PADDED != 0 {
            let (&padding, rest) = content.split_first()?;
            content = rest.get(..rest.len().checked_sub(padding.into())?)?;
        }
        if self.kind == HEADERS && self.flags & WITH_PRIORITY != 0 {
            content = content.get(5..)?;
        }
        Some(content)
    }

    /// What SETTINGS with these values must do: RFC 9113 §6.5.2, and our limit of 32 values.
    fn settings(&self) -> Class {
        let is_fine = |entry: &[u8]| {
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            match u16::from_be_bytes([entry[0], entry[1]]) {
                // A server must not say 1; it may say that it will not push.
                2 => value == 0,
                4 => value < 1 << 31,
                5 => (1 << 14..1 << 24).contains(&value),
                _ => true,
            }
        };
        let mut values = self.payload.chunks(6);
        if values.len() <= 32 && values.all(is_fine) {
            Class::Fine
        } else {
            Class::ConnectionError
        }
    }

    /// The first four octets without the reserved bit.
    fn number(&self) -> u32 {
        let first = self.payload.first_chunk().copied();
        u32::from_be_bytes(first.unwrap_or_default()) & !RESERVED
    }
}

/// Lets a frame come to a client with one open stream.
fn play(is_answered: bool, frame: &Frame<'_>) -> Played {
    let mut client = Connection::client(Time::ZERO);
    let fields: [(&str, &[u8]); 1] = [(":method", b"POST")];
    let stream = client.open(&fields, false, Time::ZERO).map(StreamId::get);
    assert_eq!(stream, Ok(OPEN));
    feed(&mut client, &wire::settings(&[]));
    if is_answered {
        feed(
            &mut client,
            &wire::headers(OPEN, &[(b":status", b"200")], 0),
        );
    }
    client.sent(client.transmit().len(), Time::ZERO);
    let octets = wire::frame(frame.kind, frame.flags, frame.stream, frame.payload);
    let (class, told) = feed(&mut client, &octets);
    let wrote = client.transmit().to_vec();
    Played { class, told, wrote }
}

/// Lets a client read, and tells what happened.
fn feed(client: &mut Connection, mut octets: &[u8]) -> (Class, Vec<String>) {
    let mut class = Class::Fine;
    let mut told = Vec::new();
    while !octets.is_empty() && !client.is_ended() {
        let count = client.receive_from(octets, Time::ZERO);
        assert!(count > 0, "a client reads");
        octets = &octets[count..];
        while let Some(event) = client.poll_event(Time::ZERO) {
            match event {
                Event::Closed(ConnectionError::Violation(_)) => class = Class::ConnectionError,
                Event::Failed { .. } => class = Class::StreamError,
                _ => {}
            }
            told.push(format!("{event:?}"));
        }
        assert!(client.mem_used() <= CONNECTION_BOUND);
    }
    (class, told)
}

/// All kinds that there are, and two that there are not.
const KINDS: [u8; 12] = [
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION,
    0xa,
    0xff,
];

/// None, ours, one of the server's, one that is idle; and two of them with the reserved bit.
const STREAMS: [u32; 6] = [0, OPEN, 2, 3, RESERVED, RESERVED | OPEN];

/// The client's one stream.
const OPEN: u32 = 1;

/// RFC 9113 §4.1: "Reserved: A reserved 1-bit field. [...] MUST be ignored when receiving."
const RESERVED: u32 = 1 << 31;

/// By how much a window of 65,535 octets can grow.
const WINDOW_LEFT: u32 = (1 << 31) - 1 - 65_535;

/// The largest payload that is played (octets).
const LARGEST: usize = 16_384;

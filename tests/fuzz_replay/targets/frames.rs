//! One frame, of any type and form: the expected effect is derived from RFC 9113 §6 a second time.
//!
//! An input is a frame, which is sent to a client with one open request, before or after the
//! headers of the answer. The verdict here is a table of what each section requires of lengths,
//! streams and values. A frame with padding, a priority or meaningless flags must have the effect
//! of the same frame without them.

use plugind::http2::{Connection, ConnectionError, Endpoint as _, Event, StreamId};
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::wire::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, LARGEST_FRAME, PADDED,
    PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, WITH_PRIORITY,
};

/// Plays one frame, and compares its effect with the verdict.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let is_answered = input.coin();
    let frame = Frame {
        kind: input.pick(&KINDS),
        flags: input.octet(),
        stream: input.pick(&STREAMS),
        payload: input.rest(),
    };
    if frame.payload.len() > LARGEST_FRAME {
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

/// A frame as it is sent.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    kind: u8,
    flags: u8,
    /// The stream ID, with the reserved bit.
    stream: u32,
    payload: &'a [u8],
}

/// The required effect of a frame.
enum Verdict<'a> {
    Class(Class),
    /// The effect of this plainer frame.
    Like(Frame<'a>),
    /// The effect depends on the header block, which other targets check.
    Either,
}

/// The scope of the error that a frame causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Fine,
    StreamError,
    ConnectionError,
}

/// The effect of a frame.
#[derive(Debug, PartialEq, Eq)]
struct Played {
    class: Class,
    told: Vec<String>,
    wrote: Vec<u8>,
}

impl<'a> Frame<'a> {
    /// Returns the required effect on a client with one open stream.
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

    /// Returns the required effect of DATA and HEADERS on the open stream.
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

    /// Returns the payload without padding and priority, or `None` if these do not fit.
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

    /// Returns the required effect of SETTINGS: RFC 9113 §6.5.2, and our limit of 32 values.
    fn settings(&self) -> Class {
        let is_fine = |entry: &[u8]| {
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            match u16::from_be_bytes([entry[0], entry[1]]) {
                // A server must not send 1; it may send 0.
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

    /// Returns the first four octets as a number, without the reserved bit.
    fn number(&self) -> u32 {
        let first = self.payload.first_chunk().copied();
        u32::from_be_bytes(first.unwrap_or_default()) & !RESERVED
    }
}

/// Sends a frame to a client with one open stream. Returns the effect.
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

/// Feeds octets to a client. Returns the class of the effect, and the events.
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
            if let Event::Response { .. } | Event::Trailers { .. } = event {
                told.push(format!("{:?}", client.fields()));
            }
            if let Event::Data { .. } = event {
                told.push(format!("{:?}", client.content()));
            }
        }
        assert!(client.mem_used() <= CONNECTION_BOUND);
    }
    (class, told)
}

/// All frame types, of which CONTINUATION is the last, and two unknown ones.
const KINDS: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, CONTINUATION, 0xa, 0xff];

/// Stream 0, ours, one of the server's, an idle one; and two of them with the reserved bit.
const STREAMS: [u32; 6] = [0, OPEN, 2, 3, RESERVED, RESERVED | OPEN];

/// The client's only stream.
const OPEN: u32 = 1;

/// RFC 9113 §4.1: "Reserved: A reserved 1-bit field. [...] MUST be ignored when receiving."
const RESERVED: u32 = 1 << 31;

/// The most by which a window of 65,535 octets can grow.
const WINDOW_LEFT: u32 = (1 << 31) - 1 - 65_535;

//! A server's end of a connection through any sequence of frames, answers, partial writes and
//! times.
//!
//! An input is a [script](super::script): one operation after the other. The client is [`wire`].
//! Whatever happens:
//!
//! - every request is emitted once, in the order of the streams, and nothing of it after its end;
//! - no more content of a request is emitted than its window allows until some is consumed;
//! - the connection holds no more than its bound, and its end is emitted once, as the last event.

use std::collections::{BTreeMap, BTreeSet};

use plugind::http2::{Connection, ErrorCode, Event, StreamId};
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::script::{SETTING_IDS, SIZES, Script, Stage, VALUES, WAITS, bomb, pieces};
use super::wire::{
    self, ACK, DATA, END_STREAM, GOAWAY, LARGEST_FRAME, PADDED, PING, PRIORITY, RST_STREAM,
    SETTINGS, WINDOW_UPDATE,
};

/// Plays a script.
pub fn check(bytes: &[u8]) {
    let play = Play {
        stage: Stage::server(Connection::server(Time::ZERO)),
        requests: BTreeMap::new(),
        answered: BTreeSet::new(),
        unconsumed: Vec::new(),
        next: 1,
        is_closed: false,
    };
    play.play(bytes);
}

/// A server, its client, and the events so far.
struct Play {
    stage: Stage<Connection>,
    /// The requests that were emitted, and whether more of them may arrive.
    requests: BTreeMap<StreamId, bool>,
    /// The requests whose answer has begun.
    answered: BTreeSet<StreamId>,
    /// The content that was emitted and not consumed.
    unconsumed: Vec<(StreamId, usize)>,
    /// The stream of the client's next request.
    next: u32,
    /// Whether the end was emitted.
    is_closed: bool,
}

impl Script for Play {
    type Machine = Connection;

    fn stage(&mut self) -> &mut Stage<Connection> {
        &mut self.stage
    }

    fn operation(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 => self.write(input.octet().into()),
            1 => self.write(usize::MAX),
            2 => self.read(input.octet().into()),
            3 => self.wait(input.time(&WAITS)),
            4 => self.wait_for_deadline(),
            5 => self.poll(input.below(4)),
            6 => self.consume(),
            7 if input.below(16) == 0 => self.stage.machine.shutdown(self.stage.now),
            8 | 9 => self.answer(input),
            10 => self.request(input),
            _ => {
                let frame = frame(self.next, input);
                self.hear(&frame, input);
            }
        }
    }

    fn poll_event(&mut self) -> bool {
        let Some(event) = self.stage.machine.poll_event(self.stage.now) else {
            return false;
        };
        assert!(!self.is_closed, "{event:?} after the end");
        match event {
            Event::Request {
                stream, end_stream, ..
            } => {
                let last = self.requests.last_key_value();
                assert!(last.is_none_or(|(last, _)| *last < stream));
                self.requests.insert(stream, !end_stream);
            }
            Event::Data { stream, end_stream } => {
                let octets = self.stage.machine.content().len();
                self.unconsumed.push((stream, octets));
                let unconsumed = self.unconsumed.iter().filter(|(it, _)| *it == stream);
                let unconsumed: usize = unconsumed.map(|(_, octets)| octets).sum();
                assert!(unconsumed <= WINDOW, "{unconsumed} octets on {stream:?}");
                assert_eq!(self.requests.insert(stream, !end_stream), Some(true));
            }
            Event::Trailers { stream, .. } => {
                assert_eq!(self.requests.insert(stream, false), Some(true));
            }
            Event::Reset { stream, .. } | Event::Failed { stream, .. } => {
                assert!(self.requests.insert(stream, false).is_some());
            }
            Event::Response { .. } => panic!("a server does not receive answers"),
            Event::GoAway { .. } => {}
            Event::Closed(error) => {
                assert!(!error.to_string().contains(char::is_control));
                self.is_closed = true;
            }
        }
        true
    }

    fn bound(&self) -> usize {
        CONNECTION_BOUND
    }

    fn check_end(&self) {
        assert!(self.is_closed && self.stage.machine.is_ended());
    }
}

impl Play {
    /// Sends a request, on the next stream or on a later one.
    fn request(&mut self, input: &mut Input<'_>) {
        self.next += input.pick(&[0, 0, 0, 2]);
        let end = input.pick(&[END_STREAM, 0]);
        let request = wire::headers(self.next, &REQUEST, end);
        self.next += 2;
        self.hear(&request, input);
    }

    /// Sends the next part of an answer on a stream that had a request and may have ended.
    fn answer(&mut self, input: &mut Input<'_>) {
        let (server, now) = (&mut self.stage.machine, self.stage.now);
        let at = input.below(self.requests.len().max(1));
        let Some(&stream) = self.requests.keys().nth(at) else {
            return;
        };
        let end = input.coin();
        let action = input.below(4);
        if action == 0 {
            server.reset(stream, ErrorCode::CANCEL, now);
        } else if !self.answered.contains(&stream) {
            let head: [(&str, &[u8]); 1] = [(":status", b"200")];
            if server.send_headers(stream, &head, end, now).is_ok() {
                self.answered.insert(stream);
            }
        } else if action == 1 {
            let trailers: [(&str, &[u8]); 1] = [("grpc-status", b"0")];
            let _ = server.send_headers(stream, &trailers, true, now);
        } else {
            let data = vec![b'a'; input.pick(&SIZES)];
            server.send_data(stream, &data, end, now);
        }
    }

    /// Consumes the last content.
    fn consume(&mut self) {
        if let Some((stream, octets)) = self.unconsumed.pop() {
            self.stage.machine.consume(stream, octets, self.stage.now);
        }
    }
}

/// Returns a frame of the client; most are valid. `next` is the stream of its next request.
pub(super) fn frame(next: u32, input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.below(16);
    let back = input.pick(&[2, 2, 2, 4, 6, 0]);
    let stream = next.saturating_sub(back);
    let end = input.pick(&[0, END_STREAM]);
    match kind {
        0 => wire::settings(&[(input.pick(&SETTING_IDS), input.pick(&VALUES))]),
        1 => wire::frame(SETTINGS, ACK, 0, &[]),
        2 => wire::headers(stream, &[(b"trailer", input.short())], END_STREAM),
        3 => wire::headers(stream, &REQUEST[..input.below(REQUEST.len())], end),
        4 => wire::headers(stream, &[REQUEST[0], (input.short(), input.short())], end),
        5 => wire::frame(
            DATA,
            end,
            stream,
            &vec![b'd'; input.pick(&SIZES).min(LARGEST_FRAME)],
        )
        .repeat(input.pick(&[1, 1, 2, 5])),
        6 => wire::frame(DATA, end | PADDED, stream, input.short()),
        7 => wire::frame(DATA, end, stream, input.short()),
        8 => wire::frame(RST_STREAM, 0, stream, &input.long().to_be_bytes()),
        9 => wire::frame(PING, input.pick(&[0, ACK]), 0, &[input.octet(); 8]),
        10 => wire::frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, input.octet()]),
        11 => {
            let stream = input.pick(&[0, stream]);
            wire::frame(WINDOW_UPDATE, 0, stream, &input.pick(&VALUES).to_be_bytes())
        }
        12 if input.below(4) == 0 => bomb(next, input),
        12 => pieces(stream, &wire::block(&REQUEST), input),
        13 => wire::frame(PRIORITY, 0, stream, input.take(5)),
        14 => wire::frame(PING, 0, 0, &[7; 8]).repeat(input.octet().into()),
        _ => wire::frame(input.octet(), input.octet(), stream, input.short()),
    }
}

/// The window of a stream: we do not change it (RFC 9113 §6.9.2; octets).
const WINDOW: usize = 65_535;

/// The headers of a valid request.
const REQUEST: [(&[u8], &[u8]); 5] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a.B/C"),
    (b":authority", b"localhost"),
    (b"te", b"trailers"),
];

//! A server's end of a connection through any sequence of frames, answers, partial writes and
//! moments.
//!
//! An input is a script: one operation after the other. The clock is a number, the client is
//! [`wire`], and a [`Listener`] hears what the server writes. Whatever happens:
//!
//! - every request is told once, in the order of the streams, and nothing of it after its end;
//! - after `handle_timeout` no deadline lies in the past;
//! - the connection holds no more than its bound, and its end is told once, as the last thing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plugind::http2::{Connection, ErrorCode, Event, StreamId};
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::listener::Listener;
use super::wire::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PREFACE,
    PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};

/// Plays a script.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut script = Script::new();
    let mut operations = 0;
    while !input.is_empty() && operations < MOST_OPERATIONS {
        script.operation(&mut input);
        script.check_memory();
        operations += 1;
    }
    script.end();
}

/// A server, its client, and what is to be true of them.
struct Script {
    server: Connection,
    now: Time,
    /// The requests that were told, and whether more of them may come.
    requests: BTreeMap<StreamId, bool>,
    /// Those whose answer has begun.
    answered: BTreeSet<StreamId>,
    /// What was told in DATA and not given back.
    unconsumed: Vec<(StreamId, usize)>,
    /// What the client sent and the server has not read.
    unread: Vec<u8>,
    /// The stream of the client's next request.
    next: u32,
    listener: Listener,
    /// Whether the end was told.
    is_closed: bool,
}

impl Script {
    fn new() -> Self {
        Self {
            server: Connection::server(Time::ZERO),
            now: Time::ZERO,
            requests: BTreeMap::new(),
            answered: BTreeSet::new(),
            unconsumed: Vec::new(),
            unread: [PREFACE, &wire::settings(&[])].concat(),
            next: 1,
            listener: Listener::server(),
            is_closed: false,
        }
    }

    fn operation(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 => self.write(input.octet().into()),
            1 => self.write(usize::MAX),
            2 => self.read(input.octet().into()),
            3 => self.wait(input.pick(&WAITS)),
            4 => self.wait_for_deadline(),
            5 => self.poll(input.below(4)),
            6 => self.consume(),
            7 if input.below(16) == 0 => self.server.shutdown(self.now),
            8 | 9 => self.answer(input),
            10 => self.request(input),
            _ => {
                let frame = frame(self.next, input);
                self.unread.extend(frame);
                if input.coin() {
                    self.read(usize::MAX);
                }
            }
        }
    }

    /// Lets the client ask something, on the next stream or one that it skips to.
    fn request(&mut self, input: &mut Input<'_>) {
        self.next += input.pick(&[0, 0, 0, 2]);
        let end = input.pick(&[END_STREAM, 0]);
        self.unread.extend(wire::headers(self.next, &REQUEST, end));
        self.next += 2;
        if input.coin() {
            self.read(usize::MAX);
        }
    }

    /// Sends the next part of an answer on a stream that had a request, whatever became of it.
    fn answer(&mut self, input: &mut Input<'_>) {
        let at = input.below(self.requests.len().max(1));
        let Some(&stream) = self.requests.keys().nth(at) else {
            return;
        };
        let end = input.coin();
        let action = input.below(4);
        if action == 0 {
            self.server.reset(stream, ErrorCode::CANCEL, self.now);
        } else if !self.answered.contains(&stream) {
            let head: [(&str, &[u8]); 1] = [(":status", b"200")];
            if self
                .server
                .send_headers(stream, &head, end, self.now)
                .is_ok()
            {
                self.answered.insert(stream);
            }
        } else if action == 1 {
            let trailers: [(&str, &[u8]); 1] = [("grpc-status", b"0")];
            let _ = self.server.send_headers(stream, &trailers, true, self.now);
        } else {
            let data = vec![b'a'; input.pick(&SIZES)];
            self.server.send_data(stream, &data, end, self.now);
        }
    }

    /// Gives back what came first.
    fn consume(&mut self) {
        if let Some((stream, octets)) = self.unconsumed.pop() {
            self.server.consume(stream, octets, self.now);
        }
    }

    /// Writes at most so many octets.
    fn write(&mut self, most: usize) {
        let octets = self.server.transmit();
        let count = octets.len().min(most);
        self.listener.hear(&octets[..count]);
        self.server.sent(count, self.now);
    }

    /// Reads at most so many octets.
    fn read(&mut self, most: usize) {
        let mut left = most;
        loop {
            let room = self.server.recv_buf();
            let count = room.len().min(self.unread.len()).min(left);
            if count == 0 {
                return;
            }
            room[..count].copy_from_slice(&self.unread[..count]);
            self.server.received(count, self.now);
            self.unread.drain(..count);
            left -= count;
            self.poll(usize::MAX);
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.let_time_pass();
    }

    /// Waits until the server wants to be woken.
    fn wait_for_deadline(&mut self) {
        if let Some(at) = self.server.poll_timeout() {
            self.now = self.now.max(at);
            self.let_time_pass();
        }
    }

    /// Wakes the server, and looks for what it has slept through.
    fn let_time_pass(&mut self) {
        self.server.handle_timeout(self.now);
        self.poll(usize::MAX);
        let next = self.server.poll_timeout();
        assert!(next.is_none_or(|at| at > self.now), "{next:?}");
    }

    /// Takes at most so many events.
    fn poll(&mut self, most: usize) {
        for _ in 0..most {
            let Some(event) = self.server.poll_event(self.now) else {
                return;
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
                Event::Data {
                    stream,
                    data,
                    end_stream,
                } => {
                    self.unconsumed.push((stream, data.len()));
                    assert_eq!(self.requests.insert(stream, !end_stream), Some(true));
                }
                Event::Trailers { stream, .. } => {
                    assert_eq!(self.requests.insert(stream, false), Some(true));
                }
                Event::Reset { stream, .. } | Event::Failed { stream, .. } => {
                    assert!(self.requests.insert(stream, false).is_some());
                }
                Event::Head { .. } => panic!("a server is not answered"),
                Event::GoAway { .. } => {}
                Event::Closed(error) => {
                    assert!(!error.to_string().contains(char::is_control));
                    self.is_closed = true;
                }
            }
            self.check_memory();
        }
    }

    /// Reads what was sent, hangs up, and looks for the end.
    fn end(&mut self) {
        self.read(usize::MAX);
        self.server.eof(self.now);
        self.poll(usize::MAX);
        assert!(self.is_closed && self.server.is_ended());
        assert!(self.server.transmit().is_empty(), "nobody reads it");
        assert_eq!(self.server.poll_timeout(), None);
    }

    fn check_memory(&self) {
        let memory = self.server.mem_used();
        assert!(memory <= CONNECTION_BOUND, "{memory} octets");
    }
}

/// A frame of the client's, most of them good ones; `next` is the stream of its next request.
fn frame(next: u32, input: &mut Input<'_>) -> Vec<u8> {
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
            &vec![b'd'; input.pick(&SIZES).min(16_384)],
        ),
        6 => wire::frame(DATA, end | PADDED, stream, input.short()),
        7 => wire::frame(DATA, end, stream, input.short()),
        8 => wire::frame(RST_STREAM, 0, stream, &input.long().to_be_bytes()),
        9 => wire::frame(PING, input.pick(&[0, ACK]), 0, &[input.octet(); 8]),
        10 => wire::frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, input.octet()]),
        11 => {
            let stream = input.pick(&[0, stream]);
            wire::frame(WINDOW_UPDATE, 0, stream, &input.pick(&VALUES).to_be_bytes())
        }
        12 => request_in_pieces(stream, input),
        13 => wire::frame(PRIORITY, 0, stream, input.take(5)),
        14 => wire::frame(PING, 0, 0, &[7; 8]).repeat(input.octet().into()),
        _ => wire::frame(input.octet(), input.octet(), stream, input.short()),
    }
}

/// A good request in HEADERS and CONTINUATION.
fn request_in_pieces(stream: u32, input: &mut Input<'_>) -> Vec<u8> {
    let block = wire::block(&REQUEST);
    let (first, rest) = block.split_at(input.below(block.len()));
    let mut frames = wire::frame(HEADERS, 0, stream, first);
    for _ in 0..input.below(10) {
        frames.extend(wire::frame(CONTINUATION, 0, stream, &[]));
    }
    frames.extend(wire::frame(CONTINUATION, END_HEADERS, stream, rest));
    frames
}

/// The head of a good request.
const REQUEST: [(&[u8], &[u8]); 5] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a.B/C"),
    (b":authority", b"localhost"),
    (b"te", b"trailers"),
];

/// All settings that there are, and an extension's.
const SETTING_IDS: [u16; 8] = [1, 2, 3, 4, 4, 5, 6, 0xfe03];

/// Values for settings and windows, around what matters.
const VALUES: [u32; 10] = [
    0,
    1,
    100,
    16_384,
    65_535,
    65_536,
    1 << 20,
    (1 << 31) - 1 - 65_535,
    (1 << 31) - 1,
    u32::MAX,
];

/// How long content is: around limits of frames, windows and buffers (octets).
const SIZES: [usize; 6] = [0, 1, 100, 16_384, 40_000, 70_000];

/// How much time passes.
const WAITS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(900),
    Duration::from_secs(4),
    Duration::from_secs(11),
    Duration::from_secs(100),
];

/// How many operations are played: a longer script finds nothing that a shorter one does not.
const MOST_OPERATIONS: usize = 200;

//! A gRPC client through any sequence of calls, frames, partial writes and moments.
//!
//! An input is a script: one operation after the other. The clock is a number, the server is
//! [`wire`], and a [`Listener`] hears what the client writes. Whatever happens:
//!
//! - every call ends exactly once, at its deadline at the latest, and at the connection's end;
//! - after `handle_timeout` no deadline lies in the past;
//! - the client holds no more than its bound, and what its calls may hold.

use std::collections::BTreeMap;
use std::time::Duration;

use plugind::grpc::{CallId, Client, Event};
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::listener::Listener;
use super::wire::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING,
    RST_STREAM, SETTINGS, WINDOW_UPDATE,
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

/// A client, its server, and what is to be true of them.
struct Script {
    client: Client,
    now: Time,
    /// The calls that have not ended: their deadlines, and what they may hold.
    calls: BTreeMap<CallId, (Time, usize)>,
    /// The last call that was made.
    last: Option<CallId>,
    /// What the server sent and the client has not read.
    unread: Vec<u8>,
    listener: Listener,
    /// Whether the server listens: not after the end of the connection.
    eof: bool,
}

impl Script {
    fn new() -> Self {
        Self {
            client: Client::new(Time::ZERO),
            now: Time::ZERO,
            calls: BTreeMap::new(),
            last: None,
            unread: Vec::new(),
            listener: Listener::client(),
            eof: false,
        }
    }

    fn operation(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 | 1 => self.call(input),
            2 => self.cancel(),
            3 => self.write(input.octet().into()),
            4 => self.write(usize::MAX),
            5 => self.read(input.octet().into()),
            6 => self.wait(input.pick(&WAITS)),
            7 => self.wait_for_deadline(),
            8 => self.poll(input.below(4)),
            9 => self.client.handle_timeout(self.now),
            10 if input.below(16) == 0 => self.client.close(self.now),
            11 if input.below(16) == 0 => self.hang_up(),
            _ => {
                let frame = frame(input);
                self.unread.extend(frame);
                if input.coin() {
                    self.read(usize::MAX);
                }
            }
        }
    }

    /// Makes a call.
    fn call(&mut self, input: &mut Input<'_>) {
        let path = "/".repeat(input.pick(&PATHS));
        let message = vec![b'm'; input.pick(&SIZES)];
        let max_reply = input.pick(&SIZES);
        let deadline = self.now + input.pick(&WAITS);
        let call = self
            .client
            .unary(&path, &message, max_reply, deadline, self.now);
        // A vector of what came, which doubles, and the whole reply beside it.
        let holds = path.len() + message.len() + 5 + 3 * max_reply + CALL;
        self.calls.insert(call, (deadline, holds));
        assert!(self.last < Some(call), "names are not used again");
        self.last = Some(call);
    }

    /// Cancels the oldest call, or one that ended long ago.
    fn cancel(&mut self) {
        let oldest = self.calls.first_key_value().map(|(call, _)| *call);
        if let Some(call) = oldest.or(self.last) {
            self.client.cancel(call, self.now);
        }
    }

    /// Writes at most so many octets.
    fn write(&mut self, most: usize) {
        let octets = self.client.transmit();
        let count = octets.len().min(most);
        assert!(octets.len() <= MOST_UNSENT, "{} unsent", octets.len());
        self.listener.hear(&octets[..count]);
        self.client.sent(count, self.now);
    }

    /// Reads at most so many octets.
    fn read(&mut self, most: usize) {
        let mut left = most;
        loop {
            let room = self.client.recv_buf();
            let count = room.len().min(self.unread.len()).min(left);
            if count == 0 {
                return;
            }
            room[..count].copy_from_slice(&self.unread[..count]);
            self.client.received(count, self.now);
            self.unread.drain(..count);
            left -= count;
            self.poll(usize::MAX);
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.let_time_pass();
    }

    /// Waits until the client wants to be woken.
    fn wait_for_deadline(&mut self) {
        if let Some(at) = self.client.poll_timeout() {
            self.now = self.now.max(at);
            self.let_time_pass();
        }
    }

    /// Wakes the client, and looks for what it has slept through.
    fn let_time_pass(&mut self) {
        self.client.handle_timeout(self.now);
        self.poll(usize::MAX);
        let next = self.client.poll_timeout();
        assert!(next.is_none_or(|at| at > self.now), "{next:?}");
        for (call, (deadline, _)) in &self.calls {
            assert!(*deadline > self.now, "{call:?} has missed its deadline");
        }
    }

    /// Takes at most so many events.
    fn poll(&mut self, most: usize) {
        for _ in 0..most {
            let Some(Event::Finished { call, result }) = self.client.poll_event(self.now) else {
                return;
            };
            assert!(self.calls.remove(&call).is_some(), "{call:?} ends again");
            if let Err(error) = result {
                assert!(!error.to_string().contains(char::is_control));
            }
            self.check_memory();
        }
    }

    fn hang_up(&mut self) {
        self.eof = true;
        self.client.eof(self.now);
    }

    /// Reads what was sent, hangs up, and looks for calls that nobody has ended.
    fn end(&mut self) {
        self.read(usize::MAX);
        self.hang_up();
        self.poll(usize::MAX);
        assert!(self.client.transmit().is_empty(), "nobody reads it");
        assert!(self.client.is_closed());
        assert!(self.calls.is_empty(), "{:?} never end", self.calls);
        assert_eq!(self.client.poll_timeout(), None);
    }

    fn check_memory(&self) {
        let calls = self.calls.values().map(|(_, holds)| holds);
        let bound = CONNECTION_BOUND + calls.sum::<usize>();
        let memory = self.client.mem_used();
        assert!(memory <= bound, "{memory} octets, not {bound}");
    }
}

/// A frame of the server's, most of them good ones.
fn frame(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.below(16);
    let stream = input.pick(&STREAMS);
    let end = input.pick(&[0, END_STREAM]);
    match kind {
        0 => wire::settings(&[(input.pick(&SETTING_IDS), input.pick(&VALUES))]),
        1 => wire::frame(SETTINGS, ACK, 0, &[]),
        2 => wire::headers(stream, &[OK, GRPC], end),
        3 => wire::headers(stream, &[OK, GRPC, (b"grpc-status", b"0")], END_STREAM),
        4 => wire::headers(stream, &[(b"grpc-status", input.short())], END_STREAM),
        5 => wire::headers(stream, &[(b"grpc-status", b"0")], END_STREAM),
        6 => wire::headers(stream, &[(b":status", input.take(3))], end),
        7 => wire::frame(DATA, end, stream, &message(input.pick(&SIZES))),
        8 => wire::frame(DATA, end | PADDED, stream, input.short()),
        9 => wire::frame(DATA, end, stream, input.short()),
        10 => wire::frame(RST_STREAM, 0, stream, &input.long().to_be_bytes()),
        11 => wire::frame(PING, input.pick(&[0, ACK]), 0, &[input.octet(); 8]),
        12 => goaway(input),
        13 => {
            let stream = input.pick(&[0, stream]);
            wire::frame(WINDOW_UPDATE, 0, stream, &input.pick(&VALUES).to_be_bytes())
        }
        14 => block_in_pieces(stream, input),
        _ => wire::frame(input.octet(), input.octet(), stream, input.short()),
    }
}

/// A gRPC message, or the part of it that fits one frame.
fn message(length: usize) -> Vec<u8> {
    let announced = u32::try_from(length).expect("a size");
    let mut message = [&[0][..], &announced.to_be_bytes()].concat();
    message.resize((5 + length).min(LARGEST_FRAME), b'r');
    message
}

fn goaway(input: &mut Input<'_>) -> Vec<u8> {
    let last = input.pick(&[0, 1, 3, 5, 7, 0x7fff_ffff, 2]);
    let code = u32::from(input.octet());
    let payload = [last, code].map(u32::to_be_bytes).concat();
    wire::frame(GOAWAY, 0, 0, &[&payload, input.short()].concat())
}

/// A good head in HEADERS and CONTINUATION.
fn block_in_pieces(stream: u32, input: &mut Input<'_>) -> Vec<u8> {
    let block = wire::block(&[OK, GRPC, (b"x", input.short())]);
    let (first, rest) = block.split_at(input.below(block.len()));
    let mut frames = wire::frame(HEADERS, 0, stream, first);
    for _ in 0..input.below(10) {
        frames.extend(wire::frame(CONTINUATION, 0, stream, &[]));
    }
    frames.extend(wire::frame(CONTINUATION, END_HEADERS, stream, rest));
    frames
}

/// The head of a good answer.
const OK: (&[u8], &[u8]) = (b":status", b"200");
const GRPC: (&[u8], &[u8]) = (b"content-type", b"application/grpc");

/// Streams that the client opens, none, and one of the server's.
const STREAMS: [u32; 8] = [1, 1, 3, 3, 5, 7, 0, 2];

/// All settings that there are, and an extension's.
const SETTING_IDS: [u16; 8] = [1, 2, 3, 4, 4, 5, 6, 0xfe03];

/// Values for settings and windows, around what matters.
const VALUES: [u32; 12] = [
    0,
    1,
    2,
    100,
    300,
    16_384,
    65_535,
    65_536,
    1 << 20,
    (1 << 31) - 1 - 65_535,
    (1 << 31) - 1,
    u32::MAX,
];

/// How long requests and replies are: around limits of frames, windows and buffers (octets).
const SIZES: [usize; 8] = [0, 1, 100, 1000, 16_379, 16_384, 40_000, 70_000];

/// How long paths are; the last is more than fits a request (octets).
const PATHS: [usize; 4] = [1, 20, 7000, 9000];

/// How much time passes, and how much calls have.
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

/// What a call holds besides its octets, wherever it is: in a vector, which doubles, or as an event
/// that waits (octets).
const CALL: usize = 1024;

/// What may wait to be written: the room that must be there for another frame, that frame, and the
/// answers and resets beside it (octets).
const MOST_UNSENT: usize = 64 * 1024;

/// The largest frame (octets).
const LARGEST_FRAME: usize = 16_384;

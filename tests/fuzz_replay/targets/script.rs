//! What all scripts have in common: a machine of ours at one end of a connection, a peer that says
//! what the input makes it say, a clock that is a number, and somebody who listens.
//!
//! Whatever a script does, no deadline lies in the past after `handle_timeout`; the machine holds
//! no more than its bound; what it writes is what [`Listener`] allows; and when the connection is
//! over nothing is left to write and nothing to wait for.

use std::time::Duration;

use plugind::http2::Endpoint;
use plugind::time::Time;
use plugind::{grpc, http2};

use super::input::Input;
use super::limits::{BOMB, Limits};
use super::listener::Listener;
use super::wire::{self, CONTINUATION, END_HEADERS, HEADERS};

/// A machine at one end of a connection.
pub(super) trait Machine: Endpoint {
    /// Whether the connection is over.
    fn is_over(&self) -> bool;
}

impl Machine for http2::Connection {
    fn is_over(&self) -> bool {
        self.is_ended()
    }
}

impl Machine for grpc::Client {
    fn is_over(&self) -> bool {
        self.is_closed()
    }
}

impl Machine for grpc::Server {
    fn is_over(&self) -> bool {
        self.is_closed()
    }
}

/// Where a script plays.
pub(super) struct Stage<M> {
    pub(super) machine: M,
    pub(super) now: Time,
    /// What the peer sent and the machine has not read.
    pub(super) unread: Vec<u8>,
    pub(super) listener: Listener,
    pub(super) limits: Limits,
}

impl<M: Machine> Stage<M> {
    pub(super) fn new(machine: M, listener: Listener, limits: Limits) -> Self {
        Self {
            machine,
            now: Time::ZERO,
            unread: Vec::new(),
            listener,
            limits,
        }
    }

    /// Lets the machine read at most so many octets; answers how many it did.
    fn read(&mut self, most: usize) -> usize {
        let offered = &self.unread[..self.unread.len().min(most)];
        let octets = self.machine.receive_from(offered, self.now);
        self.limits.read(&self.unread[..octets]);
        self.unread.drain(..octets);
        octets
    }

    /// Lets the machine write at most so many octets.
    fn write(&mut self, most: usize) {
        let octets = self.machine.transmit();
        assert!(octets.len() <= MOST_UNSENT, "{} unsent", octets.len());
        let written = octets.len().min(most);
        self.listener.hear(&octets[..written]);
        self.machine.sent(written, self.now);
    }
}

/// A script under way: what is played, and what is to be true of it.
pub(super) trait Script: Sized {
    /// What it is played with.
    type Machine: Machine;

    fn stage(&mut self) -> &mut Stage<Self::Machine>;

    /// Does the next thing.
    fn operation(&mut self, input: &mut Input<'_>);

    /// Takes one event, and holds it to what was before; answers whether there was one.
    fn poll_event(&mut self) -> bool;

    /// How much the machine may hold now (octets).
    fn bound(&self) -> usize;

    /// What is to be true when something was read and all events were taken.
    fn check_read(&self) {}

    /// What is to be true when time has passed.
    fn check_deadlines(&self) {}

    /// What is to be true when the connection is over.
    fn check_end(&self);

    /// Plays all that the input says, lets the rest be read, and hangs up.
    fn play(mut self, bytes: &[u8]) {
        let mut input = Input::new(bytes);
        let mut operations = 0;
        while !input.is_empty() && operations < MOST_OPERATIONS {
            self.operation(&mut input);
            self.check_memory();
            operations += 1;
        }
        self.read(usize::MAX);
        self.hang_up();
        self.poll(usize::MAX);
        self.check_end();
        let machine = &self.stage().machine;
        assert!(machine.transmit().is_empty(), "nobody reads it");
        assert_eq!(machine.poll_timeout(), None);
    }

    /// Has the peer say something; by the input, it is read at once.
    fn hear(&mut self, octets: &[u8], input: &mut Input<'_>) {
        self.stage().unread.extend(octets);
        if input.coin() {
            self.read(usize::MAX);
        }
    }

    /// Lets the machine read at most so many octets, and takes the events.
    fn read(&mut self, most: usize) {
        let mut left = most;
        loop {
            let octets = self.stage().read(left);
            if octets == 0 {
                return;
            }
            left -= octets;
            self.poll(usize::MAX);
            let stage = self.stage();
            let exceeded = stage.limits.exceeded();
            // A machine that waits for its peer to read has not looked at everything yet.
            let is_held_up = stage.machine.recv_buf().is_empty();
            assert!(
                exceeded.is_none() || stage.machine.is_over() || is_held_up,
                "{exceeded:?}"
            );
            self.check_read();
        }
    }

    /// Lets the machine write at most so many octets.
    fn write(&mut self, most: usize) {
        self.stage().write(most);
    }

    fn wait(&mut self, time: Duration) {
        self.stage().now += time;
        self.let_time_pass();
    }

    /// Waits until the machine wants to be woken.
    fn wait_for_deadline(&mut self) {
        let stage = self.stage();
        if let Some(at) = stage.machine.poll_timeout() {
            stage.now = stage.now.max(at);
            self.let_time_pass();
        }
    }

    /// Wakes the machine, and looks for what it has slept through. It is woken again for what came
    /// just now and had no time to begin with.
    fn let_time_pass(&mut self) {
        for _ in 0..2 {
            let stage = self.stage();
            stage.machine.handle_timeout(stage.now);
            self.poll(usize::MAX);
        }
        let stage = self.stage();
        let next = stage.machine.poll_timeout();
        assert!(next.is_none_or(|at| at > stage.now), "{next:?}");
        self.check_deadlines();
    }

    /// Takes at most so many events.
    fn poll(&mut self, most: usize) {
        for _ in 0..most {
            let is_event = self.poll_event();
            self.check_memory();
            if !is_event {
                return;
            }
        }
    }

    fn hang_up(&mut self) {
        let stage = self.stage();
        stage.machine.eof(stage.now);
    }

    fn check_memory(&mut self) {
        let bound = self.bound();
        let memory = self.stage().machine.mem_used();
        assert!(memory <= bound, "{memory} octets, not {bound}");
    }
}

/// A header block in HEADERS and CONTINUATION, some of them empty.
pub(super) fn pieces(stream: u32, block: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let (first, rest) = block.split_at(input.below(block.len()));
    let mut frames = wire::frame(HEADERS, 0, stream, first);
    for _ in 0..input.below(10) {
        frames.extend(wire::frame(CONTINUATION, 0, stream, &[]));
    }
    frames.extend(wire::frame(CONTINUATION, END_HEADERS, stream, rest));
    frames
}

/// A header block of fields that take an octet each, and decode to more than forty.
pub(super) fn bomb(stream: u32, input: &mut Input<'_>) -> Vec<u8> {
    let block = vec![BOMB; input.pick(&BOMBS)];
    let mut fragments = block.chunks(LARGEST_FRAME).peekable();
    let mut kind = HEADERS;
    let mut frames = Vec::new();
    while let Some(fragment) = fragments.next() {
        let end = if fragments.peek().is_none() {
            END_HEADERS
        } else {
            0
        };
        frames.extend(wire::frame(kind, end, stream, fragment));
        kind = CONTINUATION;
    }
    frames
}

/// A gRPC message, or the part of it that fits one frame.
pub(super) fn message(length: usize) -> Vec<u8> {
    let mut message = wire::message(&vec![b'r'; length]);
    message.truncate(LARGEST_FRAME);
    message
}

/// All settings that there are, and an extension's.
pub(super) const SETTING_IDS: [u16; 8] = [1, 2, 3, 4, 4, 5, 6, 0xfe03];

/// Values for settings and windows, around what matters.
pub(super) const VALUES: [u32; 12] = [
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

/// How long content is: around limits of frames, windows and buffers (octets).
pub(super) const SIZES: [usize; 8] = [0, 1, 100, 1000, 16_379, 16_384, 40_000, 70_000];

/// How much time passes, and how much calls have.
pub(super) const WAITS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(900),
    Duration::from_secs(4),
    Duration::from_secs(11),
    Duration::from_secs(100),
];

/// How long blocks are: around what they may decode to, and around how long they may be (octets).
const BOMBS: [usize; 6] = [1, 6_241, 6_242, 40_000, 65_536, 65_537];

/// The largest frame (octets).
pub(super) const LARGEST_FRAME: usize = 16_384;

/// How many operations are played: a longer script finds nothing that a shorter one does not.
const MOST_OPERATIONS: usize = 200;

/// What may wait to be written: the room that must be there for another frame, that frame, and the
/// answers and resets beside it (octets).
const MOST_UNSENT: usize = 64 * 1024;

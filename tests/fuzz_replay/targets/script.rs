//! The common part of all scripts: our machine at one end of a connection, a peer that sends what
//! the input chooses, a clock that is a number, and a listener.
//!
//! Whatever a script does, no deadline is in the past after `handle_timeout`; the machine holds no
//! more than its bound; it writes only what [`Listener`] allows; and once the connection is over
//! there is neither an octet to write nor a deadline.

use std::time::Duration;

use plugind::http2::Endpoint;
use plugind::time::Time;
use plugind::{grpc, http2};

use super::input::Input;
use super::limits::{BOMB, Limits};
use super::listener::Listener;
use super::wire::{self, CONTINUATION, END_HEADERS, HEADERS, LARGEST_FRAME};

/// A machine at one end of a connection.
pub(super) trait Machine: Endpoint {
    /// Returns whether the connection is over.
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

/// The stage of a script: its machine, its peer and its clock.
pub(super) struct Stage<M> {
    pub(super) machine: M,
    pub(super) now: Time,
    /// The octets that the peer sent and the machine has not read.
    pub(super) unread: Vec<u8>,
    pub(super) listener: Listener,
    pub(super) limits: Limits,
}

impl<M: Machine> Stage<M> {
    /// Returns a stage for a client.
    pub(super) fn client(machine: M) -> Self {
        Self {
            machine,
            now: Time::ZERO,
            unread: Vec::new(),
            listener: Listener::client(),
            limits: Limits::default(),
        }
    }

    /// Returns a stage for a server, whose client has greeted it.
    pub(super) fn server(machine: M) -> Self {
        Self {
            machine,
            now: Time::ZERO,
            unread: wire::greeting(),
            listener: Listener::server(),
            limits: Limits::of_server(),
        }
    }

    /// Has the machine read at most this many octets. Returns how many it has read.
    fn read(&mut self, most: usize) -> usize {
        let offered = &self.unread[..self.unread.len().min(most)];
        let octets = self.machine.receive_from(offered, self.now);
        self.limits.read(&self.unread[..octets]);
        self.unread.drain(..octets);
        octets
    }

    /// Has the machine write at most this many octets.
    fn write(&mut self, most: usize) {
        let octets = self.machine.transmit();
        assert!(octets.len() <= MOST_UNSENT, "{} unsent", octets.len());
        let written = octets.len().min(most);
        self.listener.hear(&octets[..written]);
        self.machine.sent(written, self.now);
    }
}

/// A running script, and its conditions.
pub(super) trait Script: Sized {
    /// The machine under test.
    type Machine: Machine;

    fn stage(&mut self) -> &mut Stage<Self::Machine>;

    /// Performs the next operation.
    fn operation(&mut self, input: &mut Input<'_>);

    /// Handles one event, and checks it against earlier ones. Returns whether there was one.
    fn poll_event(&mut self) -> bool;

    /// Returns how much the machine may hold now (octets).
    fn bound(&self) -> usize;

    /// Checks conditions after something was read and all events were handled.
    fn check_read(&self) {}

    /// Checks conditions after time has passed.
    fn check_deadlines(&self) {}

    /// Checks conditions once the connection is over.
    fn check_end(&self);

    /// Plays all operations of the input, has the rest read, and closes the connection.
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
        assert!(machine.transmit().is_empty(), "nothing is left to write");
        assert_eq!(machine.poll_timeout(), None);
    }

    /// Sends octets of the peer; the input chooses whether they are read at once.
    fn hear(&mut self, octets: &[u8], input: &mut Input<'_>) {
        self.stage().unread.extend(octets);
        if input.coin() {
            self.read(usize::MAX);
        }
    }

    /// Has the machine read at most this many octets, and handles the events.
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
            // A machine that waits for its peer to read has not examined everything yet.
            let is_held_up = stage.machine.recv_buf().is_empty();
            assert!(
                exceeded.is_none() || stage.machine.is_over() || is_held_up,
                "{exceeded:?}"
            );
            self.check_read();
        }
    }

    /// Has the machine write at most this many octets.
    fn write(&mut self, most: usize) {
        self.stage().write(most);
    }

    fn wait(&mut self, time: Duration) {
        self.stage().now += time;
        self.let_time_pass();
    }

    /// Waits for the machine's next deadline.
    fn wait_for_deadline(&mut self) {
        let stage = self.stage();
        if let Some(at) = stage.machine.poll_timeout() {
            stage.now = stage.now.max(at);
            self.let_time_pass();
        }
    }

    /// Calls `handle_timeout`, and checks that no deadline was missed. It is called twice, for what
    /// was added just now with a deadline that has expired already.
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

    /// Handles at most this many events.
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

/// Returns a header block in HEADERS and CONTINUATION frames, some of them empty.
pub(super) fn pieces(stream: u32, block: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let (first, rest) = block.split_at(input.below(block.len()));
    let mut frames = wire::frame(HEADERS, 0, stream, first);
    for _ in 0..input.below(10) {
        frames.extend(wire::frame(CONTINUATION, 0, stream, &[]));
    }
    frames.extend(wire::frame(CONTINUATION, END_HEADERS, stream, rest));
    frames
}

/// Returns a header block of fields of one octet each, which decode to more than forty.
pub(super) fn bomb(stream: u32, input: &mut Input<'_>) -> Vec<u8> {
    wire::fragments(stream, &vec![BOMB; input.pick(&BOMBS)])
}

/// Returns a gRPC message, or the part of it that fits in one frame.
pub(super) fn message(length: usize) -> Vec<u8> {
    let mut message = wire::message(&vec![b'r'; length]);
    message.truncate(LARGEST_FRAME);
    message
}

/// All settings, and an extension's.
pub(super) const SETTING_IDS: [u16; 8] = [1, 2, 3, 4, 4, 5, 6, 0xfe03];

/// Values for settings and windows, around the limits.
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

/// The lengths of content: around the limits of frames, windows and buffers (octets).
pub(super) const SIZES: [usize; 8] = [0, 1, 100, 1000, 16_379, 16_384, 40_000, 70_000];

/// The times that pass, and the timeouts of calls (milliseconds).
pub(super) const WAITS: [u64; 6] = [0, 1, 900, 4000, 11_000, 100_000];

/// The lengths of blocks: around the limits on decoded and on encoded size (octets).
const BOMBS: [usize; 6] = [1, 6_241, 6_242, 40_000, 65_536, 65_537];

/// The most operations that are played: longer scripts do not find more.
const MOST_OPERATIONS: usize = 200;

/// The most that may wait to be written: the space required for another frame, that frame, and the
/// answers and resets beside it (octets).
const MOST_UNSENT: usize = 64 * 1024;

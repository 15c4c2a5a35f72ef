//! A gRPC client through any sequence of calls, frames, partial writes and times.
//!
//! An input is a [script](super::script): one operation after the other. The server is [`wire`].
//! Whatever happens:
//!
//! - every call ends exactly once, at its deadline at the latest, and at the connection's end;
//! - after a GOAWAY, at most as many calls are open as streams that the server answers;
//! - messages arrive on open streams, and none is larger than the call's limit;
//! - the client holds no more than its bound, and what its calls may hold.

use std::collections::BTreeMap;

use plugind::grpc::{CallError, CallId, Client, Event};
use plugind::http2::Endpoint as _;
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::script::{SETTING_IDS, SIZES, Script, Stage, VALUES, WAITS, bomb, message, pieces};
use super::wire::{
    self, ACK, ANSWER, DATA, END_STREAM, GOAWAY, PADDED, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};

/// Plays a script.
pub fn check(bytes: &[u8]) {
    let play = Play {
        stage: Stage::client(Client::new(Time::ZERO)),
        calls: BTreeMap::new(),
        last: None,
    };
    play.play(bytes);
}

/// A client, its server, and its calls.
struct Play {
    stage: Stage<Client>,
    /// The calls that have not ended.
    calls: BTreeMap<CallId, Call>,
    /// The last call that was made.
    last: Option<CallId>,
}

/// A call that has not ended.
struct Call {
    deadline: Option<Time>,
    is_streaming: bool,
    /// The largest message that the call accepts (octets).
    largest: usize,
    /// The most that the client may hold for the call (octets).
    holds: usize,
}

impl Script for Play {
    type Machine = Client;

    fn stage(&mut self) -> &mut Stage<Client> {
        &mut self.stage
    }

    fn operation(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 => self.call(false, input),
            1 => self.call(true, input),
            2 => self.cancel(),
            3 => self.write(input.octet().into()),
            4 => self.write(usize::MAX),
            5 => self.read(input.octet().into()),
            6 => self.wait(input.time(&WAITS)),
            7 => self.wait_for_deadline(),
            8 => self.poll(input.below(4)),
            9 => self.stage.machine.handle_timeout(self.stage.now),
            10 if input.below(16) == 0 => self.stage.machine.close(self.stage.now),
            11 if input.below(16) == 0 => self.hang_up(),
            _ => {
                let frame = frame(input);
                self.hear(&frame, input);
            }
        }
    }

    fn poll_event(&mut self) -> bool {
        let Some(event) = self.stage.machine.poll_event(self.stage.now) else {
            return false;
        };
        match event {
            Event::Finished { call, result } => self.end(call, false, result.err()),
            Event::Closed { call, result } => self.end(call, true, result.err()),
            Event::Message { call, message } => {
                let call = self.calls.get(&call).expect("the call has not ended");
                assert!(call.is_streaming && message.len() <= call.largest);
            }
        }
        true
    }

    fn bound(&self) -> usize {
        let calls = self.calls.values().map(|call| call.holds);
        CONNECTION_BOUND + calls.sum::<usize>()
    }

    /// Checks that calls do not wait for streams above the last one that the server answers.
    fn check_read(&self) {
        if let Some(last) = self.stage.limits.last_stream() {
            let answered = last.div_ceil(2) as usize;
            let waiting = self.calls.len();
            assert!(waiting <= answered, "{waiting} calls on {answered} streams");
        }
    }

    fn check_deadlines(&self) {
        for (id, call) in &self.calls {
            let has_time = call.deadline.is_none_or(|at| at > self.stage.now);
            assert!(has_time, "{id:?} has missed its deadline");
        }
    }

    fn check_end(&self) {
        assert!(self.stage.machine.is_closed());
        let left: Vec<&CallId> = self.calls.keys().collect();
        assert!(left.is_empty(), "{left:?} never end");
    }
}

impl Play {
    /// Makes a call.
    fn call(&mut self, is_streaming: bool, input: &mut Input<'_>) {
        let (client, now) = (&mut self.stage.machine, self.stage.now);
        let path = "/".repeat(input.pick(&PATHS));
        let message = vec![b'm'; input.pick(&SIZES)];
        let largest = input.pick(&SIZES);
        let deadline = now + input.time(&WAITS);
        let (id, deadline) = if is_streaming {
            let deadline = Some(deadline).filter(|_| input.coin());
            let id = client.server_streaming(&path, &message, largest, deadline, now);
            (id, deadline)
        } else {
            let id = client.unary(&path, &message, largest, deadline, now);
            (id, Some(deadline))
        };
        assert!(self.last < Some(id), "call IDs are not reused");
        self.last = Some(id);
        let call = Call {
            deadline,
            is_streaming,
            largest,
            // A vector of received octets, which doubles, and the whole message beside it.
            holds: path.len() + message.len() + 5 + 3 * largest + CALL,
        };
        self.calls.insert(id, call);
    }

    /// Cancels the oldest call, or one that ended long ago.
    fn cancel(&mut self) {
        let oldest = self.calls.first_key_value().map(|(call, _)| *call);
        if let Some(call) = oldest.or(self.last) {
            self.stage.machine.cancel(call, self.stage.now);
        }
    }

    /// Records the end of a call.
    fn end(&mut self, id: CallId, is_streaming: bool, error: Option<CallError>) {
        let call = self.calls.remove(&id);
        assert!(call.is_some_and(|call| call.is_streaming == is_streaming));
        if let Some(error) = error {
            assert!(!error.to_string().contains(char::is_control));
        }
    }
}

/// Returns a frame of the server; most of them are valid.
fn frame(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.below(16);
    let stream = input.pick(&STREAMS);
    let end = input.pick(&[0, END_STREAM]);
    match kind {
        0 => wire::settings(&[(input.pick(&SETTING_IDS), input.pick(&VALUES))]),
        1 => wire::frame(SETTINGS, ACK, 0, &[]),
        2 => wire::headers(stream, &ANSWER, end),
        3 => wire::headers(
            stream,
            &[ANSWER[0], ANSWER[1], (b"grpc-status", b"0")],
            END_STREAM,
        ),
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
        14 if input.below(4) == 0 => bomb(stream, input),
        14 => {
            let block = wire::block(&[ANSWER[0], ANSWER[1], (b"x", input.short())]);
            pieces(stream, &block, input)
        }
        _ => wire::frame(input.octet(), input.octet(), stream, input.short()),
    }
}

fn goaway(input: &mut Input<'_>) -> Vec<u8> {
    let last = input.pick(&[0, 1, 3, 5, 7, 0x7fff_ffff, 2]);
    let code = u32::from(input.octet());
    let payload = [last, code].map(u32::to_be_bytes).concat();
    wire::frame(GOAWAY, 0, 0, &[&payload, input.short()].concat())
}

/// Streams that the client opens, stream 0, and one of the server's.
const STREAMS: [u32; 8] = [1, 1, 3, 3, 5, 7, 0, 2];

/// The lengths of paths; the last one does not fit in a request (octets).
const PATHS: [usize; 4] = [1, 20, 7000, 9000];

/// The most that a call holds beside its octets: in a vector, which doubles, or as a queued event
/// (octets).
const CALL: usize = 1024;

//! A gRPC server through any sequence of requests, answers, partial writes and times.
//!
//! An input is a [script](super::script): one operation after the other. The client is [`wire`].
//! Whatever happens:
//!
//! - a call is emitted once, with a method that is served and a message within the limit;
//! - an unfinished call is ended once, at the connection's end at the latest, and answers to it
//!   have no effect after that;
//! - the server holds no more than its bound, and what the open calls may hold.

use std::collections::BTreeMap;

use plugind::config;
use plugind::grpc::{Code, Incoming, Server, Status};
use plugind::http2::StreamId;
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::input::Input;
use super::script::{SIZES, Script, Stage, WAITS, message};
use super::server_script;
use super::wire::{self, DATA, END_STREAM, RST_STREAM, WINDOW_UPDATE};

/// Plays a script.
pub fn check(bytes: &[u8]) {
    let server = Server::new(&METHODS, LARGEST_REQUEST, Time::ZERO);
    let play = Play {
        stage: Stage::server(server),
        shown: Vec::new(),
        running: BTreeMap::new(),
        answers: BTreeMap::new(),
        next: 1,
        is_closed: false,
    };
    play.play(bytes);
}

/// A server, its client, and the events so far.
struct Play {
    stage: Stage<Server>,
    /// Every call that was emitted.
    shown: Vec<StreamId>,
    /// The calls that have not ended, and whether they were finished: the end of a finished call
    /// may be pending.
    running: BTreeMap<StreamId, bool>,
    /// The size of the answer to each call so far (octets).
    answers: BTreeMap<StreamId, usize>,
    /// The stream of the client's next request.
    next: u32,
    /// Whether the end was emitted.
    is_closed: bool,
}

impl Script for Play {
    type Machine = Server;

    fn stage(&mut self) -> &mut Stage<Server> {
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
            6 if input.below(16) == 0 => self.stage.machine.shutdown(self.stage.now),
            6..=8 => self.answer(input),
            9 => {
                let frame = server_script::frame(self.next, input);
                self.hear(&frame, input);
            }
            10 | 11 => {
                let frame = self.rest(input);
                self.hear(&frame, input);
            }
            _ => {
                let request = self.request(input);
                self.hear(&request, input);
            }
        }
    }

    fn poll_event(&mut self) -> bool {
        let Some(event) = self.stage.machine.poll_event(self.stage.now) else {
            return false;
        };
        assert!(!self.is_closed, "{event:?} after the end");
        match event {
            Incoming::Called {
                call,
                method,
                message,
            } => {
                assert!(METHODS.contains(&method) && message.len() <= LARGEST_REQUEST);
                assert!(!self.shown.contains(&call), "{call:?} is shown again");
                self.shown.push(call);
                self.running.insert(call, false);
            }
            Incoming::Ended { call } => {
                assert!(self.running.remove(&call).is_some(), "{call:?} ends again");
            }
            Incoming::Closed(error) => {
                let all_finished = self.running.values().all(|is_finished| *is_finished);
                assert!(all_finished, "some calls never end: {:?}", self.running);
                assert!(!error.to_string().contains(char::is_control));
                self.is_closed = true;
            }
        }
        true
    }

    fn bound(&self) -> usize {
        let has_ended = |stream| self.stage.listener.has_ended(stream);
        let requests = (1..=self.next)
            .step_by(2)
            .filter(|stream| !has_ended(*stream));
        let answers = self.answers.iter();
        let unsent = answers.filter(|(stream, _)| !has_ended(stream.get()));
        // Queued octets are in a vector, which doubles.
        let unsent = unsent.map(|(_, said)| 2 * said.min(&MOST_UNSENT));
        CONNECTION_BOUND + requests.count() * CALL + unsent.sum::<usize>()
    }

    fn check_end(&self) {
        assert!(self.is_closed && self.stage.machine.is_closed());
    }
}

impl Play {
    /// Returns a request; most are valid, some are incomplete.
    fn request(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let path = input.pick(&[METHODS[0], METHODS[1], METHODS[0], "/a.B/Unknown"]);
        let timeout = input.pick(&[&b""[..], b"", b"1m", b"4S", b"0n", b"x", b"99999999H"]);
        let content_type = input.pick(&[&b"application/grpc"[..], b"application/grpc+proto", b""]);
        let stream = self.next;
        self.next += 2;
        let mut request = wire::call(stream, path, content_type, timeout);
        let content = message(input.pick(&SIZES));
        let octets = input.pick(&[content.len(), content.len(), 3, 0]);
        let end = input.pick(&[END_STREAM, END_STREAM, END_STREAM, 0]);
        let content = &content[..octets.min(content.len())];
        request.extend(wire::frame(DATA, end, stream, content));
        request
    }

    /// Returns a frame that may follow a request: more of it, its end, a larger window for the
    /// answer, or its cancellation.
    fn rest(&self, input: &mut Input<'_>) -> Vec<u8> {
        let stream = self.next.saturating_sub(input.pick(&[2, 4, 6]));
        let room: u32 = input.pick(&[1, 1000, 1 << 20]);
        match input.below(6) {
            0 => wire::frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()),
            1 => wire::frame(DATA, END_STREAM, stream, &[]),
            2 => wire::frame(DATA, 0, stream, input.short()),
            3 => wire::frame(DATA, END_STREAM, stream, &message(input.pick(&SIZES))),
            4 => wire::frame(WINDOW_UPDATE, 0, 0, &room.to_be_bytes()),
            _ => wire::frame(WINDOW_UPDATE, 0, stream, &room.to_be_bytes()),
        }
    }

    /// Sends a part of an answer to an emitted call, which may have ended.
    fn answer(&mut self, input: &mut Input<'_>) {
        let (server, now) = (&mut self.stage.machine, self.stage.now);
        let at = input.below(self.shown.len().max(1));
        let Some(&call) = self.shown.get(at) else {
            return;
        };
        let message = vec![b'a'; input.pick(&SIZES)];
        let action = input.below(4);
        let is_taken = match action {
            0 => {
                let words = String::from_utf8_lossy(input.short());
                server.finish(call, Status::new(Code::Aborted, words), now);
                false
            }
            1 => {
                server.reply(call, &message, now);
                true
            }
            _ => server.send(call, &message, now).is_ok(),
        };
        if let Some(is_finished @ false) = self.running.get_mut(&call) {
            *is_finished = action < 2;
            if is_taken {
                *self.answers.entry(call).or_default() += PREFIX + message.len();
            }
        }
    }
}

/// The methods that are served.
const METHODS: [&str; 2] = ["/a.B/C", "/a.B/D"];

/// The largest request (octets).
const LARGEST_REQUEST: usize = 1000;

/// The most that a call may hold beside its answer: its request, in a vector that doubles, and
/// itself (octets).
const CALL: usize = 3 * LARGEST_REQUEST + 1024;

/// The most of an answer that waits for a client that does not read: the limit on queued messages,
/// the last of them, and a reply (octets).
const MOST_UNSENT: usize = config::MAX_UNSENT_OCTETS + 2 * (PREFIX + 70_000);

/// The size of the prefix of a message (octets).
const PREFIX: usize = 5;

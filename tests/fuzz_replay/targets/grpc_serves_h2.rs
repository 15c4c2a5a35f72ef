//! Our gRPC server with the `h2` crate as its client, in memory: what one side sends as a whole,
//! the other side receives as a whole.
//!
//! An input is the client's settings, how much moves through the pipe at a time, and calls: the
//! request of each, and the messages and the status of its answer. Both sides are polled until
//! neither has anything to do.

use plugind::grpc::{Code, Incoming, Server, Status};
use plugind::http2::{ConnectionError, Endpoint as _, StreamId};
use plugind::time::Time;

use super::h2_client::{self, Answer};
use super::input::Input;
use super::listener::Listener;
use super::pipe::{PIPES, Pipe, SIZES, Tasks};
use super::{CONNECTION_BOUND, wire};

/// Plays calls.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let size = input.pick(&PIPES);
    let builder = h2_client::builder(&mut input);
    let mut calls = Vec::new();
    for number in 0..=input.below(METHODS.len() + 1) {
        calls.push(Call::new(METHODS.get(number).copied(), &mut input));
    }
    let octets = calls
        .iter()
        .map(|call| call.request.len() + call.reply().len());
    let (pipe, theirs) = Pipe::new(size, octets.sum(), Listener::server());
    let asked = calls.iter().map(Call::as_asked).collect();
    let tasks = Tasks::default();
    let answers = h2_client::start(builder, theirs, asked, &tasks);
    let mut serving = Serving {
        server: Server::new(&METHODS, LARGEST_REQUEST, Time::ZERO),
        pipe,
        calls,
    };
    tasks.run(|| serving.work());
    tasks.clear();
    serving.check(&answers.borrow());
}

/// A call: its request, its answer, and their progress.
struct Call {
    /// The method, or `None` for one that is not served.
    method: Option<&'static str>,
    request: Vec<u8>,
    messages: Vec<Vec<u8>>,
    code: Code,
    /// The ID of the call, once it was received.
    id: Option<StreamId>,
    /// The number of messages that were sent.
    said: usize,
    /// Whether the answer is finished.
    is_finished: bool,
}

impl Call {
    fn new(method: Option<&'static str>, input: &mut Input<'_>) -> Self {
        let request = vec![input.octet(); input.pick(&SIZES)];
        let messages = input.pick(&[1, 1, 0, 2, 4]);
        let sizes = if messages > 1 { &MANY_SIZES } else { &SIZES };
        let mut message = || vec![input.octet(); input.pick(sizes)];
        Self {
            method,
            request,
            messages: (0..messages).map(|_| message()).collect(),
            code: input.pick(&[Code::Ok, Code::Ok, Code::Aborted]),
            id: None,
            said: 0,
            is_finished: false,
        }
    }

    /// Returns the path and the content of the client's request.
    fn as_asked(&self) -> (String, Vec<u8>) {
        let path = self.method.unwrap_or(UNKNOWN).to_owned();
        (path, wire::message(&self.request))
    }

    /// Returns the content of the answer.
    fn reply(&self) -> Vec<u8> {
        let messages = self.messages.iter().filter(|_| self.method.is_some());
        let messages: Vec<Vec<u8>> = messages.map(|message| wire::message(message)).collect();
        messages.concat()
    }

    /// Sends as much of the answer as the server accepts, once the call was received.
    fn answer(&mut self, server: &mut Server) {
        let Some(id) = self.id.filter(|_| !self.is_finished) else {
            return;
        };
        while let Some(message) = self.messages.get(self.said) {
            if server.send(id, message, Time::ZERO).is_err() {
                return;
            }
            self.said += 1;
        }
        server.finish(id, Status::new(self.code, "words"), Time::ZERO);
        self.is_finished = true;
    }
}

/// Our side.
struct Serving {
    server: Server,
    pipe: Pipe,
    calls: Vec<Call>,
}

impl Serving {
    /// Reads, handles events, answers, and writes. Returns whether octets have moved.
    fn work(&mut self) -> bool {
        let has_read = self.pipe.read_into(&mut self.server);
        while let Some(event) = self.server.poll_event(Time::ZERO) {
            self.take(event);
        }
        for call in &mut self.calls {
            call.answer(&mut self.server);
        }
        let has_written = self.pipe.write_from(&mut self.server);
        let bound = CONNECTION_BOUND + self.calls.len() * CALL;
        assert!(self.server.mem_used() <= bound);
        has_read || has_written
    }

    fn take(&mut self, event: Incoming) {
        match event {
            Incoming::Called {
                call: id,
                method,
                message,
            } => {
                let mut calls = self.calls.iter_mut();
                let call = calls.find(|call| call.method == Some(method));
                let call = call.expect("a method that is called");
                assert!(message == call.request, "a request is whole");
                assert!(call.id.replace(id).is_none(), "a call is emitted once");
            }
            Incoming::Closed(ConnectionError::GoAwayReceived(_)) => {}
            event => panic!("unexpected event: {event:?}"),
        }
    }

    /// Compares what the client received with what was sent.
    fn check(&self, answers: &[Answer]) {
        assert_eq!(answers.len(), self.calls.len(), "every call is answered");
        for answer in answers {
            let mut calls = self.calls.iter();
            let call = calls.find(|call| call.as_asked().0 == answer.path);
            let call = call.expect("a call that was made");
            assert_eq!(call.is_finished, call.method.is_some());
            assert!(answer.reply == call.reply(), "a reply is whole");
            let code = call.method.map_or(Code::Unimplemented, |_| call.code);
            let status = answer.status.as_ref();
            let status = status.map(|status| Code::parse(status.as_bytes()));
            assert_eq!(status, Some(code));
        }
    }
}

/// The methods that are served: one call of each.
const METHODS: [&str; 3] = ["/a.B/One", "/a.B/Two", "/a.B/Three"];

/// A method that is not served.
const UNKNOWN: &str = "/a.B/Unknown";

/// The lengths if there are many messages: together as long as the largest alone (octets).
const MANY_SIZES: [usize; 8] = [0, 1, 100, 1000, 1, 100, 16_384, 20_000];

/// The largest request (octets).
const LARGEST_REQUEST: usize = 100_000;

/// The most that a call may hold: its request in a vector that doubles, and once more; or the
/// messages that wait for a window, up to the limit plus one, doubled (octets).
const CALL: usize = 400_000;

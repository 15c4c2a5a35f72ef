//! The `h2` crate serves our client, in memory: what one side sends whole, the other receives whole.
//!
//! An input is the server's settings, how much moves through the pipe at a time, and calls: what
//! each asks, and what the server answers. Nobody waits for a clock or a runtime: each side is
//! polled until both stand still.

mod server;

use plugind::grpc::{Broken, CallError, CallId, Client, Code, Event, Status};
use plugind::http2::ErrorCode;
use plugind::time::Time;

use self::server::{Answer, Kind, Server, Settings};
use super::CONNECTION_BOUND;
use super::input::Input;
use super::listener::Listener;
use super::pipe::Pipe;

/// Plays calls.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let size = input.pick(&PIPES);
    let settings = Settings::new(&mut input);
    let mut asked = Vec::new();
    for _ in 0..=input.below(MOST_CALLS) {
        let request = vec![input.octet(); input.pick(&SIZES)];
        asked.push((request, Answer::new(&mut input)));
    }
    let octets = asked
        .iter()
        .map(|(request, answer)| request.len() + answer.len());
    let pipe = Pipe::new(size.max(octets.sum::<usize>() / MOST_TURNS));
    let answers = asked.iter().map(|(_, answer)| answer.clone()).collect();
    let mut server = Server::new(pipe.clone(), &settings, answers);
    let mut play = Play::new(pipe);
    // A small window binds a client that has not heard of it: so `h2` has it, and so it must greet
    // first.
    if settings.is_narrow || input.coin() {
        play.run(&mut server);
    }
    for (request, answer) in asked {
        play.call(request, answer);
    }
    play.run(&mut server);
    play.check(&server);
}

/// Our side.
struct Play {
    client: Client,
    pipe: Pipe,
    listener: Listener,
    calls: Vec<Call>,
}

/// A call, what it asked, what the server answers, and what became of it.
struct Call {
    id: CallId,
    request: Vec<u8>,
    answer: Answer,
    outcome: Option<Result<Vec<u8>, CallError>>,
}

impl Play {
    fn new(pipe: Pipe) -> Self {
        Self {
            client: Client::new(Time::ZERO),
            pipe,
            listener: Listener::client(),
            calls: Vec::new(),
        }
    }

    /// Makes a call; its name is in the path, because the server may see them in another order.
    fn call(&mut self, request: Vec<u8>, answer: Answer) {
        let path = format!("/{}", self.calls.len());
        let deadline = Time::from_millis(1000);
        let id = self
            .client
            .unary(&path, &request, LARGEST_REPLY, deadline, Time::ZERO);
        self.calls.push(Call {
            id,
            request,
            answer,
            outcome: None,
        });
    }

    /// Lets both sides work until neither has anything to do.
    fn run(&mut self, server: &mut Server) {
        let mut still = 0;
        while still < 2 {
            let before = self.pipe.moved();
            self.work();
            server.work();
            if self.pipe.moved() == before {
                still += 1;
            } else {
                still = 0;
            }
        }
    }

    /// Writes, reads, and takes events.
    fn work(&mut self) {
        let written = self.pipe.we_write(self.client.transmit());
        self.listener.hear(&self.client.transmit()[..written]);
        self.client.sent(written, Time::ZERO);
        let read = self.pipe.we_read(self.client.recv_buf());
        self.client.received(read, Time::ZERO);
        while let Some(Event::Finished { call, result }) = self.client.poll_event(Time::ZERO) {
            let mut calls = self.calls.iter_mut();
            let call = calls.find(|other| other.id == call).expect("a call");
            assert!(call.outcome.replace(result).is_none(), "a call ends once");
        }
        assert!(self.client.mem_used() <= CONNECTION_BOUND + MOST_CALLS * CALL);
    }

    /// Holds what each side received to what the other sent. A server with a limit on streams may
    /// refuse calls that were made before the client knew of it: these are made again.
    fn check(&self, server: &Server) {
        assert_eq!(server.error(), None, "h2 finds fault with us");
        for (number, call) in self.calls.iter().enumerate() {
            let outcome = call.outcome.as_ref().expect("a call ends");
            assert_eq!(*outcome, call.answer.expected(), "call {number}");
            if let Some(request) = server.request(number) {
                let ours = [&frame_prefix(call.request.len())[..], &call.request].concat();
                assert!(*request == ours, "the request of call {number}");
            } else {
                assert!(call.answer.is_early, "call {number} never came");
            }
        }
    }
}

impl Answer {
    /// What a call with this answer must come to.
    fn expected(&self) -> Result<Vec<u8>, CallError> {
        match &self.kind {
            Kind::Message(reply) => Ok(reply.clone()),
            Kind::Status { code, .. } => {
                let code = Code::parse(code.to_string().as_bytes());
                Err(CallError::Status(Status::new(code, "no")))
            }
            Kind::Reset => Err(CallError::Reset(ErrorCode::INTERNAL_ERROR)),
            Kind::Nothing => Err(CallError::Broken(Broken::NoStatus)),
        }
    }

    /// How long it is (octets).
    fn len(&self) -> usize {
        match &self.kind {
            Kind::Message(reply) => reply.len(),
            _ => 0,
        }
    }
}

/// The five octets in front of a message.
fn frame_prefix(length: usize) -> [u8; 5] {
    let [l1, l2, l3, l4] = u32::try_from(length).expect("a size").to_be_bytes();
    [0, l1, l2, l3, l4]
}

/// How much moves through the pipe at a time (octets).
const PIPES: [usize; 6] = [100_000, 1, 7, 9, 100, 1000];

/// How often the two sides take turns, about, however little moves at a time.
const MOST_TURNS: usize = 30;

/// How long requests and replies are: around the limits of frames, windows and buffers (octets).
const SIZES: [usize; 8] = [0, 1, 100, 1000, 1, 100, 16_384, 70_000];

/// How many calls there are at most.
const MOST_CALLS: usize = 3;

/// The largest reply that calls accept (octets).
const LARGEST_REPLY: usize = 100_000;

/// What a call may hold: its request, and its reply in a vector that doubles, and once more (octets).
const CALL: usize = 400_000;

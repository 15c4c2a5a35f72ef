//! Our client with the `h2` crate as its server, in memory: one side receives what the other sends.
//!
//! An input is the server's settings, how much moves through the pipe at a time, and calls: the
//! request of each, and the server's answer. There is neither a clock nor a runtime: both sides are
//! polled until neither has anything to do.

mod server;

use plugind::grpc::{CallError, CallId, Client, Code, Event, ProtocolError, Status};
use plugind::http2::{Endpoint as _, ErrorCode};
use plugind::time::Time;

use self::server::{Answer, End, Requests, Settings};
use super::input::Input;
use super::listener::Listener;
use super::pipe::{PIPES, Pipe, SIZES, Tasks};
use super::{CONNECTION_BOUND, wire};

/// Plays calls.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let size = input.pick(&PIPES);
    let settings = Settings::new(&mut input);
    let mut asked = Vec::new();
    for _ in 0..=input.below(MOST_CALLS) {
        asked.push(Asked {
            request: vec![input.octet(); input.pick(&SIZES)],
            answer: Answer::new(&mut input),
            is_streaming: input.coin(),
        });
    }
    let octets = asked
        .iter()
        .map(|asked| asked.request.len() + asked.answer.len());
    let (pipe, theirs) = Pipe::new(size, octets.sum(), Listener::client());
    let answers = asked.iter().map(|asked| asked.answer.clone()).collect();
    let tasks = Tasks::default();
    let requests = server::start(&settings, theirs, answers, &tasks);
    let mut play = Play {
        client: Client::new(Time::ZERO),
        pipe,
        calls: Vec::new(),
    };
    // `h2` applies its small window also to a client that has not received its SETTINGS yet, so
    // these have to arrive first.
    if settings.is_narrow || input.coin() {
        tasks.run(|| play.work());
    }
    for asked in asked {
        play.call(asked);
    }
    tasks.run(|| play.work());
    tasks.clear();
    play.check(&requests);
}

/// Our side.
struct Play {
    client: Client,
    pipe: Pipe,
    calls: Vec<Call>,
}

/// The request of a call, and the server's answer.
struct Asked {
    request: Vec<u8>,
    answer: Answer,
    /// Whether any number of messages may arrive.
    is_streaming: bool,
}

/// A call, and its outcome.
struct Call {
    id: CallId,
    asked: Asked,
    messages: Vec<Vec<u8>>,
    outcome: Option<Outcome>,
}

/// The outcome of a call.
type Outcome = Result<(), CallError>;

impl Play {
    /// Makes a call; its number is in the path, because the server may receive calls in another
    /// order.
    fn call(&mut self, asked: Asked) {
        let path = format!("/{}", self.calls.len());
        let (client, request, now) = (&mut self.client, &asked.request, Time::ZERO);
        let deadline = Time::from_millis(1000);
        let id = if asked.is_streaming {
            client.server_streaming(&path, request, LARGEST_REPLY, Some(deadline), now)
        } else {
            client.unary(&path, request, LARGEST_REPLY, deadline, now)
        };
        self.calls.push(Call {
            id,
            asked,
            messages: Vec::new(),
            outcome: None,
        });
    }

    /// Writes, reads, and handles events. Returns whether octets have moved.
    fn work(&mut self) -> bool {
        let has_written = self.pipe.write_from(&mut self.client);
        let has_read = self.pipe.read_into(&mut self.client);
        while let Some(event) = self.client.poll_event(Time::ZERO) {
            self.take(event);
        }
        assert!(self.client.mem_used() <= CONNECTION_BOUND + MOST_CALLS * CALL);
        has_written || has_read
    }

    /// Records the progress of a call: a reply is the last message of its call.
    fn take(&mut self, event: Event) {
        let (id, message, outcome) = match event {
            Event::Message { call, message } => (call, Some(message), None),
            Event::Finished {
                call,
                result: Ok(reply),
            } => (call, Some(reply), Some(Ok(()))),
            Event::Finished {
                call,
                result: Err(error),
            } => (call, None, Some(Err(error))),
            Event::Closed { call, result } => (call, None, Some(result)),
        };
        let mut calls = self.calls.iter_mut();
        let call = calls.find(|call| call.id == id).expect("a call");
        assert!(call.outcome.is_none(), "a call ends once");
        call.messages.extend(message);
        call.outcome = outcome;
    }

    /// Compares what each side received with what the other sent. A server with a limit on streams
    /// may refuse calls that were made before the client knew the limit: these are retried.
    fn check(&self, requests: &Requests) {
        for (number, call) in self.calls.iter().enumerate() {
            let Asked {
                request, answer, ..
            } = &call.asked;
            let outcome = call.outcome.as_ref().expect("a call ends");
            assert_eq!(*outcome, call.asked.outcome(), "call {number}");
            if call.asked.is_streaming || outcome.is_ok() {
                assert!(
                    call.messages == answer.messages,
                    "the messages of call {number}"
                );
            }
            if let Some(theirs) = requests.borrow().get(&number) {
                assert!(
                    *theirs == wire::message(request),
                    "the request of call {number}"
                );
            } else {
                assert!(answer.is_early, "call {number} did not arrive");
            }
        }
    }
}

impl Asked {
    /// Returns the required outcome of a call with this answer.
    fn outcome(&self) -> Outcome {
        let messages = self.answer.messages.len();
        let broken = match self.answer.end {
            End::Reset => return Err(CallError::Reset(ErrorCode::INTERNAL_ERROR)),
            _ if messages > 1 && !self.is_streaming => ProtocolError::SecondMessage,
            End::Nothing => ProtocolError::NoStatus,
            End::Status(0) if messages == 0 && !self.is_streaming => ProtocolError::NoMessage,
            End::Status(0) => return Ok(()),
            End::Status(code) => {
                let code = Code::parse(code.to_string().as_bytes());
                return Err(CallError::Status(Status::new(code, "no")));
            }
        };
        Err(CallError::Protocol(broken))
    }
}

/// The most calls.
const MOST_CALLS: usize = 3;

/// The largest reply that calls accept (octets).
const LARGEST_REPLY: usize = 100_000;

/// The most that a call may hold: its request, and its reply twice in a vector that doubles
/// (octets).
const CALL: usize = 400_000;

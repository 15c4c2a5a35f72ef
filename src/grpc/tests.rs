//! Tests of what gRPC requires, with a test server that sends hand-written octets.

mod answers;
mod endings;
mod hostile;
mod limits;
mod metadata;
mod requests;
mod retry;
mod server;
mod streaming;

use super::{CallError, CallId, Client, Code, Event, Status};
use crate::http2::Endpoint as _;
use crate::http2::testing::{self as wire, ONE};
use crate::time::Time;

/// The path of all calls here.
const PATH: &str = "/pluginregistration.Registration/GetInfo";

/// A client, and the test server at its other end.
struct Server {
    client: Client,
    now: Time,
}

type Outcomes = Vec<(CallId, Result<Vec<u8>, CallError>)>;

impl Server {
    /// Returns a server that has exchanged SETTINGS with the client.
    fn connected(settings: &[(u16, u32)]) -> Self {
        let mut server = Self {
            client: Client::new(Time::ZERO),
            now: Time::ZERO,
        };
        assert!(server.send(&wire::settings(settings)).is_empty());
        server.receive();
        server
    }

    /// Returns a server that has received one request, on stream 1.
    fn with_call() -> (Self, CallId) {
        let mut server = Self::connected(&[]);
        let call = server.start_call(b"request");
        assert_eq!(server.receive(), ["HEADERS 1", "DATA 1 12 end"]);
        (server, call)
    }

    /// Makes the client start a unary call, with a reply limit of 100 octets and a deadline of one
    /// second.
    fn start_call(&mut self, message: &[u8]) -> CallId {
        let deadline = self.now + std::time::Duration::from_secs(1);
        self.client.unary(PATH, message, 100, deadline, self.now)
    }

    /// Sends octets to the client; returns the calls that ended.
    fn send(&mut self, mut octets: &[u8]) -> Outcomes {
        let mut outcomes = Vec::new();
        loop {
            octets = &octets[self.feed(octets)..];
            outcomes.extend(self.poll_outcomes());
            if octets.is_empty() || self.client.recv_buf().is_empty() {
                return outcomes;
            }
        }
    }

    /// Sends as many octets as the client has room for; returns their number.
    fn feed(&mut self, octets: &[u8]) -> usize {
        self.client.receive_from(octets, self.now)
    }

    fn receive(&mut self) -> Vec<String> {
        let octets = self.client.transmit().to_vec();
        self.client.sent(octets.len(), self.now);
        wire::frames_in(&octets)
    }

    fn wait(&mut self, millis: u64) -> Outcomes {
        self.now += std::time::Duration::from_millis(millis);
        self.client.handle_timeout(self.now);
        self.poll_outcomes()
    }

    fn poll_outcomes(&mut self) -> Outcomes {
        let mut outcomes = Vec::new();
        while let Some(Event::Finished { call, result }) = self.client.poll_event(self.now) {
            outcomes.push((call, result));
        }
        outcomes
    }
}

/// Returns a message with its prefix.
fn message(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("short");
    [&[0][..], &length.to_be_bytes(), content].concat()
}

fn reply(content: &[u8]) -> Vec<u8> {
    wire::data(ONE, &message(content), false)
}

fn trailers(fields: &[(&str, &str)]) -> Vec<u8> {
    wire::headers(ONE, fields, true)
}

/// Returns the result of a call to which the server sends this response.
fn outcome(answer: &[Vec<u8>]) -> Result<Vec<u8>, CallError> {
    let (mut server, call) = Server::with_call();
    let mut outcomes = server.send(&answer.concat());
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    let (ended, result) = outcomes.remove(0);
    assert_eq!(ended, call);
    result
}

fn code(answer: &[Vec<u8>]) -> Code {
    outcome(answer).expect_err("the call fails").code()
}

fn status(code: Code, message: &str) -> CallError {
    CallError::Status(Status::new(code, message))
}

//! The request in progress: opens a stream, prints its events, and shuts the connection down.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use plugind::escape;
use plugind::http2::{
    Connection, ConnectionError, Endpoint as _, ErrorCode, Event, Fields, OpenError, StreamId,
    Taken,
};
use plugind::time::Time;

use super::line::{Line, Stream};
use super::{Outcome, Request};

/// A request and its connection.
pub(super) struct Exchange<'a> {
    line: Line<Box<dyn Stream>>,
    connection: Connection,
    stream: StreamId,
    /// The part of the request's content that is not sent yet; `None` once its end is sent.
    body: Option<&'a [u8]>,
    /// The time for which the connection is kept after the answer.
    stay: Duration,
    /// The amount of content that was received.
    octets: usize,
    /// The outcome, once it is known.
    outcome: Option<Outcome>,
    /// The deadline for what is awaited now: the answer, other events, or the end of the
    /// connection.
    until: Time,
    /// Whether we have sent GOAWAY.
    is_leaving: bool,
}

impl<'a> Exchange<'a> {
    /// Opens the stream: the octets to be written begin with the connection preface.
    pub(super) fn begin(
        line: Line<Box<dyn Stream>>,
        request: &'a Request,
    ) -> Result<Self, OpenError> {
        let now = line.now();
        let mut connection = Connection::client(now);
        let body = Some(request.body.as_bytes()).filter(|body| !body.is_empty());
        let fields: [(&str, &[u8]); 4] = [
            (":method", request.method.as_bytes()),
            (":scheme", b"http"),
            (":path", request.path.as_bytes()),
            (":authority", request.authority.as_bytes()),
        ];
        let stream = connection.open(&fields, body.is_none(), now)?;
        Ok(Self {
            line,
            connection,
            stream,
            body,
            stay: request.stay,
            octets: 0,
            outcome: None,
            until: Time::ZERO + request.timeout,
            is_leaving: false,
        })
    }

    /// Runs until the connection has ended, or a deadline has expired.
    pub(super) fn run(mut self) -> io::Result<Outcome> {
        loop {
            let now = self.line.now();
            self.connection.handle_timeout(now);
            while self.poll_event(now) {}
            self.send_body(now);
            if self.connection.is_ended() && self.connection.transmit().is_empty() {
                break;
            }
            if now >= self.until {
                if self.is_leaving {
                    break;
                }
                self.leave(now);
            }
            self.line.turn(&mut self.connection, self.until)?;
        }
        let until = self.line.now() + GOAWAY_GRACE;
        self.line.hang_up(until);
        Ok(self.outcome.unwrap_or(Outcome::NotReached))
    }

    /// Handles one event, and prints it. Returns whether there was one.
    fn poll_event(&mut self, now: Time) -> bool {
        let Some(event) = self.connection.poll_event(now) else {
            return false;
        };
        let outcome = match event {
            Event::Response {
                status, end_stream, ..
            } => {
                say("head", status);
                show(self.connection.fields());
                end_stream.then_some(Outcome::Answered)
            }
            Event::Data { stream, end_stream } => {
                let octets = self.connection.content().len();
                self.octets += octets;
                self.connection.consume(stream, octets, now);
                end_stream.then_some(Outcome::Answered)
            }
            Event::Trailers { .. } => {
                let fields = self.connection.fields();
                say("trailers", fields.iter().count());
                show(fields);
                Some(Outcome::Answered)
            }
            Event::Reset { code, .. } => {
                say("reset", code);
                Some(Outcome::StreamFailed)
            }
            Event::Failed { error, .. } => {
                say("failed", error);
                Some(Outcome::StreamFailed)
            }
            Event::GoAway { last_stream, code } => {
                say("goaway", format_args!("{code}, last stream {last_stream}"));
                None
            }
            // Only servers receive requests.
            Event::Request { .. } => None,
            Event::Closed(error) => {
                say("closed", &error);
                self.outcome = Some(judge(&error, self.outcome));
                None
            }
        };
        if let Some(outcome) = outcome {
            say("content", format_args!("{} octets", self.octets));
            self.outcome = Some(outcome);
            self.until = now + self.stay;
        }
        true
    }

    /// Sends as much of the content as the windows allow.
    fn send_body(&mut self, now: Time) {
        if let Some(body) = self.body {
            self.body = match self.connection.send_data(self.stream, body, true, now) {
                Taken::All => None,
                Taken::Some(octets) => Some(&body[octets..]),
            };
        }
    }

    /// Shuts the connection down: the time is up, or nothing more is needed.
    fn leave(&mut self, now: Time) {
        let code = if self.outcome.is_none() {
            say("timeout", "no answer");
            ErrorCode::CANCEL
        } else {
            // If the answer is complete before the end of the request, the rest of the request is
            // not needed.
            ErrorCode::NO_ERROR
        };
        self.connection.reset(self.stream, code, now);
        self.connection.shutdown(now);
        self.is_leaving = true;
        self.until = now + GOAWAY_GRACE;
    }
}

/// Returns the outcome of a request whose connection ended, given its outcome before that.
fn judge(error: &ConnectionError, before: Option<Outcome>) -> Outcome {
    match (error, before) {
        (ConnectionError::Violation(_), _) => Outcome::ConnectionFailed,
        (_, Some(outcome)) => outcome,
        (ConnectionError::TimedOut(_) | ConnectionError::ShutDown, None) => Outcome::NotReached,
        // The server announced in time that it will not process the request.
        (ConnectionError::GoAwayReceived(gone), None) if !gone.is_error() => Outcome::StreamFailed,
        (_, None) => Outcome::ConnectionFailed,
    }
}

/// Prints an event.
fn say(what: &str, about: impl Display) {
    println!("{what:<10} {about}");
}

/// Prints fields, which are the server's text.
fn show(fields: &Fields) {
    for (name, value) in fields.iter() {
        let (name, value) = (escape::bytes(name), escape::bytes(value));
        println!("           {name}: {value}");
    }
}

/// The time that a server has to react to GOAWAY.
const GOAWAY_GRACE: Duration = Duration::from_secs(1);

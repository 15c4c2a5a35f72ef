//! One HTTP/2 request and its outcome: to examine a server with, and for test suites that check a
//! client against RFC 9113.
//!
//! ```text
//! cargo run --example request -- [OPTIONS] TARGET
//!
//!   TARGET             HOST:PORT/PATH, with or without http:// in front and /PATH behind;
//!                      or the path of a socket, which has no colon in it
//!   --method METHOD    GET, or POST when there is a body
//!   --path PATH        of the request: the target's, or /
//!   --body TEXT        what is sent behind the headers
//!   --timeout SECONDS  how long the answer may take: 10
//!   --stay SECONDS     how long the connection is kept behind the answer: 0
//! ```
//!
//! HTTP/2 starts with the first octet, without TLS. A line is printed for each event, and the exit
//! code is the outcome: see [`Outcome`].

mod exchange;
#[path = "../line.rs"]
mod line;
mod target;

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lexopt::prelude::{Long, Value, ValueExt as _};
use plugind::escape;

use self::exchange::Exchange;
use self::line::Line;
use self::target::Target;

/// The outcome of the request; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The whole answer was received, whatever its status.
    Answered = 0,
    /// The stream failed: it was reset or refused, or its answer broke a rule.
    StreamFailed = 1,
    /// The arguments make no sense, or no request.
    WrongUsage = 2,
    /// The connection failed: the server does not speak HTTP/2, broke a rule, found one broken, or
    /// closed the connection.
    ConnectionFailed = 3,
    /// Nothing listens there, or the server was too slow.
    NotReached = 4,
}

/// The parameters of the request.
#[derive(Debug)]
struct Request {
    method: String,
    path: String,
    authority: String,
    body: String,
    timeout: Duration,
    stay: Duration,
}

fn main() -> ExitCode {
    let outcome = match arguments() {
        Ok((target, request)) => ask(&target, &request).unwrap_or_else(|error| {
            complain(&error);
            Outcome::NotReached
        }),
        Err(error) => {
            complain(&*error);
            Outcome::WrongUsage
        }
    };
    ExitCode::from(outcome as u8)
}

/// Connects, and makes the request.
fn ask(target: &Target, request: &Request) -> io::Result<Outcome> {
    let start = Instant::now();
    let line = Line::new(target.connect(request.timeout)?, start);
    match Exchange::begin(line, request) {
        Ok(exchange) => exchange.run(),
        Err(error) => {
            complain(&error);
            Ok(Outcome::WrongUsage)
        }
    }
}

fn arguments() -> Result<(Target, Request), Box<dyn Error>> {
    let (mut method, mut path, mut body) = (None, None, String::new());
    let (mut target, mut timeout, mut stay) = (None, 10, 0);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("method") => method = Some(parser.value()?.string()?),
            Long("path") => path = Some(parser.value()?.string()?),
            Long("body") => body = parser.value()?.string()?,
            Long("timeout") => timeout = parser.value()?.parse()?,
            Long("stay") => stay = parser.value()?.parse()?,
            Value(value) if target.is_none() => target = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let (target, of_target) = Target::parse(&target.ok_or("there is no target")?);
    let usual = if body.is_empty() { "GET" } else { "POST" };
    let request = Request {
        method: method.unwrap_or_else(|| usual.to_owned()),
        path: path.unwrap_or(of_target),
        authority: target.authority().to_owned(),
        body,
        timeout: Duration::from_secs(timeout),
        stay: Duration::from_secs(stay),
    };
    Ok((target, request))
}

/// Prints an error in one line.
fn complain(error: &dyn Error) {
    eprintln!("request: {}", escape::text(&error.to_string()));
}

//! The client of a running daemon: one HTTP/1.0 request for each connection to its API socket.
//!
//! A program other than plugind may own the socket, so every response is bounded: it has to begin
//! and, unless it follows changes, to continue in time; the head, a line and a document have a
//! maximum length.

use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::str;
use std::time::Duration;

use serde_json::Value;

use super::failure::{Failure, FailureKind, Result};
use super::json::{parse, parse_object};
use crate::config::API_BODY;
use crate::daemon::client::{Connection, Deadline, WaitError};
use crate::escape;
use crate::handler::DialError;

/// The API socket of a daemon, and the time limit for its responses.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: PathBuf,
    /// The time for a response to begin and, if it does not follow changes, to continue.
    pub(super) timeout: Duration,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// Whether the request changes something: its method is then POST, else GET.
    pub(super) changes: bool,
    /// The path and the query.
    pub(super) target: &'a str,
    /// Whether the response continues with each change, until the daemon stops or, for a watch,
    /// sends EXPIRED.
    pub(super) follows: bool,
    /// The deadline for the whole response, besides the time limits of the client.
    pub(super) until: Deadline,
}

/// The response to a request, as it arrives.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) connection: Connection,
    status: u16,
    timeout: Option<Duration>,
    /// The deadline for the whole response.
    pub(super) until: Deadline,
    /// The octets of the head, then of the body, that were received but not returned yet.
    received: Vec<u8>,
    /// The number of octets of the body that were not received yet, according to Content-Length.
    missing: usize,
    is_complete: bool,
}

impl<'a> Request<'a> {
    /// Returns a request to read a document.
    pub(super) fn get(target: &'a str) -> Self {
        Self {
            changes: false,
            target,
            follows: false,
            until: Deadline::NEVER,
        }
    }

    /// Returns a request to read the current state, and then each change.
    pub(super) fn follow(target: &'a str) -> Self {
        Self {
            follows: true,
            ..Self::get(target)
        }
    }
}

impl Client {
    /// Sends a request and waits for the head of the response. Returns an error if the response has
    /// a status other than 200.
    pub(super) fn send_request(&self, request: &Request<'_>) -> Result<Response> {
        let opened = Connection::open(&self.socket, request.follows);
        let mut connection = opened.map_err(|error| self.connect_failure(&error))?;
        let (method, length) = if request.changes {
            ("POST", "Content-Length: 0\r\n")
        } else {
            ("GET", "")
        };
        let target = request.target;
        let head = format!("{method} {target} HTTP/1.0\r\nHost: localhost\r\n{length}\r\n");
        connection.send(head.as_bytes()).map_err(read_error)?;
        let mut response = Response {
            connection,
            status: 0,
            timeout: Some(self.timeout),
            until: if request.follows {
                request.until
            } else {
                let time = response_time_limit(self.timeout);
                request.until.min(Deadline::after(time))
            },
            received: Vec::new(),
            missing: 0,
            is_complete: false,
        };
        while response.status == 0 {
            response.receive_more()?;
            let parsed = response.parse_head();
            // A retry would not help: a peer that does not speak HTTP will not do so later.
            parsed.map_err(|why| Failure::new(FailureKind::Failed, read_error(why).why))?;
        }
        if request.follows {
            response.timeout = None;
        }
        match response.status {
            200 => Ok(response),
            _ => Err(response.into_failure(request.changes || request.target.contains("?name="))),
        }
    }

    /// Sends a request and returns the body of the response.
    pub(super) fn request_body(&self, request: &Request<'_>) -> Result<Vec<u8>> {
        self.send_request(request)?.read_rest(API_BODY)
    }

    /// Sends a request and returns the JSON of the response.
    pub(super) fn request_json(&self, request: &Request<'_>) -> Result<Value> {
        parse_object(&self.request_body(request)?)
    }

    /// Returns the failure that reports a connection error.
    fn connect_failure(&self, error: &DialError) -> Failure {
        let socket = escape::path(&self.socket);
        let (kind, why) = match error {
            DialError::Gone | DialError::Refused => {
                let remedy = "start plugind run, or name another socket with --socket";
                let why = format!("no daemon at {socket}: {error}; {remedy}");
                return Failure::new(FailureKind::NoDaemon, why);
            }
            DialError::Busy => (FailureKind::Interrupted, ""),
            DialError::Denied => (
                FailureKind::Failed,
                "; run as root or as a member of its group",
            ),
            _ => (FailureKind::Failed, ""),
        };
        Failure::new(kind, format!("cannot connect to {socket}: {error}{why}"))
    }
}

impl Response {
    /// Waits for the next line, and returns it without its line end, or `None` after the last one.
    /// Returns an error if the response ends in the middle of a line.
    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let new = &self.received[searched..];
            if let Some(at) = new.iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.received.drain(..=searched + at).collect();
                line.pop();
                return Ok(Some(line));
            }
            searched = self.received.len();
            if searched > MAX_LINE {
                return Err(response_too_long());
            }
            if self.is_complete {
                return match searched {
                    0 => Ok(None),
                    // A daemon that is killed can cut off the last line of a response that follows
                    // changes.
                    _ if self.timeout.is_none() => Err(Failure::daemon_stopped()),
                    _ => Err(read_error(TRUNCATED)),
                };
            }
            self.receive_more()?;
        }
    }

    /// Waits for the next line, and returns its JSON object, or `None` after the last line.
    pub(super) fn next_json(&mut self) -> Result<Option<Value>> {
        let line = self.next_line()?;
        line.map(|line| parse_object(&line)).transpose()
    }

    /// Returns whether a whole line was received and not returned.
    pub(super) fn has_line(&self) -> bool {
        self.received.contains(&b'\n')
    }

    /// Receives the rest of the body and returns it. Returns an error if it exceeds `limit` octets.
    fn read_rest(mut self, limit: usize) -> Result<Vec<u8>> {
        while !self.is_complete {
            self.receive_more()?;
            if self.received.len() > limit {
                return Err(response_too_long());
            }
        }
        Ok(self.received)
    }

    /// Receives the next octets of the response, or marks the response as complete at its end.
    /// Returns an error if the connection ends or a deadline passes before that.
    fn receive_more(&mut self) -> Result<()> {
        let mut buf = [0; 16 * 1024];
        let until = match self.timeout {
            Some(timeout) => self.until.min(Deadline::after(timeout)),
            None => self.until,
        };
        let received = self.connection.receive(&mut buf, until);
        let len = received.map_err(|error| match error {
            WaitError::TimedOut => {
                let limit = self.timeout.unwrap_or_default();
                read_error(if self.until.is_over() {
                    format!("it is not complete after {:?}", response_time_limit(limit))
                } else {
                    format!("the daemon does not respond within {limit:?}")
                })
            }
            WaitError::OutputClosed => Failure::new(FailureKind::OutputClosed, ""),
            WaitError::Failed(error) => read_error(error),
        })?;
        self.received.extend_from_slice(&buf[..len]);
        self.missing = self.missing.saturating_sub(len);
        self.is_complete = len == 0;
        match self.status {
            _ if len > 0 => Ok(()),
            0 if self.received.is_empty() => Err(read_error(NO_RESPONSE)),
            1.. if self.missing == 0 => Ok(()),
            _ => Err(read_error(TRUNCATED)),
        }
    }

    /// Parses and removes the head, and sets the status. Does nothing while the head is incomplete.
    fn parse_head(&mut self) -> std::result::Result<(), &'static str> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut head = httparse::Response::new(&mut fields);
        let len = match head.parse(&self.received) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) if self.received.len() > MAX_HEAD => {
                return Err(LONG_HEAD);
            }
            Ok(httparse::Status::Partial) => return Ok(()),
            Err(httparse::Error::TooManyHeaders) => return Err(LONG_HEAD),
            Err(_) => return Err(NOT_HTTP),
        };
        let mut length = 0_usize;
        for field in head.headers.iter() {
            if field.name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(FRAMING);
            }
            if field.name.eq_ignore_ascii_case("content-length") {
                let value = str::from_utf8(field.value).map_err(|_| FRAMING)?;
                length = value.parse().map_err(|_| FRAMING)?;
            }
        }
        let status = head.code.filter(|status| *status >= 200);
        self.status = status.ok_or(NOT_HTTP)?;
        self.received.drain(..len);
        self.missing = length.saturating_sub(self.received.len());
        Ok(())
    }

    /// Returns the failure for a response whose status is not 200. `names`: the status 404 means
    /// that the plugin, socket or resource in the request does not exist.
    fn into_failure(mut self, names: bool) -> Failure {
        // The daemon may refuse a request that it has not read completely: then the connection is
        // reset after the body, and `receive_more` returns an error.
        while !self.is_complete && self.received.len() <= MAX_LINE && self.receive_more().is_ok() {}
        let (status, body) = (self.status, &*self.received);
        let json: Value = parse(body).unwrap_or_default();
        let why = match &json["error"] {
            Value::String(error) => error.as_bytes(),
            _ => body.trim_ascii(),
        };
        let lines = why.split(|&byte| byte == b'\n').map(escape::composed_text);
        let lines: Vec<_> = lines.collect();
        if status == 422 && !why.is_empty() {
            // One line for each problem of the configuration, as in the output of `check-config`.
            return Failure::new(FailureKind::BadConfig, lines.join("\nplugind: "));
        }
        let kind = match status {
            404 if names => FailureKind::NotFound,
            422 => FailureKind::BadConfig,
            409 => FailureKind::Conflict,
            503 => FailureKind::Interrupted,
            _ => FailureKind::Failed,
        };
        let why = match (&json["error"], lines.join("\\n")) {
            (Value::String(_), why) => why,
            (_, why) if why.is_empty() => format!("the daemon returned {status}"),
            (_, why) => format!("the daemon returned {status}: {why}"),
        };
        Failure::new(kind, why)
    }
}

/// Percent-encodes a text for a path segment or a query: all octets except the unreserved
/// characters (RFC 3986 §2.3).
pub(super) fn percent_encode(text: &[u8]) -> String {
    let mut encoded = String::new();
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Prints to standard output, and flushes it.
pub(super) fn print(text: impl AsRef<[u8]>) -> Result<()> {
    let mut out = io::stdout();
    let printed = out.write_all(text.as_ref()).and_then(|()| out.flush());
    printed.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(FailureKind::OutputClosed, ""),
        _ => Failure::new(
            FailureKind::Failed,
            format!("cannot write to standard output: {error}"),
        ),
    })
}

/// Does the same for a command whose exit status tells more than its output: a closed output is not
/// a failure.
pub(super) fn print_unless_closed(text: impl AsRef<[u8]>) -> Result<()> {
    print(text).or_else(|failure| match failure.kind {
        FailureKind::OutputClosed => Ok(()),
        _ => Err(failure),
    })
}

/// Returns the failure for a response that cannot be read; a retry may succeed.
fn read_error(why: impl Display) -> Failure {
    Failure::new(
        FailureKind::Interrupted,
        format!("cannot read the daemon's response: {why}"),
    )
}

fn response_too_long() -> Failure {
    Failure::new(FailureKind::Failed, "the daemon's response is too long")
}

/// Returns the time within which a response that does not follow changes must be complete: at least
/// the time within which it must begin.
fn response_time_limit(timeout: Duration) -> Duration {
    timeout.max(RESPONSE_TIME)
}

/// The usual [`Client::timeout`]. The daemon responds within milliseconds, even when it is busy.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The minimum time limit for a complete response that does not follow changes.
const RESPONSE_TIME: Duration = Duration::from_secs(30);

/// The maximum length of a line, and of the body of an error, in bytes. A record usually has about
/// 500 bytes, and some 200 KiB if its plugin reports the longest versions that are accepted.
const MAX_LINE: usize = 1024 * 1024;

const NOT_HTTP: &str = "the response is not HTTP; does another program own the socket?";
const LONG_HEAD: &str = "the head of the response is longer than 16 KiB or 64 fields";
const FRAMING: &str = "the framing of the response is invalid";
const NO_RESPONSE: &str = "the connection was closed without a response";
const TRUNCATED: &str = "the connection was closed before the response was complete";

/// The maximum number of fields in a head; plugind sends about four.
const MAX_FIELDS: usize = 64;

/// The maximum length of a head in bytes; that of plugind has about 150.
const MAX_HEAD: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_response_may_take_as_long_as_its_client_waits() {
        assert_eq!(response_time_limit(RESPONSE_TIMEOUT), RESPONSE_TIME);
        let hour = Duration::from_secs(3600);
        assert_eq!(
            response_time_limit(hour),
            hour,
            "a command waits for devices"
        );
    }

    #[test]
    fn a_silent_or_stalled_daemon_times_out() {
        let long = "/".repeat(LONGER_THAN_BUFFER);
        for (head, target, changes) in [
            ("", "/", false),
            ("", "/", true),
            ("", &long, false),
            ("HTTP/1.1 200 OK\r\n\r\n{", "/", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("api.sock");
            let listener = UnixListener::bind(&socket).unwrap();
            let timeout = Duration::from_millis(20);
            let client = Client { socket, timeout };
            let mut daemon = None;
            let asked = thread::scope(|scope| {
                let mut request = Request::get(target);
                request.changes = changes;
                let asked = scope.spawn(move || client.request_json(&request));
                let (stream, _) = daemon.insert(listener.accept().unwrap());
                stream.write_all(head.as_bytes()).unwrap();
                asked.join().unwrap()
            });
            let why = "cannot read the daemon's response: the daemon does not respond within 20ms";
            assert_eq!(
                asked,
                Err(Failure::new(FailureKind::Interrupted, why)),
                "{head}"
            );
        }
    }

    #[test]
    fn a_refusal_is_shown_if_the_rest_of_the_request_is_unread() {
        for len in [1, LONGER_THAN_BUFFER] {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("api.sock");
            let listener = UnixListener::bind(&socket).unwrap();
            let timeout = RESPONSE_TIMEOUT;
            let target = "/".repeat(len);
            let asked = thread::spawn(move || {
                Client { socket, timeout }.request_json(&Request::get(&target))
            });
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0]).unwrap();
            write!(stream, "HTTP/1.1 431 A\r\n\r\n{{\"error\":\"too long\"}}").unwrap();
            drop(stream);
            let expected = Failure::new(FailureKind::Failed, "too long");
            assert_eq!(asked.join().unwrap(), Err(expected), "{len}");
        }
    }

    /// The length of a request that does not fit into the kernel's buffer for a Unix socket.
    const LONGER_THAN_BUFFER: usize = 16 * 1024 * 1024;

    #[test]
    fn all_octets_but_unreserved_ones_are_encoded() {
        assert_eq!(percent_encode(b"a-Z0._~"), "a-Z0._~");
        assert_eq!(percent_encode(b"example.com/gpu"), "example.com%2Fgpu");
        assert_eq!(
            percent_encode(b"a+b &=?#%\xff\n"),
            "a%2Bb%20%26%3D%3F%23%25%FF%0A"
        );
    }
}

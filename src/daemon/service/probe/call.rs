//! A connection for a probe, on which `GetInfo` is called or nothing.
//!
//! Shell. Does for one plugin, blocking, what the daemon does for many plugins at once.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token};
use prost::Message as _;

use super::Peer;
use crate::config;
use crate::daemon::clock::Clock;
use crate::daemon::connection::{self, Connection};
use crate::daemon::fs::dial::dial;
use crate::grpc::{CallError, Client, Event};
use crate::handler::DialError;
use crate::http2::{Endpoint as _, Settings};
use crate::proto::pluginregistration::{InfoRequest, registration};
use crate::time::Time;

/// A connection, and the call on it, if one is made.
#[derive(Debug)]
pub(super) struct Call {
    clock: Clock,
    /// The deadline that the user set.
    until: Option<Time>,
    wait: Wait,
    connection: Connection,
    client: Client,
    /// The result of the call, once it has ended.
    result: Option<Result<Vec<u8>, CallError>>,
}

impl Call {
    /// Connects to the socket at that path.
    pub(super) fn dial(
        path: &Path,
        clock: Clock,
        until: Option<Time>,
    ) -> Result<(Self, Option<Peer>), DialError> {
        let mut wait = Wait::new().map_err(|error| other(&error))?;
        let mut stream = dial_patiently(path, &mut wait, clock, until)?;
        let peer = connection::peer(&stream).map(|peer| Peer {
            pid: peer.pid(),
            uid: peer.uid(),
            name: name_of(peer.pid()),
        });
        wait.register(&mut stream).map_err(|error| other(&error))?;
        let call = Self {
            clock,
            until,
            wait,
            connection: Connection::new(stream),
            client: Client::new(clock.now()),
            result: None,
        };
        Ok((call, peer))
    }

    /// Starts the `GetInfo` call.
    pub(super) fn get_info(&mut self) {
        let now = self.clock.now();
        let request = InfoRequest {}.encode_to_vec();
        let deadline = now + config::GET_INFO_TIMEOUT;
        let limit = config::MAX_GET_INFO_REPLY;
        self.client
            .start_deadlines_when_ready(now + config::DIAL_TIMEOUT);
        let _only_call = self
            .client
            .unary(registration::GET_INFO, &request, limit, deadline, now);
    }

    /// Waits for the SETTINGS of the peer and returns them.
    pub(super) fn settings(&mut self) -> Result<Settings, CallError> {
        loop {
            if let Some(settings) = self.client.peer_settings() {
                return Ok(settings.clone());
            }
            if let Some(Err(error)) = &self.result {
                return Err(error.clone());
            }
            if let Some(error) = self.client.closing() {
                let written = false;
                return Err(CallError::Connection { error, written });
            }
            self.advance();
        }
    }

    /// Waits until the call has ended. Returns the octets of the reply, or the reason why there is
    /// none.
    pub(super) fn reply(&mut self) -> Result<Vec<u8>, CallError> {
        loop {
            if let Some(result) = &self.result {
                return result.clone();
            }
            self.advance();
        }
    }

    /// Sends GOAWAY, and closes the connection.
    pub(super) fn hang_up(mut self) {
        self.client.close(self.clock.now());
        self.connection.hang_up(self.client.transmit());
    }

    /// Moves the bytes that can be moved. If there are none, waits until there are or a deadline
    /// passes.
    fn advance(&mut self) {
        let moved = self.connection.pump(&mut self.client, self.clock.now());
        let now = self.clock.now();
        self.client.handle_timeout(now);
        if let Some(Event::Finished { result, .. }) = self.client.poll_event(now) {
            self.result = Some(result);
        } else if self.until.is_some_and(|until| until <= now) {
            self.result = Some(Err(CallError::DeadlineExceeded));
        } else if !moved {
            let deadline = self
                .client
                .poll_timeout()
                .into_iter()
                .chain(self.until)
                .min();
            let timeout = deadline.map(|at| self.clock.until(at));
            if self.wait.for_readiness(timeout) {
                self.connection.set_readable();
            }
        }
    }
}

/// Connects. While the listener's backlog is full, retries for as long as the daemon would.
///
/// A socket without a listener is an error at once: a user wants to see that, and can probe again.
fn dial_patiently(
    path: &Path,
    wait: &mut Wait,
    clock: Clock,
    until: Option<Time>,
) -> Result<UnixStream, DialError> {
    let deadline = clock.now() + config::DIAL_TIMEOUT;
    let deadline = until.map_or(deadline, |until| until.min(deadline));
    loop {
        match dial(path) {
            Err(DialError::Busy) if clock.now() < deadline => {
                wait.for_readiness(Some(config::DIAL_RETRY.first));
            }
            result => return result,
        }
    }
}

/// Returns the name of a process, or `None` if that cannot be read.
fn name_of(pid: i32) -> Option<Vec<u8>> {
    let mut name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Some(name)
}

/// Returns the dial error for a system error that does not have a variant of its own.
fn other(error: &io::Error) -> DialError {
    DialError::Other(error.to_string())
}

/// A poll loop for one socket.
#[derive(Debug)]
struct Wait {
    poll: Poll,
    events: Events,
}

impl Wait {
    fn new() -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(1),
        })
    }

    fn register(&mut self, stream: &mut UnixStream) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(stream, Token(0), interest)
    }

    /// Waits until the socket is ready or the time is over. Returns whether there may be something
    /// to read.
    fn for_readiness(&mut self, timeout: Option<Duration>) -> bool {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return false,
            result => result.expect("waiting on a descriptor of our own cannot fail"),
        }
        let is_readable = |event: &mio::event::Event| event.is_readable() || event.is_read_closed();
        self.events.iter().any(is_readable)
    }
}

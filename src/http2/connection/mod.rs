//! The machine: one end of one connection, a client's or a server's.
//!
//! Pure. [`Connection`] has the verbs; behind it, `core` has the state, `receive` one function for
//! each kind of frame, `accept` what is special about requests, and `send` what the caller wants
//! done.
//!
//! ```text
//!                 preface                    SETTINGS           GOAWAY, shutdown()
//! AwaitingPreface --------> AwaitingSettings ---------> Running --------------------+
//!        |                       |                         |                        |
//!        | no HTTP/2, too late   | too late                | a violation, EOF,      | the last
//!        |                       |                         | too late               | stream ends
//!        v                       v                         v                        v
//!      Ended { error } <---------+-------------------------+------------------------+
//! ```
//!
//! An ended connection reads nothing more. What it still has to write is the GOAWAY that tells the
//! peer why.

mod accept;
mod core;
mod event;
mod receive;
mod send;

use std::time::Duration;

use self::core::Core;
pub use self::event::Event;
use self::event::Happened;
pub use self::send::{HeadersError, OpenError, Taken};
use super::deframer::Deframer;
use super::endpoint::Endpoint;
use super::error::{Awaited, ConnectionError};
use super::frame::Frame;
use super::preface::Verdict;
use super::role::Role;
use super::settings::Settings;
use crate::config;
use crate::time::Time;

/// One end of an HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    input: Deframer,
    /// Whether the input has ended.
    eof: bool,
    core: Core,
    phase: Phase,
}

/// How far the connection has come.
#[derive(Debug)]
enum Phase {
    /// The peer has not yet shown that it speaks HTTP/2.
    AwaitingPreface {
        /// The time for its SETTINGS.
        handshake: Handshake,
    },
    /// It has; its first frame, which is SETTINGS, is not complete.
    AwaitingSettings {
        /// The time for the rest of it.
        handshake: Handshake,
    },
    /// Frames are exchanged.
    Running,
    /// Over.
    Ended {
        /// Why.
        error: ConnectionError,
        /// Whether [`Event::Closed`] was delivered.
        told: bool,
    },
}

/// The time that a peer has for its SETTINGS.
#[derive(Debug, Clone, Copy)]
struct Handshake {
    /// When the connection was made.
    began: Time,
    /// When its SETTINGS must have come.
    deadline: Time,
}

impl Handshake {
    /// Returns how long the peer had, in tenths of a second: two attempts that differ by the time
    /// that dialling took fail for the same reason.
    fn within(self) -> Duration {
        let millis = self.deadline.saturating_since(self.began).as_millis();
        let tenths = u64::try_from((millis + 50) / 100).unwrap_or(u64::MAX);
        Duration::from_millis(tenths.saturating_mul(100))
    }
}

impl Connection {
    /// A client's end of a connection that was just made. Its preface waits in
    /// [`transmit`](Self::transmit), so that it can go out together with the first request. The
    /// server has [`DIAL_TIMEOUT`](config::DIAL_TIMEOUT) for its SETTINGS, unless
    /// [`set_handshake_deadline`](Self::set_handshake_deadline) says otherwise.
    pub fn client(now: Time) -> Self {
        Self::new(Role::Client, now, config::DIAL_TIMEOUT)
    }

    /// A server's end of a connection that was just accepted.
    pub fn server(now: Time) -> Self {
        Self::new(Role::Server, now, config::HANDSHAKE_TIMEOUT)
    }

    fn new(role: Role, now: Time, handshake_timeout: Duration) -> Self {
        Self {
            input: Deframer::new(),
            eof: false,
            core: Core::new(role, now),
            phase: Phase::AwaitingPreface {
                handshake: Handshake {
                    began: now,
                    deadline: now + handshake_timeout,
                },
            },
        }
    }

    /// Sets when the peer's SETTINGS must have come; does nothing when they have.
    pub fn set_handshake_deadline(&mut self, at: Time) {
        if let Phase::AwaitingPreface { handshake } | Phase::AwaitingSettings { handshake } =
            &mut self.phase
        {
            handshake.deadline = at;
        }
    }

    /// The next event; `None` until something is received or written.
    pub fn poll_event(&mut self, now: Time) -> Option<Event<'_>> {
        self.core.at(now);
        let happened = self.advance();
        // Also when nothing happened that the caller has to know: it may have been answered.
        self.core.watch_writing();
        Some(happened?.event(&self.core.fields, |at| self.input.payload(at)))
    }

    /// Whether the connection is over.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }

    /// Whether no stream can be opened any more.
    pub fn is_closing(&self) -> bool {
        self.is_ended() || self.core.is_closing()
    }

    /// Why no stream can be opened any more, once that is so.
    pub fn closing(&self) -> Option<ConnectionError> {
        match &self.phase {
            Phase::Ended { error, .. } => Some(error.clone()),
            _ => self.core.closing(),
        }
    }

    /// What the peer wants, once it said so.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.core.peer.as_ref()
    }

    /// Works on what was received until something happens that the caller has to know.
    fn advance(&mut self) -> Option<Happened> {
        loop {
            if let Phase::Ended { error, told } = &mut self.phase {
                let untold = !std::mem::replace(told, true);
                return untold.then(|| Happened::Closed(error.clone()));
            }
            if let Some(error) = self.core.drained() {
                self.end(error);
                continue;
            }
            match self.receive_frame() {
                Ok(Progress::Happened(happened)) => return Some(happened),
                Ok(Progress::Silent) => {}
                Ok(Progress::Blocked) => return None,
                Err(error) => self.end(error),
            }
        }
    }

    /// Takes one frame out of the input, if there is one and room to answer it.
    fn receive_frame(&mut self) -> Result<Progress, ConnectionError> {
        if !self.core.outbox.has_room_to_answer() {
            return Ok(Progress::Blocked);
        }
        if let Phase::AwaitingPreface { handshake } = self.phase {
            if !self.take_preface()? {
                return Ok(Progress::Blocked);
            }
            self.phase = Phase::AwaitingSettings { handshake };
        }
        let next = self.input.next().map_err(ConnectionError::Violation)?;
        let Some((head, at)) = next else {
            self.core.fields.shrink();
            return self.starve();
        };
        let frame = Frame::parse(head, self.input.payload(at.clone()));
        let happened = frame
            .and_then(|frame| self.core.receive(frame, at.start))
            .map_err(ConnectionError::Violation)?;
        if matches!(self.phase, Phase::AwaitingSettings { .. }) {
            self.phase = Phase::Running;
        }
        Ok(happened.map_or(Progress::Silent, Progress::Happened))
    }

    /// Says what it means that there is no complete frame.
    fn starve(&self) -> Result<Progress, ConnectionError> {
        if !self.eof {
            return Ok(Progress::Blocked);
        }
        // A peer that names an error and closes has said why it does; the end itself says less.
        if let Some(gone) = self.core.gone.as_ref().filter(|gone| gone.is_error()) {
            return Err(ConnectionError::GoneAway(gone.clone()));
        }
        let inside_frame = !self.input.waiting().is_empty();
        Err(ConnectionError::Eof { inside_frame })
    }

    /// Takes the peer's preface off the input, up to its SETTINGS; `false` while it cannot be told
    /// whether that is what comes.
    fn take_preface(&mut self) -> Result<bool, ConnectionError> {
        let role = self.core.role;
        match role.judge(self.input.waiting(), self.eof) {
            Verdict::Http2 => {
                self.input.skip(role.peer_preface().len());
                Ok(true)
            }
            Verdict::Unknown => Ok(false),
            Verdict::Not(instead) => Err(ConnectionError::NotHttp2(instead)),
        }
    }

    /// Ends the connection, and tells the peer why where that makes sense.
    fn end(&mut self, error: ConnectionError) {
        match &error {
            // RFC 9113 §3.4: "A GOAWAY frame MAY be omitted in this case, since an invalid preface
            // indicates that the peer is not using HTTP/2."
            ConnectionError::NotHttp2(_) | ConnectionError::Eof { .. } => self.core.outbox.close(),
            ConnectionError::Violation(_) | ConnectionError::TimedOut(_) => {
                self.core.say_goodbye(error.code());
            }
            ConnectionError::GoneAway(_) | ConnectionError::ShutDown => {}
        }
        self.core.forget();
        self.input.clear();
        self.phase = Phase::Ended { error, told: false };
    }

    /// What the peer has to do, and until when.
    fn timers(&self) -> impl Iterator<Item = (Time, Timer)> {
        let handshake = match self.phase {
            Phase::AwaitingPreface { handshake } | Phase::AwaitingSettings { handshake } => {
                Some((handshake.deadline, Timer::Settings(handshake)))
            }
            Phase::Running | Phase::Ended { .. } => None,
        };
        let block = self.core.block.as_ref();
        let block = block.map(|block| (block.deadline, Timer::HeaderBlock));
        let stall = self.core.stalls_at.map(|at| (at, Timer::Reading));
        let is_running = !self.is_ended();
        [handshake, block, stall]
            .into_iter()
            .flatten()
            .filter(move |_| is_running)
    }
}

impl Endpoint for Connection {
    fn recv_buf(&mut self) -> &mut [u8] {
        if self.is_ended() || self.eof || !self.core.outbox.has_room_to_answer() {
            return &mut [];
        }
        self.input.room()
    }

    fn received(&mut self, octets: usize, now: Time) {
        self.core.at(now);
        self.input.filled(octets);
    }

    fn eof(&mut self, now: Time) {
        self.core.at(now);
        self.core.outbox.close();
        self.eof = true;
    }

    fn transmit(&self) -> &[u8] {
        self.core.outbox.transmit()
    }

    fn sent(&mut self, octets: usize, now: Time) {
        self.core.at(now);
        self.core.sent(octets);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers().map(|(at, _)| at).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.core.at(now);
        let missed = self.timers().find(|&(at, _)| at <= now);
        if let Some((_, timer)) = missed {
            self.end(ConnectionError::TimedOut(timer.awaited()));
        }
    }

    fn mem_used(&self) -> usize {
        self.input.mem_used() + self.core.mem_used()
    }
}

/// What the peer has to do until a deadline.
#[derive(Debug, Clone, Copy)]
enum Timer {
    Settings(Handshake),
    HeaderBlock,
    Reading,
}

impl Timer {
    /// Returns what the peer has not done.
    fn awaited(self) -> Awaited {
        match self {
            Self::Settings(handshake) => Awaited::Settings {
                within: handshake.within(),
            },
            Self::HeaderBlock => Awaited::HeaderBlock,
            Self::Reading => Awaited::Reading,
        }
    }
}

/// How far taking one frame got.
enum Progress {
    /// Something happened.
    Happened(Happened),
    /// Nothing that the caller needs to know; there may be another frame.
    Silent,
    /// There is no frame, or no room to answer it.
    Blocked,
}

#[cfg(test)]
mod tests;

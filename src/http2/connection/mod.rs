//! The state machine of one end of a connection, client or server.
//!
//! Pure. [`Connection`] has the public methods. Behind it, `core` holds the state, `receive` has
//! one function for each frame type, `accept` handles requests, and `send` does what the caller
//! asks for.
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
//! An ended connection reads nothing more. It still writes the GOAWAY that gives the peer the
//! reason.

mod accept;
mod core;
mod event;
mod receive;
mod send;

use std::time::Duration;

use self::core::Core;
pub use self::event::Event;
use self::event::PendingEvent;
pub use self::send::{HeadersError, OpenError, Taken};
use super::deframer::Deframer;
use super::endpoint::Endpoint;
use super::error::{Awaited, ConnectionError};
use super::frame::Frame;
use super::preface::Detected;
use super::role::Role;
use super::settings::Settings;
use crate::config;
use crate::time::{self, Time};

/// One end of an HTTP/2 connection.
#[derive(Debug)]
pub struct Connection {
    input: Deframer,
    /// Whether the input has ended.
    eof: bool,
    core: Core,
    phase: Phase,
}

/// The phase of a connection.
#[derive(Debug)]
enum Phase {
    /// It is not yet known whether the peer speaks HTTP/2.
    AwaitingPreface {
        /// The time allowed for the peer's SETTINGS.
        handshake: Handshake,
    },
    /// The peer speaks HTTP/2; its first frame, SETTINGS, is incomplete.
    AwaitingSettings {
        /// The time allowed for the rest of the frame.
        handshake: Handshake,
    },
    /// Frames are exchanged.
    Running,
    /// The connection has ended.
    Ended {
        /// The reason.
        error: ConnectionError,
        /// Whether [`Event::Closed`] was delivered.
        is_delivered: bool,
    },
}

/// The time that the peer has for its SETTINGS.
#[derive(Debug, Clone, Copy)]
struct Handshake {
    /// The time at which the connection was made.
    began: Time,
    /// The time by which the peer's SETTINGS must have been received.
    deadline: Time,
}

impl Handshake {
    /// Returns how long the peer had, rounded to tenths of a second: two attempts that differ only
    /// in the time that dialling took then report the same failure.
    fn within(self) -> Duration {
        let millis = time::millis(self.deadline.saturating_since(self.began));
        Duration::from_millis(millis.saturating_add(50) / 100 * 100)
    }
}

impl Connection {
    /// Returns the client's end of a connection that was just made. The preface is not written at
    /// once but waits in [`transmit`](Self::transmit), to be written together with the first
    /// request. The server has [`DIAL_TIMEOUT`](config::DIAL_TIMEOUT) for its SETTINGS, unless
    /// [`set_handshake_deadline`](Self::set_handshake_deadline) changes that.
    pub fn client(now: Time) -> Self {
        Self::new(Role::Client, now, config::DIAL_TIMEOUT)
    }

    /// Returns the server's end of a connection that was just accepted.
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

    /// Sets the deadline for the peer's SETTINGS; does nothing if they were received.
    pub fn set_handshake_deadline(&mut self, at: Time) {
        if let Phase::AwaitingPreface { handshake } | Phase::AwaitingSettings { handshake } =
            &mut self.phase
        {
            handshake.deadline = at;
        }
    }

    /// Returns the next event, or `None` until more is received or written.
    pub fn poll_event(&mut self, now: Time) -> Option<Event<'_>> {
        self.core.at(now);
        let event = self.advance();
        // Also without an event: a frame may have been answered.
        self.core.watch_writing();
        Some(event?.event(&self.core.fields, |at| self.input.payload(at)))
    }

    /// Returns whether the connection has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }

    /// Returns whether no more streams can be opened.
    pub fn is_closing(&self) -> bool {
        self.is_ended() || self.core.is_closing()
    }

    /// Returns why no more streams can be opened, or `None` if they can.
    pub fn closing(&self) -> Option<ConnectionError> {
        match &self.phase {
            Phase::Ended { error, .. } => Some(error.clone()),
            _ => self.core.closing(),
        }
    }

    /// Returns the peer's settings, or `None` before its first SETTINGS frame.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.core.peer.as_ref()
    }

    /// Processes the input until there is an event for the caller, or nothing more can be
    /// processed.
    fn advance(&mut self) -> Option<PendingEvent> {
        loop {
            if let Phase::Ended {
                error,
                is_delivered,
            } = &mut self.phase
            {
                let is_first = !std::mem::replace(is_delivered, true);
                return is_first.then(|| PendingEvent::Closed(error.clone()));
            }
            if let Some(error) = self.core.drained() {
                self.end(error);
                continue;
            }
            match self.receive_frame() {
                Ok(Progress::Event(event)) => return Some(event),
                Ok(Progress::Silent) => {}
                Ok(Progress::Blocked) => return None,
                Err(error) => self.end(error),
            }
        }
    }

    /// Processes one frame of the input, if it is complete and can be answered.
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
        let event = frame
            .and_then(|frame| self.core.receive(frame, at.start))
            .map_err(ConnectionError::Violation)?;
        if matches!(self.phase, Phase::AwaitingSettings { .. }) {
            self.phase = Phase::Running;
        }
        Ok(event.map_or(Progress::Silent, Progress::Event))
    }

    /// Handles the lack of a complete frame, which is an error if the input has ended.
    fn starve(&self) -> Result<Progress, ConnectionError> {
        if !self.eof {
            return Ok(Progress::Blocked);
        }
        // If the peer closes after a GOAWAY with an error, that error explains more than the end of
        // input.
        if let Some(gone) = self
            .core
            .goaway_received
            .as_ref()
            .filter(|gone| gone.is_error())
        {
            return Err(ConnectionError::GoAwayReceived(gone.clone()));
        }
        let inside_frame = !self.input.waiting().is_empty();
        Err(ConnectionError::Eof { inside_frame })
    }

    /// Removes the peer's preface from the input, up to its SETTINGS; returns `false` if too few
    /// octets were received to recognise the preface.
    fn take_preface(&mut self) -> Result<bool, ConnectionError> {
        let role = self.core.role;
        match role.detect(self.input.waiting(), self.eof) {
            Detected::Http2 => {
                self.input.skip(role.peer_preface().len());
                Ok(true)
            }
            Detected::Unknown => Ok(false),
            Detected::Not(instead) => Err(ConnectionError::NotHttp2(instead)),
        }
    }

    /// Ends the connection, and queues a GOAWAY if the peer may still process it.
    fn end(&mut self, error: ConnectionError) {
        match &error {
            // RFC 9113 §3.4: "A GOAWAY frame MAY be omitted in this case, since an invalid preface
            // indicates that the peer is not using HTTP/2."
            ConnectionError::NotHttp2(_) | ConnectionError::Eof { .. } => self.core.outbox.close(),
            ConnectionError::Violation(_) | ConnectionError::TimedOut(_) => {
                self.core.send_goaway(error.code());
            }
            ConnectionError::GoAwayReceived(_) | ConnectionError::ShutDown => {}
        }
        self.core.forget();
        self.input.clear();
        self.phase = Phase::Ended {
            error,
            is_delivered: false,
        };
    }

    /// Returns the active deadlines, and what the peer must do by each.
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

/// An obligation of the peer that has a deadline.
#[derive(Debug, Clone, Copy)]
enum Timer {
    Settings(Handshake),
    HeaderBlock,
    Reading,
}

impl Timer {
    /// Returns what the peer has failed to do.
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

/// The result of processing one frame.
enum Progress {
    /// There is an event.
    Event(PendingEvent),
    /// The frame was processed without an event; there may be another frame.
    Silent,
    /// The next frame is incomplete, or there is not enough room to answer it.
    Blocked,
}

#[cfg(test)]
mod tests;

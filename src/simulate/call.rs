//! A call to the plugin, from its arrival to its end.
//!
//! Pure.
//!
//! ```text
//!          the delay is over                    the devices change
//! Delayed --+----------------> answered, gone      +-------+
//!           |                                      v       |
//!           +----------------> Listening: receives their states until the caller ends it
//! ```

use super::ConnectionId;
use super::devices::{Devices, Listing};
use super::event::Event;
use super::service::Answer;
use crate::grpc::Server;
use crate::http2::StreamId;
use crate::time::Time;

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct Call {
    /// The connection of the call.
    pub(super) conn: ConnectionId,
    /// The stream of the call on that connection.
    pub(super) stream: StreamId,
    method: &'static str,
    state: State,
}

/// What the call waits for.
#[derive(Debug)]
enum State {
    /// The time of its answer.
    Delayed {
        /// The time of the answer.
        due: Time,
        /// The answer.
        answer: Answer,
    },
    /// A change of the devices.
    Listening {
        /// The messages in which the devices are listed.
        listing: Listing,
        /// Whether the current state was sent; it may have to wait for a caller that does not read.
        is_sent: bool,
    },
}

impl Call {
    /// Creates a call that gets this answer at that time.
    pub(super) fn new(
        conn: ConnectionId,
        stream: StreamId,
        method: &'static str,
        answer: Answer,
        due: Time,
    ) -> Self {
        Self {
            conn,
            stream,
            method,
            state: State::Delayed { due, answer },
        }
    }

    /// Returns whether the call belongs to this connection.
    pub(super) fn is_on(&self, conn: ConnectionId) -> bool {
        self.conn == conn
    }

    /// Returns the time of the answer, if it is still to come.
    pub(super) fn due(&self) -> Option<Time> {
        match self.state {
            State::Delayed { due, .. } => Some(due),
            State::Listening { .. } => None,
        }
    }

    /// Records that the state that was sent is out of date.
    pub(super) fn devices_changed(&mut self) {
        if let State::Listening { is_sent, .. } = &mut self.state {
            *is_sent = false;
        }
    }

    /// Sends what is due by `now`. Returns whether the call has ended with that.
    pub(super) fn answer(&mut self, server: &mut Server, devices: &Devices, now: Time) -> bool {
        if let State::Delayed { due, answer } = &mut self.state {
            if now < *due {
                return false;
            }
            match answer {
                Answer::Reply(message) => {
                    server.reply(self.stream, message, now);
                    return true;
                }
                Answer::Refuse(status) => {
                    server.finish(self.stream, status.clone(), now);
                    return true;
                }
                Answer::List(listing) => {
                    self.state = State::Listening {
                        listing: *listing,
                        is_sent: false,
                    };
                }
            }
        }
        if let State::Listening { listing, is_sent } = &mut self.state {
            if !*is_sent {
                let list = devices.list(*listing);
                *is_sent = server.send(self.stream, &list, now).is_ok();
            }
        }
        false
    }

    /// Returns the news when the caller does not wait for the answer any more.
    pub(super) fn end_event(&self) -> Event {
        match self.state {
            State::Delayed { .. } => Event::CallCancelled(self.method),
            State::Listening { .. } => Event::StreamClosed,
        }
    }
}

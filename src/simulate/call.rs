//! A call to the plugin, from when it came until it is answered.
//!
//! Pure.
//!
//! ```text
//!          the delay is over                    the devices change
//! Delayed --+----------------> answered, gone      +-------+
//!           |                                      v       |
//!           +----------------> Listening: told how they are, until the caller ends it
//! ```

use super::LinkId;
use super::devices::{Devices, Listing};
use super::news::News;
use super::service::Answer;
use crate::grpc::Server;
use crate::http2::StreamId;
use crate::time::Time;

/// A call that is not answered, or whose answer goes on.
#[derive(Debug)]
pub(super) struct Call {
    /// The connection it came on.
    pub(super) link: LinkId,
    /// What it is called there.
    pub(super) stream: StreamId,
    method: &'static str,
    state: State,
}

/// What the call waits for.
#[derive(Debug)]
enum State {
    /// The moment of its answer.
    Delayed {
        /// When that is.
        due: Time,
        /// What it will be.
        answer: Answer,
    },
    /// A change of the devices.
    Listening {
        /// How it is told of them.
        listing: Listing,
        /// Whether it was told how they are now: the caller may not read.
        is_told: bool,
    },
}

impl Call {
    /// A call that gets this answer, at that moment.
    pub(super) fn new(
        link: LinkId,
        stream: StreamId,
        method: &'static str,
        answer: Answer,
        due: Time,
    ) -> Self {
        Self {
            link,
            stream,
            method,
            state: State::Delayed { due, answer },
        }
    }

    /// Whether it came on this connection.
    pub(super) fn is_on(&self, link: LinkId) -> bool {
        self.link == link
    }

    /// When there is something to do, if that is known.
    pub(super) fn due(&self) -> Option<Time> {
        match self.state {
            State::Delayed { due, .. } => Some(due),
            State::Listening { .. } => None,
        }
    }

    /// What it was told is not true any more.
    pub(super) fn devices_changed(&mut self) {
        if let State::Listening { is_told, .. } = &mut self.state {
            *is_told = false;
        }
    }

    /// Says what there is to say by now; answers whether that was all.
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
                        is_told: false,
                    };
                }
            }
        }
        if let State::Listening { listing, is_told } = &mut self.state {
            if !*is_told {
                let list = devices.list(*listing);
                *is_told = server.send(self.stream, &list, now).is_ok();
            }
        }
        false
    }

    /// What there is to say when nobody waits for the answer any more.
    pub(super) fn news_of_end(&self) -> News {
        match self.state {
            State::Delayed { .. } => News::GaveUp(self.method),
            State::Listening { .. } => News::Unwatched,
        }
    }
}

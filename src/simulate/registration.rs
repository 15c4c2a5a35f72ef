//! The registration of a device plugin that calls kubelet's Register itself, instead of serving the
//! registration.
//!
//! The plugin listens before it registers, because kubelet calls the plugin before it replies. The
//! plugin closes the connection after the reply.
//!
//! ```text
//!             the pause is over            connected            registered
//!   Pausing -------------------> Dialing ------------> Calling ------------> Registered
//!      ^                          |   |                   |
//!      +--------------------------+---|-------------------+ failed or refused
//!                                     |
//!                                     | kubelet.sock does not exist
//!                                     v
//!                                  Waiting
//! ```
//!
//! When kubelet starts, it removes all sockets in the directory, and then creates `kubelet.sock`.
//! This moves the registration from any state to `Pausing` with a pause that is already over, and
//! resets the backoff.

use std::time::Duration;

use prost::Message as _;

use super::ConnectionId;
use super::profile::Profile;
use super::service::OPTIONS;
use crate::config;
use crate::grpc::{self, Client};
use crate::http2::Endpoint as _;
use crate::proto::v1beta1::{RegisterRequest, registration};
use crate::time::Time;

/// The registration of the plugin, and the connection for it.
#[derive(Debug)]
pub(super) struct Registration {
    /// The encoded RegisterRequest.
    request: Vec<u8>,
    state: State,
    /// The latest connection, until the event loop has closed it or `kubelet.sock` is created.
    connection: Option<(ConnectionId, Client)>,
    /// The pause after the next failure.
    pause: Duration,
}

/// The state of the registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for the end of a pause.
    Pausing {
        /// The time of the next attempt.
        until: Time,
    },
    /// Waits until the event loop has established the connection.
    Dialing,
    /// Waits for the reply of kubelet.
    Calling,
    /// Waits until `kubelet.sock`, which does not exist, is created.
    Waiting,
    /// kubelet has registered the plugin. Waits until a new `kubelet.sock` is created.
    Registered,
}

impl Registration {
    /// Creates the registration of a plugin with that profile, which begins now. Returns `None` if
    /// the plugin does not register itself.
    pub(super) fn new(profile: &Profile, now: Time) -> Option<Self> {
        let file = profile.socket.file_name().filter(|_| profile.is_legacy)?;
        let request = RegisterRequest {
            version: profile.versions.first().cloned().unwrap_or_default(),
            endpoint: file.to_string_lossy().into_owned(),
            resource_name: profile.name.clone(),
            options: Some(OPTIONS),
        };
        Some(Self {
            request: request.encode_to_vec(),
            state: State::Pausing { until: now },
            connection: None,
            pause: config::REGISTER_RETRY.first,
        })
    }

    /// Returns the client of a connection, or `None` if the connection is not that of the
    /// registration.
    pub(super) fn client(&mut self, conn: ConnectionId) -> Option<&mut Client> {
        let connection = self.connection.as_mut();
        connection.and_then(|(name, client)| (*name == conn).then_some(client))
    }

    /// Returns whether a connection is that of the registration and has not ended.
    pub(super) fn is_open(&self, conn: ConnectionId) -> bool {
        let mut connection = self.connection.iter();
        connection.any(|(name, client)| *name == conn && !client.is_closed())
    }

    /// Removes a connection that has ended.
    pub(super) fn remove_connection(&mut self, conn: ConnectionId) {
        self.connection.take_if(|(name, _)| *name == conn);
    }

    /// Calls Register on the connection, which was just established.
    pub(super) fn handle_connected(&mut self, conn: ConnectionId, now: Time) {
        let mut client = Client::new(now);
        let (limit, deadline) = (config::MAX_SMALL_MESSAGE, now + config::CALL_TIMEOUT);
        let _only_call = client.unary(registration::REGISTER, &self.request, limit, deadline, now);
        self.connection = Some((conn, client));
        self.state = State::Calling;
    }

    /// Records that `kubelet.sock` does not exist: the registration waits until it is created.
    pub(super) fn handle_kubelet_missing(&mut self) {
        self.state = State::Waiting;
    }

    /// Schedules the next attempt after a pause, and returns the length of the pause.
    pub(super) fn schedule_retry(&mut self, now: Time) -> Duration {
        let pause = self.pause;
        self.pause = config::REGISTER_RETRY.next_pause(Some(pause));
        self.state = State::Pausing { until: now + pause };
        pause
    }

    /// Starts again, because `kubelet.sock` was created. Returns the report for the user.
    pub(super) fn handle_kubelet_created(&mut self, now: Time) -> &'static str {
        let is_again = self.state == State::Registered;
        self.connection = None;
        self.pause = config::REGISTER_RETRY.first;
        self.state = State::Pausing { until: now };
        if is_again {
            "kubelet.sock was created, registering again"
        } else {
            "kubelet.sock was created, registering"
        }
    }

    /// Handles the result of the call, if the call has ended: closes the connection, schedules a
    /// retry after a failure, and returns the report for the user.
    pub(super) fn handle_result(&mut self, now: Time) -> Option<String> {
        let (_, client) = self.connection.as_mut()?;
        let grpc::Event::Finished { result, .. } = client.poll_event(now)? else {
            return None;
        };
        client.close(now);
        Some(match result {
            Ok(_) => {
                self.state = State::Registered;
                self.pause = config::REGISTER_RETRY.first;
                "registered".to_owned()
            }
            Err(error) => {
                let pause = self.schedule_retry(now);
                format!("not registered: {error}; retrying in {pause:?}")
            }
        })
    }

    /// Cancels the call, and shuts down the connection.
    pub(super) fn stop(&mut self, now: Time) {
        if let Some((_, client)) = &mut self.connection {
            client.close(now);
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match (self.state, &self.connection) {
            (State::Pausing { until }, _) => Some(until),
            (State::Calling, Some((_, client))) => client.poll_timeout(),
            _ => None,
        }
    }

    /// Does what is due by `now`. Returns whether the event loop has to dial `kubelet.sock`.
    pub(super) fn handle_timeout(&mut self, now: Time) -> bool {
        match (self.state, &mut self.connection) {
            (State::Pausing { until }, _) if until <= now => {
                self.state = State::Dialing;
                return true;
            }
            (State::Calling, Some((_, client))) => client.handle_timeout(now),
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests;

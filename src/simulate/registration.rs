//! The registration of a device plugin that calls kubelet, instead of being found and called.
//!
//! The plugin serves first and registers then; kubelet calls it before it replies. The connection
//! ends with the reply.
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
//! kubelet removes all sockets of the directory when it starts, and then creates `kubelet.sock`.
//! Then the registration goes from any state to `Pausing`, without a pause, and earlier failures do
//! not count.

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
    /// The encoded message.
    request: Vec<u8>,
    state: State,
    /// The latest connection, until the shell has closed it.
    connection: Option<(ConnectionId, Client)>,
    /// The pause after the next failure.
    pause: Duration,
}

/// The state of the registration, named after what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The end of a pause.
    Pausing {
        /// The time of the next attempt.
        until: Time,
    },
    /// The connection, which the shell makes.
    Dialing,
    /// The reply of kubelet.
    Calling,
    /// The creation of `kubelet.sock`, which does not exist.
    Waiting,
    /// A new `kubelet.sock`: kubelet has registered the plugin.
    Registered,
}

impl Registration {
    /// Returns the registration of a plugin with that profile, which begins now, or `None` if
    /// kubelet has to find the plugin.
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

    /// Returns the client's end of a connection, or `None` if it is another connection.
    pub(super) fn client(&mut self, conn: ConnectionId) -> Option<&mut Client> {
        let connection = self.connection.as_mut();
        connection.and_then(|(name, client)| (*name == conn).then_some(client))
    }

    /// Returns whether a connection is that of the registration, and has not ended.
    pub(super) fn is_open(&self, conn: ConnectionId) -> bool {
        let mut connection = self.connection.iter();
        connection.any(|(name, client)| *name == conn && !client.is_closed())
    }

    /// Removes a connection that has ended.
    pub(super) fn forget(&mut self, conn: ConnectionId) {
        self.connection.take_if(|(name, _)| *name == conn);
    }

    /// Calls kubelet on a connection that was just made.
    pub(super) fn connected(&mut self, conn: ConnectionId, now: Time) {
        let mut client = Client::new(now);
        let (limit, deadline) = (config::MAX_NOTIFY_REPLY, now + config::REGISTER_TIMEOUT);
        let _only_call = client.unary(registration::REGISTER, &self.request, limit, deadline, now);
        self.connection = Some((conn, client));
        self.state = State::Calling;
    }

    /// Waits for kubelet, whose socket does not exist.
    pub(super) fn kubelet_missing(&mut self) {
        self.state = State::Waiting;
    }

    /// Pauses before the next attempt. Returns the length of the pause.
    pub(super) fn failed(&mut self, now: Time) -> Duration {
        let pause = self.pause;
        self.pause = config::REGISTER_RETRY.after(Some(pause));
        self.state = State::Pausing { until: now + pause };
        pause
    }

    /// Starts again with the `kubelet.sock` that was created. Returns what to report.
    pub(super) fn kubelet_created(&mut self, now: Time) -> &'static str {
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

    /// Processes what was received on the connection. Returns what to report if that ended the
    /// call.
    pub(super) fn advance(&mut self, now: Time) -> Option<String> {
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
                let pause = self.failed(now);
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

    /// Does what is due by `now`. Returns whether the shell has to connect.
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

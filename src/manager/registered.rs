//! A plugin that a handler knows about: an entry of the actual state of the world.
//!
//! A plugin enters the actual state before its handler registers it, so that a removal in the
//! meantime becomes a deregistration, and leaves it before its handler deregisters it.
//!
//! A plugin that is killed leaves its socket behind, so the watch does not notice the end of the
//! plugin. Once the plugin is registered, the connection on which it was notified becomes its
//! source of liveness: the daemon watches the peer process, whose end is reported within
//! milliseconds, or, if that is impossible, as before Linux 6.5, holds the connection open. If
//! descriptors run short, the plugin is checked at intervals of 30 s or more instead. When the
//! source is lost, the plugin is checked: GetInfo is called again. If the plugin answers, only the
//! source of liveness was lost. Otherwise the plugin is down, and is checked again with backoff
//! until it answers or its socket is removed. It stays registered meanwhile, unless
//! [`OnDown`](crate::config::OnDown) requires its deregistration; its handler is not informed.
//! Plugins that announce themselves differ (see `announced`).
//!
//! Most drivers are registered by a registrar, another process. The connection on which a handler
//! has called the endpoint becomes the driver's source of liveness in the same way: once that is
//! lost, each check also connects to the endpoint, and the plugin is down if nothing listens there.
//!
//! ```text
//!             liveness lost          no answer
//!   watched ---------------> checked -----------> down --+
//!      ^                        |                  |  ^  | backoff
//!      +------------------------+                  +--+--+
//!      |        answers                               |
//!      +----------------------------------------------+
//! ```
//!
//! The end of a connection that is held open means nothing if the server closes idle connections:
//! after the second time, the plugin is checked at most once per [`SLOW_CHECK`].

use std::path::Path;
use std::sync::Arc;

use super::connections::{Connection, Server};
use super::desired::RetryDelay;
use super::ids::Process;
use crate::config::{BACKOFF, SLOW_CHECK};
use crate::handler::{HandlerId, Plugin};
use crate::time::Time;
use crate::watch::Identity;

/// A plugin that a handler knows about or is being asked to register. Of these,
/// [`instances`](super::Manager::instances) has those that this process has notified.
#[derive(Debug)]
pub struct Registered {
    /// The identity of the socket on which the plugin described itself, or of its announcement.
    pub identity: Identity,
    /// The plugin, as it described itself.
    pub plugin: Arc<Plugin>,
    /// The handler that knows the plugin.
    pub(super) known_by: KnownBy,
    /// The health of the plugin, as far as it is known.
    pub health: Health,
}

/// The handler that knows a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownBy {
    /// A handler of this process, which validated the plugin.
    Handler(HandlerId),
    /// A handler of the process before a restart. It is not known whether the plugin's socket
    /// exists until the watch reports the socket as found or lost.
    Restored {
        /// Whether the plugin announced itself. The watch finds no socket of such a plugin, which
        /// announces itself again, or is deregistered after
        /// [`DEVICE_GRACE`](crate::config::DEVICE_GRACE).
        is_announced: bool,
    },
    /// A handler of the process before a restart or, while the daemon stops, of this process. The
    /// plugin is to be deregistered.
    Predecessor,
}

/// What is known about the liveness of a registered plugin.
#[derive(Debug, Default)]
pub struct Health {
    /// `None` if the plugin is up. Boxed, because nearly every plugin is up.
    pub(super) down: Option<Box<Down>>,
    /// The connection that reveals the end of the plugin: held open, or closed because the peer
    /// process is watched.
    pub(super) liveness: Option<Connection>,
    /// The state of the driver, if that is another process.
    pub(super) driver: Driver,
    /// The peer process, if the daemon can see it.
    pub(super) process: Option<Process>,
    /// The pause before the next check.
    checks: RetryDelay,
    /// The time of the next check.
    pub(super) check_at: Option<Time>,
    /// The number of connections that were held open and have ended although the plugin was up.
    idle_ends: u8,
    /// Whether the plugin must be deregistered although its socket exists.
    pub(super) must_deregister: bool,
}

/// A plugin that does not answer, or that its handler has given up.
#[derive(Debug)]
pub(super) struct Down {
    pub(super) since: Time,
    /// The time at which the plugin is deregistered if it is still down; `None` if it stays
    /// registered or is to be deregistered now.
    pub(super) grace_until: Option<Time>,
    /// Whether the handler has given up the plugin: an answer to a check does not change that.
    pub(super) is_given_up: bool,
}

/// The driver of a plugin, which serves its endpoint beside the registration socket.
#[derive(Debug, Default)]
pub(super) enum Driver {
    /// No connection to the endpoint has become a source of liveness or ended yet.
    #[default]
    Unknown,
    /// The connection is held open, or its peer process is watched.
    Watched(Connection),
    /// The connection to the driver has ended or was given up: the next check also connects to the
    /// endpoint.
    Lost,
}

/// The number of lost connections after which a server is assumed to close idle connections.
const IDLE_ENDS: u8 = 2;

impl Registered {
    /// Creates the entry of a plugin.
    pub(super) fn new(plugin: Arc<Plugin>, identity: Identity, known_by: KnownBy) -> Self {
        Self {
            identity,
            plugin,
            known_by,
            health: Health::default(),
        }
    }

    /// Returns whether it is not known yet whether the plugin's socket exists.
    pub(super) fn is_restored(&self) -> bool {
        matches!(self.known_by, KnownBy::Restored { .. })
    }

    /// Returns the socket of a restored plugin that has been neither found nor lost yet, unless the
    /// plugin announces itself.
    pub fn awaited_socket(&self) -> Option<&Arc<Path>> {
        (self.is_restored() && !self.is_announced()).then_some(&self.plugin.socket)
    }

    /// Returns whether the plugin announced itself before a restart and has not done so since.
    pub(super) fn is_restored_announced(&self) -> bool {
        self.known_by == KnownBy::Restored { is_announced: true }
    }

    /// Returns whether the plugin announced itself, and has to do so again after the next restart.
    pub(super) fn is_announced(&self) -> bool {
        match self.known_by {
            KnownBy::Restored { is_announced } => is_announced,
            KnownBy::Handler(_) => self.identity.is_of_announcement(),
            KnownBy::Predecessor => false,
        }
    }
}

impl Health {
    /// Returns the time since which the plugin has not answered, or `None` if it is up.
    pub fn down_since(&self) -> Option<Time> {
        Some(self.down.as_ref()?.since)
    }

    /// Returns whether the plugin is up; a plugin that must be deregistered is not.
    pub(super) fn is_up(&self) -> bool {
        self.down.is_none() && !self.must_deregister
    }

    /// Records that the plugin is to be deregistered now.
    pub(super) fn require_deregistration(&mut self) {
        if let Some(down) = &mut self.down {
            down.grace_until = None;
        }
        self.must_deregister = true;
    }

    /// Returns the source of liveness of that server.
    pub(super) fn liveness_source_mut(&mut self, server: Server) -> Option<&mut Connection> {
        match (server, &mut self.driver) {
            (Server::Registration, _) => self.liveness.as_mut(),
            (Server::Endpoint, Driver::Watched(liveness)) => Some(liveness),
            (Server::Endpoint, _) => None,
        }
    }

    /// Removes and returns the source of liveness of that server. If that is the endpoint, the next
    /// check also connects to it.
    pub(super) fn take_liveness_source(&mut self, server: Server) -> Option<Connection> {
        match server {
            Server::Registration => self.liveness.take(),
            Server::Endpoint => match std::mem::replace(&mut self.driver, Driver::Lost) {
                Driver::Watched(liveness) => Some(liveness),
                Driver::Unknown | Driver::Lost => None,
            },
        }
    }

    /// Records that a source of liveness was lost: a connection that was held open
    /// (`was_connection`), or a watched process. Returns whether to check the plugin at once;
    /// otherwise the time of the check is set.
    pub(super) fn record_liveness_loss(&mut self, was_connection: bool, now: Time) -> bool {
        if was_connection {
            self.idle_ends = self.idle_ends.saturating_add(1);
        }
        let until = self.checks.until().filter(|until| now < *until);
        if until.is_some() {
            // The plugin was checked a short time ago. If it answered, its server may close idle
            // connections.
            self.check_at = until;
        } else {
            self.checks.reset();
        }
        until.is_none()
    }

    /// Cancels the next check of the plugin, because its handler has given it up. Returns whether
    /// the plugin was up before, and is to be recorded as down from now on.
    pub(super) fn record_given_up(&mut self) -> bool {
        self.check_at = None;
        if let Some(down) = &mut self.down {
            down.is_given_up = true;
        }
        self.down.is_none()
    }

    /// Records that the plugin answered, so it need not be deregistered. If its source of liveness
    /// is lost again at once, the next check waits. Returns whether the plugin was down and is up
    /// again: one that its handler has given up stays down.
    pub(super) fn record_answer(&mut self, now: Time) -> bool {
        self.must_deregister = false;
        let was_down = self.down.take_if(|down| !down.is_given_up).is_some();
        if was_down {
            self.checks.reset();
        }
        if self.liveness.is_none() {
            self.checks.reset(); // The next check is a slow one, and `check_at` is set already.
        } else if self.idle_ends < IDLE_ENDS {
            self.checks.record_failure(now);
        } else {
            self.checks.set_delay(now, SLOW_CHECK);
        }
        was_down
    }

    /// Records that the plugin did not answer, and sets the time of the next check, unless its
    /// handler has given it up. Returns whether it was up and is to be recorded as down from now
    /// on: a first failure that the watch may be about to explain (`is_socket_changed`) counts only
    /// if the next check fails, too.
    pub(super) fn record_no_answer(&mut self, is_socket_changed: bool, now: Time) -> bool {
        if std::mem::take(&mut self.idle_ends) >= IDLE_ENDS {
            self.checks.reset();
        }
        self.checks.record_failure(now);
        // mutation: a plugin that is down is not asked again
        self.check_at = self.checks.until();
        if self.down.as_ref().is_some_and(|down| down.is_given_up) {
            self.check_at = None;
        }
        let is_first = self.checks.delay() == Some(BACKOFF.first);
        self.down.is_none() && !(is_first && is_socket_changed)
    }
}

//! The counts of what the manager knows, for one line of the log.
//!
//! Pure.

use std::fmt;

use super::{Manager, Socket};
use crate::config::{MAX_SOCKETS, SOFT_OPERATION_LIMIT};

/// The numbers of sockets and plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The sockets that exist.
    pub sockets: usize,
    /// The plugins that a handler knows.
    pub registered: usize,
    /// The registered plugins that do not answer.
    pub down: usize,
    /// The sockets whose last attempt failed.
    pub failed: usize,
    /// The operations that run.
    pub operations: usize,
}

/// How near the manager is to one of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What is limited.
    pub name: &'static str,
    /// The number that is in use.
    pub used: usize,
    /// The most that may be in use.
    pub limit: usize,
}

impl Manager {
    /// Returns how near the manager is to its limits: sockets, connections with what counts as
    /// such, operations that wait for their plugins, and the octets that are held of plugins.
    pub fn usage(&self) -> [Usage; 4] {
        let usage = |name, used, limit| Usage { name, used, limit };
        let budget = &self.context.budget;
        [
            usage("sockets", self.sockets.len(), MAX_SOCKETS),
            usage(
                "connections",
                self.context.connections.in_use(),
                self.context.connections.limit(),
            ),
            usage("operations", self.limiter.held(), SOFT_OPERATION_LIMIT),
            usage("memory", budget.held(), budget.limit()),
        ]
    }

    /// Returns the current counts.
    pub fn status(&self) -> Status {
        self.sockets().fold(Status::default(), Status::with)
    }

    /// Returns the number of sockets that exist and that were never dialed.
    pub fn undialed(&self) -> usize {
        let desired = self.sockets().filter_map(Socket::desired);
        desired.filter(|desired| desired.attempts == 0).count()
    }
}

impl Status {
    fn with(self, socket: &Socket) -> Self {
        let (desired, registered) = (socket.desired(), socket.registered());
        let is_down = registered.is_some_and(|it| it.health.down_since().is_some());
        let has_failed = desired.is_some_and(|it| it.last_failure.is_some());
        Self {
            sockets: self.sockets + usize::from(desired.is_some()),
            registered: self.registered + usize::from(registered.is_some()),
            down: self.down + usize::from(is_down),
            failed: self.failed + usize::from(has_failed),
            operations: self.operations + usize::from(socket.operation().is_some()),
        }
    }
}

/// Shows the counts for the log: `sockets=3 registered=2 down=0 failed=1 operations=0`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sockets,
            registered,
            down,
            failed,
            operations,
        } = self;
        write!(
            f,
            "sockets={sockets} registered={registered} down={down} failed={failed} \
             operations={operations}"
        )
    }
}

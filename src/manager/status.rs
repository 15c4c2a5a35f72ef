//! The counts of what the manager knows, for one line of the log.
//!
//! Pure.

use std::fmt;

use super::Manager;

/// The numbers of sockets and plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Manager {
    /// Returns the current counts.
    pub fn status(&self) -> Status {
        let plugins = self.actual.iter().map(|(_, registered)| registered);
        let down = plugins.filter(|registered| registered.health.down_since.is_some());
        let sockets = self.desired.iter().map(|(_, socket)| socket);
        let failed = sockets.filter(|socket| socket.last_failure.is_some());
        Status {
            sockets: self.desired.len(),
            registered: self.actual.len(),
            down: down.count(),
            failed: failed.count(),
            operations: self.operations.iter().count(),
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

//! A count of what the manager knows, for one line of the log.
//!
//! Pure.

use std::fmt;

use super::Manager;

/// How many sockets and plugins there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Sockets that exist.
    pub sockets: usize,
    /// Plugins that a handler knows.
    pub registered: usize,
    /// Registered plugins that do not answer.
    pub down: usize,
    /// Sockets whose last attempt failed.
    pub failed: usize,
    /// Operations that run.
    pub operations: usize,
}

impl Manager {
    /// Counts what there is now.
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

/// As the log shows it: `sockets=3 registered=2 down=0 failed=1 operations=0`.
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

//! The numbers of sockets, connections and operations, and the processes behind connections.
//!
//! A number is not used again, so late events are recognised.

use std::fmt;

use crate::handler::EffectOwner;

/// The number of a path at which a socket exists or a plugin is registered. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub(super) u64);

impl SocketId {
    /// Returns the number of the plugin that owns an effect; `None` if the effect is detached.
    pub(super) fn of_owner(owner: EffectOwner) -> Option<Self> {
        (owner != EffectOwner::HANDLER).then_some(Self(owner.0))
    }

    /// Returns the owner of the effects that handlers ask for on behalf of the plugin there.
    pub(super) fn owner(self) -> EffectOwner {
        // Numbers begin with 1, so this is never `EffectOwner::HANDLER`.
        EffectOwner(self.0)
    }
}

/// The number of one run of an operation. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId(pub(super) u64);

/// The number of a connection, from the request to dial it to its end. It has 29 bits, so that it
/// fits into a token of the loop on 32-bit processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u32);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

impl ConnectionId {
    /// Returns the next number. After the highest one, numbers begin again: by then, no event of a
    /// connection with a low number is late.
    pub(super) fn next(self) -> Self {
        Self(self.0 % Self::MAX + 1)
    }

    /// The highest number.
    pub(super) const MAX: u32 = (1 << 29) - 1;
}

/// The process at the other end of a connection: the one that called `listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// The process ID; `None` if the process is in a PID namespace that is not visible here.
    pub pid: Option<u32>,
    /// The user ID of the process when it called `listen`.
    pub uid: u32,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => write!(f, "a process of user {}", self.uid),
        }
    }
}

#[cfg(test)]
impl ConnectionId {
    /// A number that no connection of a manager in a test has.
    pub(crate) const OUTSIDE: Self = Self(0);
}

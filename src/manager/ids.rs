//! The IDs of sockets, connections and operations, and the processes at the other end of
//! connections.
//!
//! IDs are not reused, except that those of connections wrap around after 2^29. So a late event is
//! not mistaken for an event of a newer socket, connection or operation.

use std::fmt;

use crate::handler::EffectOwner;

/// The ID of a path at which a socket exists, a plugin is registered or an operation runs. Never
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub(super) u64);

impl SocketId {
    /// Returns the socket whose plugin owns an effect, or `None` if the effect is detached.
    pub(super) fn of_owner(owner: EffectOwner) -> Option<Self> {
        (owner != EffectOwner::HANDLER).then_some(Self(owner.0))
    }

    /// Returns the owner of the effects that handlers request for the plugin of this socket.
    pub(super) fn owner(self) -> EffectOwner {
        // IDs begin with 1, so this is never `EffectOwner::HANDLER`.
        EffectOwner(self.0)
    }
}

/// Returns the index of an ID in a list sorted by ID, or the index at which to insert the ID.
/// `later` is the number of IDs that were given out after this one, unless IDs have begun again: if
/// all of them are in the list, no search is necessary.
#[inline]
pub(super) fn position<T, I: Copy + Ord>(
    list: &[T],
    id: I,
    later: u64,
    id_of: impl Fn(&T) -> I,
) -> Result<usize, usize> {
    let from_end = usize::try_from(later).unwrap_or(usize::MAX);
    let likely = list.len().checked_sub(from_end.saturating_add(1));
    match likely {
        Some(at) if id_of(&list[at]) == id => Ok(at),
        _ => list.binary_search_by_key(&id, id_of),
    }
}

/// The ID of an operation. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub(super) u64);

/// The ID of a connection, from the request to dial it to its end. It has 29 bits, because a token
/// of the event loop also holds the kind of the descriptor, and has 32 bits on some processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u32);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

impl ConnectionId {
    /// The highest ID. After it, IDs begin with 1 again.
    pub(super) const MAX: u32 = (1 << 29) - 1;
}

/// The process at the other end of a connection: the one that called `listen`, or `connect` if the
/// daemon has accepted the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// The process ID; `None` if the process is in a PID namespace that is not visible here.
    pub pid: Option<u32>,
    /// The user ID of the process when it made that call.
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
    /// An ID that no connection of a manager has.
    pub(crate) const OUTSIDE: Self = Self(0);
}

//! The numbers of sockets, connections and operations.
//!
//! Pure. A number that has a slot in a table also has a generation, so late events are recognised.

use std::fmt;

use crate::handler::EffectOwner;

/// The number of a path at which a socket exists or a plugin is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    /// The slot in the table, which another path may take later.
    pub(super) index: u32,
    /// Another one for each path that takes the slot.
    pub(super) generation: u32,
}

impl SocketId {
    /// Returns the owner of the effects that handlers ask for on behalf of the plugin there.
    pub(super) fn owner(self) -> EffectOwner {
        // No index is `u32::MAX`, so this is never the number of `EffectOwner::HANDLER`.
        EffectOwner((u64::from(self.generation) << 32) | (u64::from(self.index) + 1))
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
    /// The number of connections that can have numbers at the same time.
    pub(super) const SLOTS: usize = 1 << INDEX_BITS;

    /// Returns the number of a connection that takes a slot in a table; `count` is the number of
    /// connections before it.
    pub(super) fn new(count: u64, index: usize) -> Self {
        debug_assert!(index < Self::SLOTS);
        let generation = (count % GENERATIONS) * Self::SLOTS as u64;
        Self(u32::try_from(generation + index as u64).unwrap_or_default())
    }

    /// Returns the slot in the table, which another connection may take later.
    pub(crate) fn slot(self) -> usize {
        self.0 as usize % Self::SLOTS
    }
}

const INDEX_BITS: u32 = 16;
const GENERATIONS: u64 = 1 << 13;

#[cfg(test)]
impl ConnectionId {
    /// A number that no connection of a manager in a test has.
    pub(crate) const OUTSIDE: Self = Self(0);
}

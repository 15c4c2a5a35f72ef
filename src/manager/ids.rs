//! The numbers of sockets, connections and operations.
//!
//! Pure. A number that has a place in a table also has a generation, so late events are recognised.

/// The number of a path at which a socket exists or a plugin is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    /// The place in the table, which another path may take later.
    pub(super) index: u32,
    /// Another one for each path that takes the place.
    pub(super) generation: u32,
}

/// The number of one run of an operation. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId(pub(super) u64);

/// The number of a connection, from the request to dial it to its end. It has 29 bits, so that it
/// fits into a token of the loop on 32-bit processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

impl LinkId {
    /// The number of connections that can have numbers at the same time.
    pub(super) const PLACES: usize = 1 << INDEX_BITS;

    /// Returns the number of the connection that takes a place in a table; `generation` is another
    /// one for each connection.
    pub(super) fn new(generation: u32, index: usize) -> Self {
        debug_assert!(index < Self::PLACES);
        let index = u32::try_from(index).unwrap_or_default();
        Self(generation % (1 << GENERATION_BITS) << INDEX_BITS | index)
    }

    /// Returns the place in the table, which another connection may take later.
    pub(super) fn index(self) -> usize {
        self.0 as usize % Self::PLACES
    }
}

const INDEX_BITS: u32 = 16;
const GENERATION_BITS: u32 = 13;

#[cfg(test)]
impl LinkId {
    /// A number that no connection of a manager has.
    pub(crate) const OUTSIDE: Self = Self(0);
}

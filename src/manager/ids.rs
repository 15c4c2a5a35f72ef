//! The numbers of sockets, connections and operations.
//!
//! Pure. None is ever reused, so late events are recognised.

/// The number of a path at which a socket exists or a plugin is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub(super) u64);

/// The number of one run of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId(pub(super) u64);

/// The number of a connection, from the request to dial it to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u64);

#[cfg(test)]
impl LinkId {
    /// A number that no connection of a manager has.
    pub(crate) const OUTSIDE: Self = Self(0);
}

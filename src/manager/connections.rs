//! The connections to plugins: their owners, and the limit on file descriptors.
//!
//! Pure: the daemon knows a connection by its number. The gRPC client of a connection belongs to
//! the socket or effect that owns the connection; only the owner is recorded here.
//!
//! The limit on descriptors is passed in as a number, and open descriptors are counted here. If an
//! operation or a handler needs one and none is left, the source of liveness of a registered plugin
//! is given up, and that plugin is checked after [`SLOW_CHECK`](crate::config::SLOW_CHECK) or more
//! instead. A slow check needs a descriptor only for a moment. The streams and connections that
//! handlers keep open for registered plugins are never given up, so they get fewer than half of the
//! descriptors.

use std::collections::VecDeque;

use super::ids::{self, ConnectionId, SocketId};
use super::messages::Output;
use crate::config::{DESCRIPTOR_RESERVE, SHORTAGE_WARNING_INTERVAL};
use crate::grpc::Client;
use crate::handler::EffectId;
use crate::http2::Endpoint as _;
use crate::time::Time;

/// The owner of a connection, and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The running operation of a socket.
    Operation(SocketId),
    /// A handler's unary call, which has a deadline.
    Call(EffectId),
    /// A handler's stream or connection, which may stay open for as long as its plugin is
    /// registered.
    Stream(EffectId),
    /// A registered plugin: the end of the connection, or of the peer process, means that the
    /// plugin may be down.
    Liveness(SocketId, Server),
}

/// One of the servers of a plugin that are monitored for liveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// The one on the registration socket, or on the endpoint of an announced plugin.
    Registration,
    /// The one on the plugin's endpoint: the driver, if a separate registrar registers it.
    Endpoint,
}

/// Each server of a plugin.
pub(super) const SERVERS: [Server; 2] = [Server::Registration, Server::Endpoint];

/// The number of connections for each use.
#[derive(Debug, Default)]
struct Used {
    operations: usize,
    calls: usize,
    streams: usize,
    /// The sources of liveness of [`Server::Registration`].
    plugins: usize,
    /// The sources of liveness of [`Server::Endpoint`].
    drivers: usize,
}

impl Used {
    fn counter_mut(&mut self, owner: Owner) -> &mut usize {
        match owner {
            Owner::Operation(_) => &mut self.operations,
            Owner::Call(_) => &mut self.calls,
            Owner::Stream(_) => &mut self.streams,
            Owner::Liveness(_, Server::Registration) => &mut self.plugins,
            Owner::Liveness(_, Server::Endpoint) => &mut self.drivers,
        }
    }
}

/// The connections with their owners, and the counts that the limit applies to.
#[derive(Debug)]
pub(super) struct Connections {
    /// Sorted by number. Numbers ascend, so a sorted list takes half the memory of a map.
    owners: Vec<Owned>,
    /// The number of the last connection that was added.
    last: ConnectionId,
    used: Used,
    /// The number of connections that are being dialed or are open. Entries of `owners` that were
    /// closed because only the peer process is watched do not count.
    pub(super) open: usize,
    /// The number of programs that run.
    pub(super) programs: usize,
    /// The number of descriptors that may be used for plugins.
    pub(super) limit: usize,
    /// The time of the last warning about a shortage of descriptors.
    warned_at: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Owned {
    id: ConnectionId,
    owner: Owner,
    is_open: bool,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            owners: Vec::new(),
            last: ConnectionId(0),
            used: Used::default(),
            open: 0,
            programs: 0,
            limit: usize::MAX,
            warned_at: None,
        }
    }
}

impl Connections {
    /// Adds a connection that is about to be dialed.
    pub(super) fn add(&mut self, owner: Owner) -> ConnectionId {
        *self.used.counter_mut(owner) += 1;
        self.open += 1;
        let (id, place) = loop {
            // By the time that numbers begin with 1 again, the events of earlier connections with
            // low numbers have long been processed.
            self.last = ConnectionId(self.last.0 % ConnectionId::MAX + 1);
            if let Err(place) = self.position(self.last) {
                break (self.last, place);
            }
        };
        let is_open = true;
        self.owners.insert(place, Owned { id, owner, is_open });
        id
    }

    /// Returns the index of a connection, or the one at which to insert it.
    #[inline]
    fn position(&self, conn: ConnectionId) -> Result<usize, usize> {
        let later = self.last.0.wrapping_sub(conn.0);
        ids::position(&self.owners, conn, later.into(), |owned| owned.id)
    }

    /// Returns the owner of a connection, or `None` if the connection was removed.
    #[inline]
    pub(super) fn owner(&self, conn: ConnectionId) -> Option<Owner> {
        let place = self.position(conn).ok()?;
        Some(self.owners[place].owner)
    }

    /// Returns whether a connection is being dialed or is open.
    pub(super) fn is_open(&self, conn: ConnectionId) -> bool {
        self.position(conn)
            .is_ok_and(|place| self.owners[place].is_open)
    }

    /// Gives a connection to another owner, unless the connection was removed.
    pub(super) fn hand_over(&mut self, conn: ConnectionId, owner: Owner) {
        if let Ok(place) = self.position(conn) {
            let before = std::mem::replace(&mut self.owners[place].owner, owner);
            *self.used.counter_mut(before) -= 1;
            *self.used.counter_mut(owner) += 1;
        }
    }

    /// Records that a connection was closed, although its process is still watched.
    pub(super) fn record_closed(&mut self, conn: ConnectionId) {
        if let Ok(place) = self.position(conn) {
            let was_open = std::mem::replace(&mut self.owners[place].is_open, false);
            self.open -= usize::from(was_open);
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, conn: ConnectionId) {
        if let Ok(place) = self.position(conn) {
            let Owned { owner, is_open, .. } = self.owners.remove(place);
            *self.used.counter_mut(owner) -= 1;
            self.open -= usize::from(is_open);
        }
    }

    /// Returns the number of connections, including those that were closed because only the peer
    /// process is watched.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Sets the maximum number of descriptors that the process may have open, of which
    /// [`DESCRIPTOR_RESERVE`] are not used for plugins.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.saturating_sub(DESCRIPTOR_RESERVE);
    }

    /// Returns the maximum number of descriptors in use for plugins. A source of liveness that is
    /// an open connection counts twice: a second descriptor is needed to watch its peer process.
    pub(super) fn descriptors_in_use(&self) -> usize {
        let liveness = self.used.plugins + self.used.drivers;
        self.open + liveness + DESCRIPTORS_OF_PROGRAM * self.programs
    }

    /// Returns the number of plugins with a source of liveness, whether or not their drivers have
    /// one.
    pub(super) fn watched_count(&self) -> usize {
        self.used.plugins
    }

    /// Returns the number of operations that may begin now, each with a call that a handler makes
    /// for it. At most half of all descriptors are for operations: the others are for handlers'
    /// connections and for liveness.
    pub(super) fn room_for_operations(&self) -> usize {
        let operations = self.used.operations;
        let by_operations = (self.limit / 2).saturating_sub(operations);
        let kept = self.open + DESCRIPTORS_OF_PROGRAM * self.programs;
        let calls_to_come = operations.saturating_sub(self.used.calls);
        let free = self.limit.saturating_sub(kept + calls_to_come);
        by_operations.min(free / 2)
    }

    /// Returns whether another connection may be used for a stream. Such connections get fewer than
    /// half of all descriptors: that leaves one for an operation, and one for the call that a
    /// handler makes for the operation.
    pub(super) fn has_room_for_stream(&self) -> bool {
        self.used.streams < self.limit.saturating_sub(1) / 2
    }

    /// Removes the source of liveness with the lowest number, which is the oldest one unless the
    /// numbers have wrapped around. A linear search is fast enough, because descriptors rarely run
    /// short. Returns the connection and its socket, and whether the connection is open, or `None`
    /// if none is left.
    pub(super) fn remove_oldest_liveness(&mut self) -> Option<(ConnectionId, SocketId, bool)> {
        let mut owners = self.owners.iter();
        let oldest = owners.find_map(|owned| match owned.owner {
            Owner::Liveness(socket, _) => Some((owned.id, socket, owned.is_open)),
            _ => None,
        })?;
        self.remove(oldest.0);
        Some(oldest)
    }

    /// Returns whether a warning that descriptors run short is due, and if so, records its time.
    ///
    /// The line of that warning counts towards the daemon's own share of the log: plugins can cause
    /// only one in each [`SHORTAGE_WARNING_INTERVAL`].
    pub(super) fn take_due_warning(&mut self, now: Time) -> bool {
        let is_recent = |at| now < at + SHORTAGE_WARNING_INTERVAL;
        let is_due = !self.warned_at.is_some_and(is_recent);
        if is_due {
            self.warned_at = Some(now);
        }
        is_due
    }
}

/// A connection that is being dialed or is open, or that was closed because its peer process is
/// watched.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// `None` unless the connection is established and open, and while it belongs to an operation
    /// that makes no calls.
    pub(super) client: Option<Box<Client>>,
}

impl Connection {
    /// Returns the next deadline of the client, such as that of a call.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.client.as_ref()?.poll_timeout()
    }

    /// Requests the transmission of what the client has to write.
    pub(super) fn flush(&mut self, outputs: &mut VecDeque<Output>) {
        match &mut self.client {
            Some(client) if !client.transmit().is_empty() => {
                outputs.push_back(Output::Transmit(self.id));
            }
            _ => {}
        }
    }
}

/// The number of descriptors that the daemon has open for a program that runs: one for its end, one
/// for its standard error, and one for the error if it cannot be executed.
const DESCRIPTORS_OF_PROGRAM: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_mistaken_for_an_earlier_one() {
        let mut connections = Connections::default();
        let first = connections.add(Owner::Operation(SocketId(1)));
        connections.remove(first);
        let second = connections.add(Owner::Operation(SocketId(2)));
        assert_eq!(connections.owner(first), None);
        assert_eq!(
            connections.owner(second),
            Some(Owner::Operation(SocketId(2)))
        );
        connections.remove(first);
        assert!(connections.is_open(second) && connections.len() == 1);
        connections.hand_over(first, Owner::Operation(SocketId(3)));
        assert_eq!((connections.owner(first), connections.len()), (None, 1));
    }

    #[test]
    fn numbers_fit_into_29_bits_and_one_in_use_is_skipped() {
        let mut connections = Connections::default();
        let held = connections.add(Owner::Operation(SocketId(1)));
        connections.last = ConnectionId(ConnectionId::MAX - 1);
        let next = [1, 2].map(|_| connections.add(Owner::Operation(SocketId(2))));
        assert_eq!((held.0, next.map(|conn| conn.0)), (1, [(1 << 29) - 1, 2]));
    }
}

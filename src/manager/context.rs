//! The environment that sockets and the host of the handlers share.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::changes::Changes;
use super::connections::{Connection, Connections};
use super::event::{EventKind, PluginEvent, Shortage};
use super::ids::{ConnectionId, OperationId, SocketId};
use super::messages::{Limit, Measurement, Output};
use super::operation::Event;
use super::timers::Timers;
use crate::budget::Budget;
use crate::config::{Distrust, Mode, OnDown, PathMap, SLOW_CHECK, SLOW_CHECK_SHARE, Trust};
use crate::handler::{Event as HandlerEvent, HandlerId, Plugin, Reason, Ticket};
use crate::time::Time;

/// The environment of a step.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// The time of the step.
    pub(super) now: Time,
    pub(super) policy: Policy,
    pub(super) connections: Connections,
    pub(super) budget: Budget,
    pub(super) timers: Timers,
    /// The requests to the daemon.
    pub(super) outputs: VecDeque<Output>,
    /// The work that is left, in the order of arrival; empty after each input and timeout.
    pub(super) work: VecDeque<Work>,
    /// The sockets to examine after that work, whose `is_dirty` is set. Deregistrations begin
    /// before registrations.
    pub(super) dirty: Vec<SocketId>,
    /// The number of plugins that handlers know.
    pub(super) plugins: usize,
    /// The number of changes to what is saved across a restart: plugins and debts.
    pub(super) revision: u64,
    /// The changes of records.
    pub(super) changes: Changes,
}

/// The recipient of an effect's events.
#[derive(Clone, Debug)]
pub(super) struct Recipient {
    pub(super) handler: HandlerId,
    /// The plugin that the effect belongs to; `None` if it is detached.
    pub(super) plugin: Option<Arc<Plugin>>,
}

/// The settings of the manager, and whether the daemon is stopping.
#[derive(Debug, Default)]
pub(super) struct Policy {
    pub(super) mode: Mode,
    pub(super) on_down: OnDown,
    pub(super) path_map: PathMap,
    pub(super) trust: Trust,
    /// The directories below which no socket is trusted, each with the reason: other users can
    /// change this directory, or another one on which all plugins depend.
    pub(super) distrusted: Vec<(PathBuf, Distrust)>,
    /// Whether the sockets that are found existed before the daemon.
    pub(super) is_starting: bool,
    /// Whether the daemon is stopping: then no operation is started.
    pub(super) is_stopping: bool,
}

/// A piece of work that is left.
#[derive(Debug)]
pub(super) enum Work {
    /// Pass an event to the operation with that ID, unless it has ended.
    Operation(SocketId, OperationId, Event),
    /// Pass an answer to the operation that has asked.
    Answer(Ticket, Result<(), Reason>),
    /// Pass an event of an effect to its handler.
    Effect(Recipient, HandlerEvent),
    /// Ask the handler of the plugin to resume a deregistration that the previous process owed.
    Resume(Arc<Plugin>),
    /// Record that this announced plugin is down, for this reason.
    SetDown(Arc<Plugin>, Reason),
    /// Make this connection to the endpoint the driver's source of liveness, if the plugin of the
    /// socket needs one, or else close it.
    Endpoint(SocketId, Arc<Path>, Connection),
    /// Check the plugin of a socket, including its endpoint: a connection to the endpoint has
    /// ended.
    CheckEndpoint(SocketId),
    /// Check the plugin of a socket at long intervals: this source of its liveness was given up.
    GivenUp(SocketId, ConnectionId),
    /// Note a change of the record of this path: a handler has emitted an event about its plugin.
    NoteChange(Arc<Path>),
}

impl Context {
    /// Emits an event, and logs it.
    pub(super) fn emit(&mut self, mut event: PluginEvent) {
        event.generation = self.changes.advance_generation();
        if let (EventKind::Reported(_), Some(socket)) = (&event.kind, &event.socket) {
            self.work.push_back(Work::NoteChange(socket.clone()));
        }
        event.log();
        self.outputs.push_back(Output::Event(Arc::new(event)));
    }

    /// Emits the measurement that something waits or is refused because of a limit.
    pub(super) fn emit_limit_hit(&mut self, limit: Limit) {
        let measurement = Measurement::LimitHit(limit);
        self.outputs.push_back(Output::Measured(measurement));
    }

    /// Closes a connection, whatever its state.
    pub(super) fn hang_up(&mut self, mut connection: Connection) {
        self.connections.remove(connection.id);
        if connection.client.is_some() {
            return connection.close(self);
        }
        let (conn, final_bytes) = (connection.id, Vec::new());
        self.outputs.push_back(Output::Hangup { conn, final_bytes });
    }

    /// Counts that something waits or is refused for lack of a descriptor, and warns of the
    /// shortage, unless the last warning is recent.
    pub(super) fn warn_of_shortage(&mut self, shortage: Shortage) {
        self.emit_limit_hit(Limit::Descriptors);
        if self.connections.take_due_warning(self.now) {
            let kind = EventKind::DescriptorsShort(shortage);
            self.emit(PluginEvent::of_daemon(kind));
        }
    }

    /// Returns the path of a plugin's endpoint in this process's mount namespace.
    pub(super) fn endpoint_path(&self, endpoint: &Path) -> Arc<Path> {
        self.policy.path_map.translate(endpoint).into()
    }

    /// Returns the time of the next check of a plugin that is not watched. The more such plugins
    /// there are, the longer is the interval.
    pub(super) fn next_slow_check(&self) -> Time {
        let watched = self.connections.watched_count();
        let unwatched = self.plugins.saturating_sub(watched);
        let unwatched = u32::try_from(unwatched).unwrap_or(u32::MAX);
        self.now + SLOW_CHECK + SLOW_CHECK_SHARE.saturating_mul(unwatched)
    }

    /// Makes a descriptor available, by giving up sources of liveness if necessary. Returns false
    /// if that fails.
    pub(super) fn make_room(&mut self) -> bool {
        while self.connections.descriptors_in_use() >= self.connections.limit {
            if !self.give_up_oldest_liveness() {
                return false;
            }
        }
        true
    }

    /// Gives up the oldest source of liveness. Returns false if there is none.
    pub(super) fn give_up_oldest_liveness(&mut self) -> bool {
        let Some((conn, socket, is_open)) = self.connections.remove_oldest_liveness() else {
            return false;
        };
        self.work.push_back(Work::GivenUp(socket, conn));
        if is_open {
            let final_bytes = Vec::new();
            self.outputs.push_back(Output::Hangup { conn, final_bytes });
        }
        self.outputs.push_back(Output::UnwatchPeer(conn));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DESCRIPTOR_RESERVE;
    use crate::grpc::Client;
    use crate::http2::{Endpoint as _, testing};
    use crate::manager::connections::{Owner, SERVERS, Server};

    #[test]
    fn a_plugin_with_two_sources_of_liveness_counts_once() {
        let mut context = Context {
            plugins: 3,
            ..Context::default()
        };
        for server in SERVERS {
            let owner = Owner::Liveness(SocketId(1), server);
            context.connections.add(owner);
        }
        assert_eq!(
            context.next_slow_check(),
            context.now + SLOW_CHECK + 2 * SLOW_CHECK_SHARE
        );
    }

    #[test]
    fn the_oldest_source_of_liveness_is_given_up_for_an_operation() {
        let mut context = Context::default();
        let connections = &mut context.connections;
        connections.set_limit(DESCRIPTOR_RESERVE + 4);
        for socket in [1, 2].map(SocketId) {
            let conn = connections.add(Owner::Operation(socket));
            connections.hand_over(conn, Owner::Liveness(socket, Server::Registration));
        }
        assert_eq!(
            connections.descriptors_in_use(),
            4,
            "a connection that is held counts twice"
        );
        assert!(context.connections.room_for_operations() > 0 && context.make_room());
        assert!(matches!(
            context.work.make_contiguous(),
            [Work::GivenUp(SocketId(1), _)]
        ));
        assert!(matches!(
            context.outputs.make_contiguous(),
            [Output::Hangup { .. }, Output::UnwatchPeer(_)]
        ));
        let connections = &context.connections;
        assert_eq!(
            (
                connections.watched_count(),
                connections.descriptors_in_use()
            ),
            (1, 2)
        );
    }

    #[test]
    fn goaway_ends_a_connection_only_for_an_error_of_the_server() {
        let answer = testing::settings(&[]);
        let stop = [answer.clone(), testing::goaway(1, 0, b"")].concat();
        let error = [answer.clone(), testing::data(2, b"", true)].concat();
        for (received, wanted) in [
            (answer, &[][..]),
            (stop, &[]),
            (error, &["GOAWAY 0 PROTOCOL_ERROR"]),
        ] {
            let mut context = Context::default();
            let now = context.now;
            let mut client = Client::new(now);
            client.sent(client.transmit().len(), now);
            client.unary("/s/M", b"", 1, now + SLOW_CHECK, now); // Not written yet.
            client.receive_from(&received, now);
            while client.poll_event(now).is_some() {}
            let id = context.connections.add(Owner::Operation(SocketId(1)));
            let client = Some(Box::new(client));
            context.hang_up(Connection { id, client });
            let Some(Output::Hangup { final_bytes, .. }) = context.outputs.pop_front() else {
                panic!("the connection is closed");
            };
            assert_eq!(testing::frames_in(&final_bytes), wanted);
        }
    }
}

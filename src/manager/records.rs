//! Records: what an operator sees of a path at which a socket exists or a plugin is registered.
//!
//! A record is a view of a [`Socket`], not a copy. Its key is the path of the socket, because
//! several plugins may have one name. A reader lists the records and then follows their changes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::changes::{State, Summary};
use super::context::Context;
use super::event::Generation;
use super::failure::{Failure, Refusal};
use super::ids::{Process, SocketId};
use super::operation::{Operation, Purpose};
use super::reconcile::Target;
use super::registered::{KnownBy, Registered};
use super::socket::{Active, Socket};
use super::{Desired, Manager};
use crate::config::{Distrust, MAX_SOCKETS, SOFT_OPERATION_LIMIT};
use crate::handler::Plugin;
use crate::time::Time;

/// The view of a path at which a socket exists or a plugin is registered.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The path of the registration socket.
    pub socket: &'a Arc<Path>,
    /// The plugin, if it is known: it has described itself, or was restored.
    pub plugin: Option<&'a Arc<Plugin>>,
    /// The state of the plugin.
    pub state: State,
    /// The time at which the plugin entered this state.
    pub since: Time,
    /// The generation of the last change of the record.
    pub generation: Generation,
    /// The number of attempts to register the plugin behind this socket.
    pub attempts: u32,
    /// The reason why the last attempt failed, or the refusal in a dry run.
    pub last_error: Option<LastError<'a>>,
    /// The time of the next attempt or, for a plugin that is down, of the next check.
    pub next_retry: Option<Time>,
    /// The process of the plugin, if it is known.
    pub process: Option<Process>,
    /// The reasons why the plugin would be refused in strict mode.
    pub distrust: &'a [Distrust],
}

/// The reason why a plugin is not registered.
#[derive(Clone, Copy, Debug)]
pub enum LastError<'a> {
    /// The last attempt failed.
    Failure(&'a Failure),
    /// The plugin would be refused (dry run).
    Refusal(&'a Refusal),
}

impl Socket {
    /// Returns the part of the record whose changes are reported.
    pub(super) fn summary(&self) -> Summary {
        let state = self.state();
        let (check_at, process) = match (&self.registered, &self.active) {
            (Some(Registered { health, .. }), _) => (health.check_at, health.process),
            (None, Some(active)) => (None, active.process),
            (None, None) => (None, None),
        };
        let (attempts, distrusted) = match &self.desired {
            Some(desired) => (desired.attempts, desired.distrust.len()),
            None => (0, 0),
        };
        Summary {
            state,
            has_plugin: self.known_plugin().is_some(),
            attempts,
            next_retry: match state {
                State::Discovered | State::Backoff | State::Rejected => self.retry_at(),
                State::Down => check_at,
                _ => None,
            },
            process,
            distrusted: distrusted.try_into().unwrap_or(u32::MAX),
        }
    }

    /// Returns the state, in which [`State::Standby`] counts as [`State::Registered`].
    fn state(&self) -> State {
        if let Some(active) = &self.active {
            use Operation as O;
            match (&active.target, &active.operation) {
                (Target::Checked, _) => {}
                (_, Some(O::Dialing(..) | O::AwaitingListener(..) | O::AskingInfo(_))) => {
                    return State::Connecting;
                }
                (
                    _,
                    Some(O::AwaitingLock(_, Purpose::Deregister) | O::Deregistering(..)) | None,
                ) => {
                    return State::Deregistering;
                }
                (_, Some(_)) => return State::Registering,
            }
        }
        if let Some(Registered {
            known_by, health, ..
        }) = &self.registered
        {
            let is_leaving = match known_by {
                KnownBy::Handler(_) => self.desired.is_none() || health.must_deregister,
                KnownBy::Restored { .. } => false,
                KnownBy::Predecessor => true,
            };
            return match &health.down {
                _ if is_leaving => State::Deregistering,
                Some(_) => State::Down,
                None => State::Registered,
            };
        }
        let Some(desired) = &self.desired else {
            return State::Deregistering;
        };
        match (desired.observed.as_deref(), desired.last_failure.as_deref()) {
            (Some(Ok(_)), _) => State::Discovered,
            (Some(Err(_)), _) | (None, Some(Failure::Refused(_))) => State::Rejected,
            (None, Some(_)) => State::Backoff,
            (None, None) => State::Discovered,
        }
    }

    /// Returns the plugin of the socket, if it is known: it is registered, is being asked, was
    /// observed or refused last, or was registered before a restart.
    pub(super) fn known_plugin(&self) -> Option<&Arc<Plugin>> {
        if let Some(registered) = &self.registered {
            return Some(&registered.plugin);
        }
        if let Some(Active {
            plugin: Some(plugin),
            ..
        }) = self.active.as_deref()
        {
            return Some(plugin);
        }
        let desired = self.desired.as_ref()?;
        match desired.observed.as_deref() {
            Some(Ok(plugin)) => Some(plugin),
            _ => desired.refused.as_ref().or(desired.restored.as_ref()),
        }
    }
}

impl<'a> LastError<'a> {
    fn of(desired: &'a Desired) -> Option<Self> {
        match desired.observed.as_deref() {
            Some(Err(refusal)) => Some(Self::Refusal(refusal)),
            _ => desired.last_failure.as_deref().map(Self::Failure),
        }
    }

    /// Returns the reason in CamelCase, like the reason of an event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Failure(failure) => failure.reason(),
            Self::Refusal(_) => "WouldRefuse",
        }
    }
}

impl fmt::Display for LastError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failure(failure) => failure.fmt(f),
            Self::Refusal(refusal) => refusal.fmt(f),
        }
    }
}

impl Socket {
    /// Advances the generation if the socket's record is new, has changed or was removed.
    pub(super) fn note_changes(&mut self, context: &mut Context) {
        let changes = &mut context.changes;
        if self.is_empty() {
            return changes.note_removal(&self.path, &self.seen);
        }
        let summary = self.summary();
        let seen = &mut self.seen;
        match &seen.summary {
            Some(before) if *before == summary => return,
            Some(before) if before.state == summary.state => {}
            _ => seen.since = context.now,
        }
        seen.summary = Some(summary);
        changes.note_change(self.id, seen);
    }
}

/// A change of a record.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// The record is new or has changed.
    Set {
        /// The record as it is now.
        record: Record<'a>,
        /// Whether the reader may not know the record yet.
        is_new: bool,
    },
    /// The record was removed.
    Removed {
        /// The path of the socket.
        socket: &'a Arc<Path>,
        /// The generation of the removal.
        generation: Generation,
    },
}

/// The position of a reader in the changes.
#[derive(Clone, Copy, Debug)]
pub struct ChangeCursor {
    /// The generation of the last change that the reader has seen.
    seen: Generation,
    /// The last generation at which the reader had seen everything. The reader knows every record
    /// that was created up to then.
    caught_up: Generation,
}

impl ChangeCursor {
    /// Creates the cursor of a reader that has seen everything up to a generation.
    pub fn after(generation: Generation) -> Self {
        Self {
            seen: generation,
            caught_up: generation,
        }
    }

    /// Returns the generation of the last change that the reader has seen. Another reader can
    /// continue from there: for a record that this one has not seen, `is_new` may then be false.
    pub fn last_seen(&self) -> Generation {
        self.seen
    }
}

/// Changes after the generation that a reader has seen were forgotten: the reader has to read all
/// records again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired;

impl Change<'_> {
    /// Returns the generation of the change.
    pub fn generation(&self) -> Generation {
        match self {
            Self::Set { record, .. } => record.generation,
            Self::Removed { generation, .. } => *generation,
        }
    }
}

/// The position in a list of records that is read over several turns.
///
/// A record that exists during the whole reading is returned exactly once. A record that is removed
/// meanwhile may be missing. A record that is removed and added again may be returned twice: then
/// the second one is up to date.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordCursor {
    last: Option<SocketId>,
}

/// The records of a manager, and its counts.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a>(pub(super) &'a Manager);

impl<'a> Records<'a> {
    /// Returns the record of a path.
    pub fn get(self, path: &Path) -> Option<Record<'a>> {
        self.0.socket(path).map(|socket| self.record_of(socket))
    }

    /// Returns every record, in the order in which their paths became known.
    pub fn iter(self) -> impl Iterator<Item = Record<'a>> {
        self.0.sockets().map(move |socket| self.record_of(socket))
    }

    /// Returns the sockets of the selected records, and the state of each.
    pub(super) fn select(
        self,
        is_selected: &dyn Fn(&Record<'_>) -> bool,
    ) -> Vec<(SocketId, State)> {
        let records = self.0.sockets().map(|it| (it.id, self.record_of(it)));
        let selected = records.filter(|(_, record)| is_selected(record));
        selected.map(|(id, record)| (id, record.state)).collect()
    }

    /// Returns the next record of a list, and advances the cursor; `None` at the end.
    pub fn next_record(self, cursor: &mut RecordCursor) -> Option<Record<'a>> {
        let socket = self.0.sockets.first_after(cursor.last)?;
        cursor.last = Some(socket.id);
        Some(self.record_of(socket))
    }

    /// Returns the record of a socket.
    pub(super) fn record_of(self, socket: &'a Socket) -> Record<'a> {
        let summary = socket.summary();
        let mut state = summary.state;
        if let (State::Registered, Some(registered)) = (state, &socket.registered) {
            // A restored plugin is not an instance of its name until it is registered again.
            let current = self.0.names.instances(&registered.plugin).last();
            let is_used = current.is_none_or(|it| it.socket == socket.id);
            if !is_used && !registered.is_restored() {
                state = State::Standby;
            }
        }
        Record {
            socket: &socket.path,
            plugin: socket.known_plugin(),
            state,
            since: socket.seen.since,
            generation: socket.seen.generation,
            attempts: summary.attempts,
            last_error: socket.desired.as_ref().and_then(LastError::of),
            next_retry: summary.next_retry,
            process: summary.process,
            distrust: socket.desired.as_ref().map_or(&[], |it| &it.distrust),
        }
    }

    /// Returns the oldest change that a reader has not seen, and advances its cursor; `None` if it
    /// has seen everything. Of a record that has changed several times, only the last change is
    /// returned.
    pub fn next_change(self, cursor: &mut ChangeCursor) -> Result<Option<Change<'a>>, Expired> {
        let (changes, seen) = (&self.0.context.changes, cursor.seen);
        if !changes.can_resume_after(seen) {
            return Err(Expired);
        }
        let removed = changes.removed_after(seen);
        let before = removed.map_or(Generation::MAX, |it| it.generation);
        let mut changed = changes
            .changed_after(seen)
            .take_while(|(generation, _)| *generation < before)
            .filter_map(|(_, id)| self.0.sockets.get(id));
        let change = match (changed.next(), removed) {
            (Some(socket), _) => Change::Set {
                record: self.record_of(socket),
                is_new: socket.seen.created > cursor.caught_up,
            },
            (None, Some(removed)) => Change::Removed {
                socket: &removed.socket,
                generation: removed.generation,
            },
            (None, None) => {
                *cursor = ChangeCursor::after(changes.generation);
                return Ok(None);
            }
        };
        cursor.seen = change.generation();
        Ok(Some(change))
    }

    /// Returns the use of the manager's limits: sockets, descriptors for connections and programs,
    /// operations that hold a permit, and the octets that are held for plugins.
    pub fn usage(self) -> [Usage; 4] {
        let usage = |name, used, limit| Usage { name, used, limit };
        let (sockets, operations) = (self.0.sockets.by_id.len(), self.0.limiter.held.len());
        let (connections, budget) = (&self.0.context.connections, &self.0.context.budget);
        let descriptors = connections.descriptors_in_use();
        [
            usage("sockets", sockets, MAX_SOCKETS),
            usage("connections", descriptors, connections.limit),
            usage("operations", operations, SOFT_OPERATION_LIMIT),
            usage("memory", budget.held_octets(), budget.limit()),
        ]
    }

    /// Returns the number of connections to plugins that are being dialed or are open.
    pub fn connection_count(self) -> usize {
        self.0.context.connections.open
    }

    /// Returns the current numbers of sockets, plugins and operations.
    pub fn status(self) -> Status {
        let mut status = Status::default();
        for socket in self.0.sockets() {
            let (desired, registered) = (socket.desired(), socket.registered());
            let is_down = registered.is_some_and(|it| it.health.down_since().is_some());
            let has_failed = desired.is_some_and(|it| it.last_failure.is_some());
            status.sockets += usize::from(desired.is_some());
            status.registered += usize::from(registered.is_some());
            status.down += usize::from(is_down);
            status.failed += usize::from(has_failed);
            status.operations += usize::from(socket.operation_state().is_some());
        }
        status
    }

    /// Returns the number of sockets that exist and were never dialed.
    pub fn undialed_count(self) -> usize {
        let desired = self.0.sockets().filter_map(Socket::desired);
        desired.filter(|desired| desired.attempts == 0).count()
    }
}

/// The numbers of sockets and plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The sockets that exist.
    pub sockets: usize,
    /// The plugins that a handler knows.
    pub registered: usize,
    /// The registered plugins that are down.
    pub down: usize,
    /// The sockets whose last attempt failed.
    pub failed: usize,
    /// The operations that run.
    pub operations: usize,
}

/// The use of one of the manager's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The name of the limit.
    pub name: &'static str,
    /// The amount that is in use.
    pub used: usize,
    /// The limit.
    pub limit: usize,
}

/// Shows the counts for the log: `sockets=3 registered=2 down=0 failed=1 operations=0`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sockets={} registered={} down={} failed={} operations={}",
            self.sockets, self.registered, self.down, self.failed, self.operations
        )
    }
}

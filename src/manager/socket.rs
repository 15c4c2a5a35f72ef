//! All that is known about one path.
//!
//! A socket handles events with the [`Context`], and derives its next deadline from its state. What
//! concerns other sockets or handlers is done in its [visit](super::visit). After that, the manager
//! compares what the socket claims (a permit of an operation, a plugin name, a handler, a deadline)
//! with the claims in force, and applies the difference. So no state has to release a claim
//! explicitly.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::changes::Seen;
use super::connections::{Connection, SERVERS, Server};
use super::context::Context;
use super::desired::Desired;
use super::failure::Failure;
use super::ids::{ConnectionId, OperationId, Process, SocketId};
use super::messages::{Measurement, Output};
use super::operation::{Event, Goal, Operation, Question, Reply};
use super::reconcile::{Action, Target, action};
use super::registered::{Driver, KnownBy, Registered};
use super::timers::Scheduled;
use crate::config::Distrust;
use crate::escape;
use crate::grpc::{self, CallError, Client, Code};
use crate::handler::{HandlerId, Plugin, Ticket};
use crate::http2::{Endpoint as _, ErrorCode};
use crate::time::Time;
use crate::watch::Identity;

/// A path at which a socket exists, a plugin is registered or an operation runs.
#[derive(Debug)]
pub struct Socket {
    pub(super) id: SocketId,
    pub(super) path: Arc<Path>,
    /// The socket that the watch has found at the path, or the announcement of a plugin.
    pub(super) desired: Option<Desired>,
    /// The plugin that a handler knows under the path or is being asked to register.
    pub(super) registered: Option<Registered>,
    /// The operation that runs.
    pub(super) active: Option<Box<Active>>,
    /// The claims that are in force, with the permit beside the flag to save room.
    pub(super) applied: Claims,
    pub(super) permit: Permit,
    /// Whether the socket is to be examined in the next pass.
    pub(super) is_dirty: bool,
    /// The state of its record that readers can have seen, and the generation of that state.
    pub(super) seen: Seen,
}

/// The limited or shared resources that a socket holds or waits for.
#[derive(Debug)]
pub(super) struct Claims {
    /// The plugin for whose name its operation holds or awaits the lock.
    pub(super) name: Option<Arc<Plugin>>,
    /// The handler that knows its plugin or was asked about it: the effects of the plugin are
    /// cancelled when this changes.
    pub(super) handler: Option<HandlerId>,
    pub(super) deadline: Scheduled,
}

/// The permit for an operation.
#[derive(Debug)]
pub(super) enum Permit {
    None,
    /// The socket is in the limiter's queue.
    Queued,
    /// The operation took a permit. The limiter may have released it since, after
    /// [`PERMIT_TIME`](crate::config::PERMIT_TIME).
    Held,
}

/// Shows the path of a socket, escaped, and the number of the attempt to register its plugin,
/// unless that number is 0: `/r/a.sock: attempt 3`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label<'a> {
    path: &'a Path,
    number: u32,
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = escape::path(self.path);
        match self.number {
            0 => path.fmt(f),
            number => write!(f, "{path}: attempt {number}"),
        }
    }
}

impl Socket {
    /// Returns the path.
    pub fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Returns the socket that exists at the path, or the announcement of its plugin, if any.
    pub fn desired(&self) -> Option<&Desired> {
        self.desired.as_ref()
    }

    /// Returns the plugin that a handler knows under the path.
    pub fn registered(&self) -> Option<&Registered> {
        self.registered.as_ref()
    }

    /// Returns the plugin that was restored and has not been registered again, if there is one.
    pub fn restored_plugin(&self) -> Option<&Arc<Plugin>> {
        match (&self.registered, &self.desired) {
            (Some(registered), _) if registered.is_restored() => Some(&registered.plugin),
            (_, Some(desired)) => desired.restored.as_ref(),
            (_, None) => None,
        }
    }

    /// Returns the restored plugin that waits to be registered again, unless its last attempt ended
    /// with a refusal.
    pub fn awaited_plugin(&self) -> Option<&Arc<Plugin>> {
        let failure = self
            .desired
            .as_ref()
            .and_then(|it| it.last_failure.as_deref());
        match failure {
            Some(Failure::Refused(_)) => None,
            _ => self.restored_plugin(),
        }
    }

    /// Returns the name of the state of the operation, if one runs.
    pub fn operation_state(&self) -> Option<&'static str> {
        self.running().map(Operation::state_name)
    }

    /// Returns whether nothing is known about the path any more.
    pub(super) fn is_empty(&self) -> bool {
        self.desired.is_none() && self.registered.is_none() && self.active.is_none()
    }

    /// Returns the operation that runs, unless it is taking a step.
    pub(super) fn running(&self) -> Option<&Operation> {
        self.active.as_ref()?.operation.as_ref()
    }

    /// Returns the action that the path needs; `None` if it needs none, or while it is not known
    /// whether the socket of a restored plugin exists.
    pub(super) fn action(&self) -> Option<Action> {
        let mut desired = self.desired.as_ref().map(|it| it.identity);
        let mut actual = None;
        if let Some(registered) = &self.registered {
            // mutation: a restored socket acted on before its directory was scanned
            if registered.is_restored() {
                return None;
            }
            if registered.health.must_deregister {
                desired = None;
            }
            actual = Some(registered.identity);
        }
        let running = self.active.as_ref().map(|it| (it.target, it.identity));
        action(desired, actual, running)
    }

    /// Returns the socket that an operation is about, if it still exists.
    pub(super) fn desired_of(&mut self, active: &Active) -> Option<&mut Desired> {
        match &mut self.desired {
            Some(desired) if desired.identity == active.identity => Some(desired),
            _ => None,
        }
    }

    /// Returns the prefix of the log lines of an operation with this attempt number.
    pub(super) fn label(&self, number: u32) -> Label<'_> {
        let path = &self.path;
        Label { path, number }
    }

    /// Returns the plugin to save, if any: a handler knows the plugin or has yet to be asked to
    /// deregister it, or it was registered before a restart. Also returns the identity of its
    /// socket, and whether the plugin has to announce itself again after the next restart.
    pub(super) fn plugin_to_save(&self) -> Option<(&Arc<Plugin>, Identity, bool)> {
        if let Some(it) = &self.registered {
            return Some((&it.plugin, it.identity, it.is_announced()));
        }
        let to_deregister = self.running().and_then(Operation::plugin_to_deregister);
        if let (Some(plugin), Some(active)) = (to_deregister, &self.active) {
            return Some((plugin, active.identity, false));
        }
        let desired = self.desired.as_ref()?;
        let restored = desired.restored.as_ref()?;
        let is_announced = desired.identity.is_of_announcement();
        Some((restored, desired.identity, is_announced))
    }

    // --- Claims ---

    /// Returns whether an operation runs that takes a permit in its current state, because it dials
    /// or calls a plugin that is expected to answer. Waiting for a handler or notifying a plugin
    /// needs no permit.
    pub(super) fn claims_permit(&self) -> bool {
        matches!(
            self.running(),
            Some(Operation::Dialing(..) | Operation::AskingInfo(_))
        )
    }

    /// Returns the plugin for whose name the operation holds or awaits the lock.
    #[inline]
    pub(super) fn claimed_name(&self) -> Option<&Arc<Plugin>> {
        match self.running()? {
            Operation::Validating(asked, _)
            | Operation::Registering(asked)
            | Operation::Deregistering(asked, _) => Some(&asked.plugin),
            Operation::AwaitingLock(plugin, _)
            | Operation::Notifying(Ok(plugin), _)
            | Operation::Redialing(Ok(plugin), _) => Some(plugin),
            _ => None,
        }
    }

    /// Returns the handler that knows the plugin, or was asked about it and may be asked again.
    pub(super) fn claimed_handler(&self) -> Option<HandlerId> {
        match &self.registered {
            Some(Registered {
                known_by: KnownBy::Handler(handler),
                ..
            }) => Some(*handler),
            _ => self.claimed_name().and(self.active.as_ref()?.handler),
        }
    }

    /// Returns the next deadline of the socket, its operation and its plugin.
    pub(super) fn deadline(&self, context: &Context) -> Option<Time> {
        let is_stopping = context.policy.is_stopping;
        let mut deadlines = [None; 6];
        if let Some(active) = &self.active {
            deadlines[0] = active.operation.as_ref().and_then(Operation::deadline);
            deadlines[1] = active.question.as_ref().and_then(|it| it.stalls_at);
            // mutation: the deadline of a call is left out of the deadline of its socket
            deadlines[2] = active.connection.as_ref().and_then(Connection::deadline);
        } else if !is_stopping {
            deadlines[0] = self.retry_at();
        }
        if let Some(Registered { health, .. }) = &self.registered {
            if let (Some(down), false) = (&health.down, is_stopping) {
                deadlines[3] = down.grace_until;
            }
            deadlines[4] = health.liveness.as_ref().and_then(Connection::deadline);
            if let Driver::Watched(connection) = &health.driver {
                deadlines[5] = connection.deadline();
            }
            if self.active.is_none() {
                deadlines[0] = health.check_at.filter(|_| !is_stopping);
            }
        }
        deadlines.into_iter().flatten().min()
    }

    /// Returns the time of the next attempt; `None` if the socket does not wait for a time, for
    /// example because it waits for a permit or the result of a dry run is final.
    #[inline]
    pub(super) fn retry_at(&self) -> Option<Time> {
        let (Some(desired), Permit::None | Permit::Held) = (&self.desired, &self.permit) else {
            return None;
        };
        let at = match desired.redial_at {
            Some(at) => at,
            // mutation: the end of a backoff is forgotten
            None => desired.backoff.until()?,
        };
        (!desired.is_observation_final(at)).then_some(at)
    }

    // --- Events ---

    /// Attaches a client to the operation's connection, which was just established, unless the
    /// operation makes no calls. Returns the event for the operation.
    pub(super) fn attach_client(
        &mut self,
        process: Option<Process>,
        context: &mut Context,
    ) -> Option<Event> {
        let active = self.active.as_mut()?;
        let connection = active.connection.as_mut()?;
        if connection.client.is_some() {
            return None;
        }
        active.process = process;
        let operation = active.operation.as_ref()?;
        if let Operation::Dialing(_, Goal::RegisterAnnounced(_) | Goal::CheckEndpoint(_)) =
            operation
        {
            // Nothing is called: the connection is kept to become the source of liveness.
            return Some(Event::Connected);
        }
        let mut client = Box::new(Client::new(context.now).with_budget(&context.budget));
        if let Some(until) = operation.deadline() {
            // kubelet's dial waits for the server's SETTINGS, and the one second for GetInfo starts
            // then. So the SETTINGS have the operation's deadline, which is still that of the dial
            // or, on a second connection, that of the notification.
            client.start_deadlines_when_ready(until);
        }
        connection.client = Some(client);
        Some(Event::Connected)
    }

    /// Processes the end of the operation's connection. Returns the event for the operation, if
    /// there is one.
    pub(super) fn handle_connection_closed(&mut self, context: &mut Context) -> Option<Event> {
        let active = self.active.as_mut()?;
        if let Some(client) = active.client() {
            client.eof(context.now);
            return active.poll_connection(context).map(Event::Replied);
        }
        // An operation that makes no calls continues without its connection.
        let connection = active.connection.take()?;
        context.hang_up(connection);
        None
    }

    /// Schedules a slow check of the plugin, because its source of liveness was given up.
    pub(super) fn handle_liveness_given_up(&mut self, conn: ConnectionId, context: &Context) {
        if let Some(Registered { health, .. }) = &mut self.registered {
            let is_it = |it: Option<&mut Connection>| it.is_some_and(|it| it.id == conn);
            if let Some(server) = SERVERS
                .into_iter()
                .find(|server| is_it(health.liveness_source_mut(*server)))
            {
                health.take_liveness_source(server);
                let path = escape::path(&self.path);
                log::debug!("{path}: stopped watching its process: low on file descriptors");
                let slow_check = context.next_slow_check();
                let at = health.check_at.map_or(slow_check, |at| at.min(slow_check));
                health.check_at = Some(at);
            }
        }
    }

    // --- Connections and the registered plugin ---

    /// Returns the number of connections that the socket owns.
    pub(super) fn connection_count(&self) -> usize {
        let mut count = 0;
        if let Some(active) = &self.active {
            count += usize::from(active.connection.is_some());
        }
        if let Some(Registered { health, .. }) = &self.registered {
            count += usize::from(health.liveness.is_some());
            count += usize::from(matches!(health.driver, Driver::Watched(_)));
        }
        count
    }

    /// Records a plugin that a handler knows or is about to register.
    pub(super) fn set_registered(&mut self, registered: Registered, context: &mut Context) {
        context.revision += 1;
        context.plugins += usize::from(self.registered.is_none());
        self.registered = Some(registered);
    }

    /// Removes and returns the plugin that a handler knows.
    pub(super) fn take_registered(&mut self, context: &mut Context) -> Option<Registered> {
        let registered = self.registered.take()?;
        // mutation: the state file is not written after a plugin has left the actual state
        context.revision += 1;
        context.plugins -= 1;
        Some(registered)
    }

    /// Marks a plugin for deregistration, if there is one: it was registered before a restart and
    /// not since. If it is being registered again, its entry in the actual state is kept. The
    /// caller marks the socket dirty.
    pub(super) fn deregister_restored(
        &mut self,
        restored: Option<Arc<Plugin>>,
        identity: Identity,
        context: &mut Context,
    ) {
        if let (Some(restored), None) = (restored, &self.registered) {
            let registered = Registered::new(restored, identity, KnownBy::Predecessor);
            self.set_registered(registered, context);
        }
    }

    /// Returns the client of the connection that is held open for liveness.
    pub(super) fn liveness_client(&mut self, server: Server) -> Option<&mut Client> {
        let health = &mut self.registered.as_mut()?.health;
        health.liveness_source_mut(server)?.client.as_deref_mut()
    }

    /// Requests the transmission of what the clients have to write.
    pub(super) fn flush(&mut self, outputs: &mut VecDeque<Output>) {
        if let Some(active) = &mut self.active {
            if let Some(connection) = &mut active.connection {
                connection.flush(outputs);
            }
        }
        if let Some(Registered { health, .. }) = &mut self.registered {
            for server in SERVERS {
                if let Some(connection) = health.liveness_source_mut(server) {
                    connection.flush(outputs);
                }
            }
        }
    }
}

/// An operation that runs, and what it holds.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: OperationId,
    /// `None` while the operation takes a step.
    pub(super) operation: Option<Operation>,
    /// The number of attempts to register this socket's plugin, this one included; 0 if the
    /// operation does not register.
    pub(super) number: u32,
    pub(super) target: Target,
    /// The identity of the socket that the operation is about.
    pub(super) identity: Identity,
    /// The plugin behind the socket, once it has described itself.
    pub(super) plugin: Option<Arc<Plugin>>,
    /// The handler that was asked to validate the plugin, and that is asked every later question.
    pub(super) handler: Option<HandlerId>,
    pub(super) connection: Option<Connection>,
    /// The peer process of the last connection, if the daemon can see the process.
    pub(super) process: Option<Process>,
    /// The reasons not to trust the connected socket, until the plugin is validated.
    pub(super) distrust: Vec<Distrust>,
    /// The method of the call in progress, and the time at which the call began.
    pub(super) call: Option<(&'static str, Time)>,
    /// The question that a handler has not answered yet.
    pub(super) question: Option<Pending>,
    /// The plugin that became current when this one left the actual state.
    pub(super) promoted: Option<Arc<Plugin>>,
}

/// A question that a handler has not answered yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    pub(super) question: Question,
    /// The time at which the next socket that waits for the plugin's name may acquire it although
    /// this question is not answered ([`STALLED_AFTER`](crate::config::STALLED_AFTER)); `None` once
    /// that time has passed.
    pub(super) stalls_at: Option<Time>,
}

impl Active {
    /// Returns the client of the connection; `None` until the connection is established, and if the
    /// operation makes no calls.
    pub(super) fn client(&mut self) -> Option<&mut Client> {
        self.connection.as_mut()?.client.as_deref_mut()
    }

    /// Returns the result of the operation's call, if the call has ended. Must be called after
    /// anything that may have changed the connection.
    pub(super) fn poll_connection(&mut self, context: &mut Context) -> Option<Reply> {
        let mut reply = None;
        while let Some(event) = self.client()?.poll_event(context.now) {
            if let grpc::Event::Finished { result, .. } = event {
                if let Some((method, began)) = self.call.take() {
                    let measurement = Measurement::Called {
                        method,
                        code: result.as_ref().err().map_or(Code::Ok, CallError::code),
                        took: context.now.saturating_since(began),
                    };
                    context.outputs.push_back(Output::Measured(measurement));
                }
                reply = Some(result);
            }
        }
        reply
    }
}

/// The end of a connection that is a source of liveness.
impl Connection {
    /// Closes the connection, if it is open. The process may still be watched.
    ///
    /// GOAWAY is sent only after a connection error or a timeout. It tells a peer which of its
    /// streams were processed (RFC 9113 §6.8), and a server has none.
    pub(super) fn close(&mut self, context: &mut Context) {
        if let Some(client) = self.client.take() {
            let mut final_bytes = Vec::new();
            let reason = client.close_reason();
            if reason.is_some_and(|it| it.code() != ErrorCode::NO_ERROR) {
                final_bytes.extend_from_slice(client.transmit());
            }
            let conn = self.id;
            let hangup = Output::Hangup { conn, final_bytes };
            context.outputs.push_back(hangup);
        }
    }

    /// Closes the connection, and stops watching its peer process.
    pub(super) fn close_and_unwatch(&mut self, context: &mut Context) {
        self.close(context);
        context.connections.remove(self.id);
        let conn = self.id;
        context.outputs.push_back(Output::UnwatchPeer(conn));
    }
}

//! The visit of one socket: what an event means for it, and how its operations begin.
//!
//! A socket is taken out of the table while it is visited. Events for the operations of other
//! sockets are queued, and other sockets are only marked dirty, to be examined after the visit. The
//! router then compares what the visited socket claims with the claims in force.

use std::path::Path;

use super::Manager;
use super::actions::Execution;
use super::connections::{Connection, SERVERS, Server};
use super::event::{EventKind, PluginEvent, Shortage};
use super::failure::Failure;
use super::messages::{ConnectionEvent, Limit};
use super::operation::{Event, Goal, Operation, Step};
use super::reconcile::Target;
use super::registered::{Driver, KnownBy, Registered};
use super::socket::{Active, Permit, Socket};
use crate::config::Mode;
use crate::handler::{DialError, Reason, Ticket};
use crate::http2::Endpoint as _;
use crate::time::Time;
use crate::watch::Identity;

/// The visit of one socket: it may change the socket, and what sockets share.
pub(super) struct Visit<'a> {
    pub(super) manager: &'a mut Manager,
    pub(super) socket: &'a mut Socket,
}

impl Visit<'_> {
    /// Passes an event to the running operation, if there is one, and carries out the step that
    /// follows.
    pub(super) fn handle_event(&mut self, event: Event) {
        let Some(mut active) = self.socket.active.take() else {
            return;
        };
        let Some(operation) = active.operation.take() else {
            self.socket.active = Some(active);
            return;
        };
        let mut execution = Execution {
            manager: self.manager,
            socket: self.socket,
            active,
        };
        let step = operation.handle_event(event, &mut execution);
        execution.finish(step);
    }

    /// Accepts the answer to a pending question, or drops the answer if the operation does not wait
    /// for it any more.
    pub(super) fn handle_answer(&mut self, ticket: Ticket, result: Result<(), Reason>) {
        let active = self.socket.active.as_mut();
        let pending = active.and_then(|it| it.question.take_if(|it| it.ticket == ticket));
        let plugin = self.socket.claimed_name().cloned();
        if let (Some(pending), Some(plugin)) = (pending, plugin) {
            let question = pending.question;
            let names = &mut self.manager.names;
            let refuse = |reason| self.socket.refuse(question, &plugin, reason, names);
            let answer = result.map_err(refuse);
            self.handle_event(Event::Answered(answer));
        }
    }

    /// Processes an event of the operation's connection.
    pub(super) fn handle_connection_event(&mut self, event: ConnectionEvent) {
        let (socket, context) = (&mut *self.socket, &mut self.manager.context);
        let event = match event {
            ConnectionEvent::Connected(process) => socket.attach_client(process, context),
            ConnectionEvent::DialFailed(error) => {
                if let Some(active) = &mut socket.active {
                    active.connection = None;
                }
                Some(Event::DialFailed(error))
            }
            ConnectionEvent::Exchanged => match &mut socket.active {
                Some(active) => active.poll_connection(context).map(Event::Replied),
                None => None,
            },
            ConnectionEvent::Closed => socket.handle_connection_closed(context),
            ConnectionEvent::Watched | ConnectionEvent::ProcessEnded => None,
        };
        if let Some(event) = event {
            self.handle_event(event);
        }
    }

    /// Processes an event of the plugin's source of liveness.
    pub(super) fn handle_liveness_event(&mut self, server: Server, event: &ConnectionEvent) {
        match event {
            ConnectionEvent::Exchanged => self.poll_liveness(server),
            ConnectionEvent::Closed | ConnectionEvent::ProcessEnded => {
                self.handle_liveness_loss(server);
            }
            ConnectionEvent::Watched => {
                let context = &mut self.manager.context;
                let Some(registered) = &mut self.socket.registered else {
                    return;
                };
                if let Some(liveness) = registered.health.liveness_source_mut(server) {
                    liveness.close(context); // The process is watched from now on.
                    context.connections.record_closed(liveness.id);
                }
            }
            ConnectionEvent::Connected(_) | ConnectionEvent::DialFailed(_) => {}
        }
    }

    /// Processes what the connection that is held open for liveness has received.
    fn poll_liveness(&mut self, server: Server) {
        let now = self.manager.context.now;
        let client = self.socket.liveness_client(server);
        let is_closed = client.is_some_and(|client| {
            while client.poll_event(now).is_some() {}
            client.is_closed()
        });
        if is_closed {
            self.handle_liveness_loss(server);
        }
    }

    /// Checks the plugin, at once or after a pause: the connection that was held open for its
    /// liveness, or the process that was watched, has ended. The outcome of the check is recorded
    /// in `outcomes` (`record_alive`, or `record_check_failure` and `handle_down`).
    fn handle_liveness_loss(&mut self, server: Server) {
        let context = &mut self.manager.context;
        let Some(Registered { health, .. }) = &mut self.socket.registered else {
            return;
        };
        let Some(mut lost) = health.take_liveness_source(server) else {
            return;
        };
        let was_connection = lost.client.is_some();
        lost.close(context);
        context.connections.remove(lost.id);
        if health.record_liveness_loss(was_connection, context.now) {
            self.start_check();
        }
    }

    // --- The driver behind the endpoint ---

    /// Processes a connection to the plugin's endpoint on which a call of its handler has
    /// succeeded: the connection becomes the driver's source of liveness if one is needed, and is
    /// closed otherwise.
    pub(super) fn handle_endpoint_connected(&mut self, endpoint: &Path, connection: Connection) {
        let has_driver = self.has_driver();
        let context = &mut self.manager.context;
        if let Some(Registered { plugin, health, .. }) = &mut self.socket.registered {
            let is_own = *plugin.endpoint == *endpoint;
            if is_own && has_driver && matches!(health.driver, Driver::Unknown) {
                let id = self.socket.id;
                return health.set_liveness_source(Server::Endpoint, id, connection, context);
            }
        }
        context.hang_up(connection);
    }

    /// Checks the plugin, including its endpoint, because a connection to the endpoint has ended,
    /// unless the driver has a source of liveness or is known to be lost.
    pub(super) fn handle_endpoint_loss(&mut self) {
        let has_driver = self.has_driver();
        let Some(Registered { health, .. }) = &mut self.socket.registered else {
            return;
        };
        if has_driver && matches!(health.driver, Driver::Unknown) {
            health.driver = Driver::Lost;
            self.start_check();
        }
    }

    /// Returns whether the registered plugin has an endpoint other than its registration socket.
    fn has_driver(&self) -> bool {
        let Some(it) = &self.socket.registered else {
            return false;
        };
        !it.identity.is_of_announcement() && it.plugin.endpoint != it.plugin.socket
    }

    // --- Time ---

    /// Processes the deadlines that have passed.
    pub(super) fn handle_timeout(&mut self) {
        let now = self.manager.context.now;
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        self.handle_plugin_deadlines(&is_due);
        for server in SERVERS {
            let client = self.socket.liveness_client(server);
            if let Some(client) = client.filter(|client| is_due(client.poll_timeout())) {
                client.handle_timeout(now);
                self.poll_liveness(server);
            }
        }
        let active = self.socket.active.as_mut();
        let question = active.and_then(|it| it.question.as_mut());
        if let Some(pending) = question.filter(|it| is_due(it.stalls_at)) {
            pending.stalls_at = None;
            self.handle_stalled_question();
        }
        let Some(active) = &mut self.socket.active else {
            return;
        };
        let mut event = None;
        if is_due(active.connection.as_ref().and_then(Connection::deadline)) {
            if let Some(client) = active.client() {
                client.handle_timeout(now);
            }
            let reply = active.poll_connection(&mut self.manager.context);
            event = reply.map(Event::Replied);
        }
        let is_timeout = is_due(active.operation.as_ref().and_then(Operation::deadline));
        if let Some(event) = event.or_else(|| is_timeout.then_some(Event::Timeout)) {
            self.handle_event(event);
        }
    }

    /// Processes the deadlines of the registered plugin. If none is registered and no operation
    /// runs, marks the socket dirty: an attempt may be due.
    fn handle_plugin_deadlines(&mut self, is_due: &dyn Fn(Option<Time>) -> bool) {
        let context = &mut self.manager.context;
        let Some(registered) = &mut self.socket.registered else {
            self.socket.is_dirty |= self.socket.active.is_none();
            return;
        };
        let is_restored_announced = registered.is_restored_announced();
        let Registered { plugin, health, .. } = registered;
        if context.policy.is_stopping {
            // The plugin is checked or deregistered after the next start.
        } else if is_due(health.down.as_ref().and_then(|it| it.grace_until)) {
            health.require_deregistration();
            self.socket.is_dirty = true;
            self.socket.withdraw_announcement(context);
        } else if is_restored_announced && is_due(health.check_at) {
            let kind = EventKind::NotAnnounced;
            context.emit(PluginEvent::of_plugin(plugin, kind));
            self.socket.withdraw_announcement(context);
        } else if is_due(health.check_at) {
            health.check_at = None;
            self.start_check();
        }
    }

    /// Lets the next socket of the plugin name proceed, because the handler has not answered the
    /// question about this one for [`STALLED_AFTER`](crate::config::STALLED_AFTER).
    fn handle_stalled_question(&mut self) {
        let names = &mut self.manager.names;
        let Some(plugin) = &self.socket.applied.name else {
            return;
        };
        let Some(next) = names.let_others_pass(plugin, self.socket.id) else {
            return;
        };
        let context = &mut self.manager.context;
        if let Some(active) = &self.socket.active {
            context.emit(PluginEvent {
                attempt: active.number,
                ..PluginEvent::of_plugin(plugin, EventKind::HandlerStalled)
            });
        }
        self.manager.sockets.queue_lock_acquired(next, context);
    }

    // --- The start of operations ---

    /// Returns a new operation as an [`Execution`], which the caller finishes after the first step.
    fn begin_operation(
        &mut self,
        target: Target,
        identity: Identity,
        number: u32,
    ) -> Execution<'_> {
        let last = &mut self.manager.last_operation;
        last.0 += 1;
        let active = Box::new(Active {
            id: *last,
            operation: None,
            number,
            target,
            identity,
            plugin: None,
            handler: None,
            connection: None,
            process: None,
            distrust: Vec::new(),
            call: None,
            question: None,
            promoted: None,
        });
        Execution {
            manager: self.manager,
            socket: self.socket,
            active,
        }
    }

    /// Starts to deregister the registered plugin. If the daemon is stopping, does nothing: the
    /// plugin stays in the saved state, and is deregistered after the next start.
    pub(super) fn start_deregistration(&mut self) {
        let Some(registered) = &self.socket.registered else {
            return;
        };
        if self.manager.context.policy.is_stopping {
            return;
        }
        let (identity, known_by) = (registered.identity, registered.known_by);
        let plugin = registered.plugin.clone();
        let mut execution = self.begin_operation(Target::Gone, identity, 0);
        if let KnownBy::Handler(handler) = known_by {
            // mutation: deregister is asked of a handler that has not validated the plugin
            execution.active.handler = Some(handler);
        }
        let step = Operation::start_deregistration(plugin, &mut execution);
        execution.finish(step);
    }

    /// Starts to check whether the registered plugin answers. While another operation runs, the
    /// check is put off until that has ended.
    pub(super) fn start_check(&mut self) {
        let context = &self.manager.context;
        let Some(registered) = self.socket.registered.as_mut() else {
            return;
        };
        if context.policy.is_stopping {
            return;
        }
        if self.socket.active.is_some() {
            registered.health.check_at = Some(context.now);
            return;
        }
        let (identity, plugin) = (registered.identity, registered.plugin.clone());
        let goal = if identity.is_of_announcement() {
            Goal::CheckEndpoint(plugin)
        } else {
            Goal::Check(plugin)
        };
        let mut execution = self.begin_operation(Target::Checked, identity, 0);
        let step = Operation::start_dial(goal, &mut execution);
        execution.finish(step);
    }

    /// Starts to register the plugin behind the socket, or to observe it in a dry run, unless it
    /// has to wait for its backoff, its redial or a permit, or the daemon is stopping.
    pub(super) fn start_registration(&mut self) {
        let is_free = self.socket.active.is_none() && self.socket.registered.is_none();
        if !is_free || self.manager.context.policy.is_stopping || !self.may_start_or_reserve() {
            return;
        }
        let Some(desired) = &mut self.socket.desired else {
            return;
        };
        desired.redial_at = None;
        desired.is_retried = false;
        let is_new = desired.attempts == 0;
        desired.attempts = desired.attempts.saturating_add(1);
        let (identity, number) = (desired.identity, desired.attempts);
        let known = desired.restored.clone();
        let goal = match (&desired.announced, self.manager.context.policy.mode) {
            (Some(announced), _) => Goal::RegisterAnnounced(announced.plugin.clone()),
            (None, Mode::Register) => Goal::Register { is_new, known },
            (None, Mode::Observe) => Goal::Observe { is_new },
        };
        let mut execution = self.begin_operation(Target::Registered, identity, number);
        let step = Operation::start_dial(goal, &mut execution);
        execution.finish(step);
    }

    /// Returns whether an attempt may begin now. If not, reserves what the attempt waits for: the
    /// time of a redial, or a place in the queue for a permit.
    fn may_start_or_reserve(&mut self) -> bool {
        let Manager {
            limiter, context, ..
        } = &mut *self.manager;
        let Some(desired) = &mut self.socket.desired else {
            return false;
        };
        let now = context.now;
        if desired.is_observation_final(now) {
            desired.backoff.reset();
            desired.redial_at = None;
            return false;
        }
        if desired.backoff.until().is_some_and(|until| now < until) {
            return false;
        }
        if let Some(Failure::Dial(DialError::Refused)) = desired.last_failure.as_deref() {
            let redial_at = &mut desired.redial_at;
            let at = *redial_at.get_or_insert_with(|| limiter.reserve_redial(now));
            if now < at {
                return false;
            }
        }
        let has_descriptors = context.connections.room_for_operations() > 0;
        // A socket in the queue waits for its turn, even if it is examined for another reason.
        let is_queued = matches!(self.socket.permit, Permit::Queued);
        // mutation: a socket in the queue is started out of turn
        if !is_queued && has_descriptors && limiter.make_permit_available(now) {
            return true;
        }
        if !is_queued {
            limiter.queue.push_back(self.socket.id);
            self.socket.permit = Permit::Queued;
        }
        limiter.schedule_release(now, &mut context.timers);
        if !has_descriptors {
            context.warn_of_shortage(Shortage::Plugins);
        } else if !is_queued {
            context.emit_limit_hit(Limit::Operations);
        }
        false
    }

    // --- The stop ---

    /// Drops the operation and the sources of liveness, because the daemon stops.
    pub(super) fn drop_operation_and_liveness(&mut self) {
        let context = &mut self.manager.context;
        if let Some(Registered { health, .. }) = &mut self.socket.registered {
            for server in SERVERS {
                if let Some(mut liveness) = health.take_liveness_source(server) {
                    liveness.close_and_unwatch(context);
                }
            }
        }
        let Some(mut active) = self.socket.active.take() else {
            return;
        };
        let operation = active.operation.as_ref();
        if let Some(plugin) = operation.and_then(Operation::plugin_to_deregister) {
            // The plugin stays in the saved state, so it is deregistered after the next start.
            let left = Registered::new(plugin.clone(), active.identity, KnownBy::Predecessor);
            self.socket.set_registered(left, context);
        }
        let dropped = EventKind::OperationDropped(operation.map_or("", Operation::state_name));
        active.emit_event(self.socket, dropped, context);
        if let Some(connection) = active.connection.take() {
            context.hang_up(connection);
        }
    }
}

impl Execution<'_> {
    /// Ends a step: keeps the operation for the next one, or records its outcome.
    fn finish(mut self, step: Step) {
        match step {
            Step::Goes(operation) => self.active.operation = Some(operation),
            Step::Ignores(operation, event) => {
                let label = self.socket.label(self.active.number);
                let state = operation.state_name();
                log::debug!("{label}: ignored an unexpected event event={event} state={state}");
                self.active.operation = Some(operation);
            }
            Step::Ends(outcome) => {
                let (manager, socket) = (self.manager, self.socket);
                return Visit { manager, socket }.record_outcome(*self.active, outcome);
            }
        }
        self.socket.active = Some(self.active);
    }
}

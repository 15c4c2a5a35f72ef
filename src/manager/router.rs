//! The router: delivers events to the sockets and the host of the handlers, and carries out what
//! sockets ask for, until nothing is left to do.
//!
//! Pure. A socket is taken out of the table while it takes a step, so a step never touches another
//! socket: what it means for others is queued. Dirty sockets are examined in two phases: first what
//! must be cancelled or deregistered, then what may be registered.

use std::sync::Arc;

use super::active::Pending;
use super::context::{Context, Request};
use super::event::{EventKind, PluginEvent, Shortage};
use super::failure::Refusal;
use super::host::{Asker, Hints};
use super::ids::{AttemptId, SocketId};
use super::measurement::Limit;
use super::operation::{Event, Question};
use super::reconcile::{Action, Target};
use super::registered::Registered;
use super::socket::{Permit, Socket};
use super::timers::Timer;
use super::{DialError, Manager};
use crate::config::{READY_GRACE, RESYNC_INTERVAL, STALLED_AFTER};
use crate::handler::{HandlerId, Plugin, Reason, Ticket};

impl Manager {
    /// Does everything that can be done now.
    pub(super) fn run_until_idle(&mut self) {
        loop {
            if let Some((id, attempt, event)) = self.events.pop_front() {
                self.deliver(id, attempt, event);
            } else if self.host.deliver_event(&mut self.context) {
                // The next event follows.
            } else if let Some((asker, ticket, result)) = self.host.poll_answer() {
                self.answered(asker, ticket, result);
            } else if let Some(path) = self.context.withdrawn.pop() {
                self.sockets.withdraw_at(&path, &mut self.context);
            } else if let Some((id, conn)) = self.context.connections.poll_given_up() {
                self.with_socket(id, |socket, context| {
                    socket.liveness_given_up(conn, context);
                    None
                });
            } else if !self.reconcile_dirty() {
                break;
            }
        }
        for _ in 0..self.context.budget.take_refused() {
            self.context.limit_hit(Limit::Memory);
        }
        self.host.drop_unused();
        self.touch_reported();
        self.compact_changes();
        self.schedule_resync();
        self.check_invariants();
    }

    // --- Reconciliation ---

    /// Examines the sockets for which there is a permit now, in the order in which they came, and
    /// then every dirty socket. Returns whether there were any.
    fn reconcile_dirty(&mut self) -> bool {
        let room = self.context.connections.room_for_operations();
        let mut ids = self.limiter.dequeue_ready(room);
        let is_any_ready = !ids.is_empty();
        for id in &ids {
            if let Some(socket) = self.sockets.get_mut(*id) {
                socket.dequeued();
            }
        }
        ids.append(&mut self.sockets.take_dirty());
        let is_any = !ids.is_empty();
        ids.retain(|id| self.is_to_register(*id));
        for id in ids {
            self.start_register(id);
        }
        if is_any_ready {
            // The operations that have just started hold the permits now.
            self.limiter
                .schedule(self.context.now, &mut self.context.timers);
        }
        is_any
    }

    /// Examines a dirty socket: cancels its operation or deregisters its plugin if that is needed.
    /// Returns whether its plugin may be registered.
    fn is_to_register(&mut self, id: SocketId) -> bool {
        let Some(mut socket) = self.sockets.take_out(id) else {
            return false;
        };
        let is_dirty = std::mem::take(&mut socket.is_dirty);
        let action = socket.action().filter(|_| is_dirty);
        let mut event = None;
        match action {
            Some(Action::Register) => {
                self.sockets.put_back(socket);
                return true;
            }
            Some(Action::Cancel) => {
                if let Some(active) = &mut socket.active {
                    active.target = Target::Gone;
                    self.events.push_back((id, active.id, Event::Cancelled));
                }
            }
            Some(Action::Deregister) => event = self.deregister(&mut socket),
            None => {}
        }
        self.run(socket, event);
        false
    }

    // --- Steps ---

    /// Delivers an event to the operation of that attempt, unless the operation has ended.
    fn deliver(&mut self, id: SocketId, attempt: AttemptId, event: Event) {
        self.with_socket(id, |socket, _| {
            let active = socket.active.as_ref();
            active.is_some_and(|it| it.id == attempt).then_some(event)
        });
    }

    /// Has a socket process an event. `process` returns the event for the socket's operation.
    pub(super) fn with_socket(
        &mut self,
        id: SocketId,
        process: impl FnOnce(&mut Socket, &mut Context) -> Option<Event>,
    ) {
        if let Some(mut socket) = self.sockets.take_out(id) {
            let event = process(&mut socket, &mut self.context);
            self.run(socket, event);
        }
    }

    /// Carries out what a socket asks for, applies its claims and passes events to its operation
    /// until none follows, and puts it back.
    pub(super) fn run(&mut self, mut socket: Box<Socket>, mut event: Option<Event>) {
        loop {
            while let Some(request) = self.context.requests.pop_front() {
                let answer = self.execute_request(&mut socket, request);
                debug_assert!(event.is_none() || answer.is_none(), "{event:?} {answer:?}");
                event = event.or(answer);
            }
            let acquired = self.apply_claims(&mut socket);
            debug_assert!(event.is_none() || acquired.is_none(), "{event:?}");
            let Some(next) = event.take().or(acquired) else {
                break;
            };
            event = socket.step(next, &mut self.context);
        }
        let at = socket.deadline(&self.context);
        let (timer, deadline) = (Timer::Socket(socket.id), &mut socket.applied.deadline);
        // A socket at rest is woken at the exact time, an active one perhaps too early, but not for
        // what was due before.
        let is_past = deadline.at().is_some_and(|it| it <= self.context.now);
        match socket.active {
            Some(_) if !is_past => self.context.timers.set_or_earlier(timer, deadline, at),
            _ => self.context.timers.set(timer, deadline, at),
        }
        socket.flush(&mut self.context.outputs);
        socket.note_changes(&mut self.context);
        self.sockets.put_back(socket);
    }

    /// Compares what a socket claims with the claims in force, and applies the difference. Returns
    /// the event for its operation, if that acquires its name at once.
    fn apply_claims(&mut self, socket: &mut Socket) -> Option<Event> {
        let id = socket.id;
        let is_queued = socket.desired.as_ref().is_some_and(|it| it.is_queued);
        if socket.applied.permit == Permit::Queued && !is_queued {
            self.limiter.forget(id);
            self.limiter
                .schedule(self.context.now, &mut self.context.timers);
            socket.applied.permit = Permit::None;
        }
        match (&socket.applied.permit, socket.claims_permit()) {
            (Permit::None, true) => {
                self.limiter.take(id, self.context.now);
                socket.applied.permit = Permit::Held;
            }
            (Permit::Held, false) => {
                self.limiter.release(id);
                socket.applied.permit = Permit::None;
            }
            _ => {}
        }
        if !socket.claims_block() {
            if let Some(plugin) = socket.applied.blocked.take() {
                self.names.unblock(&plugin, id);
            }
        }
        let handler = socket.claims_handler();
        if socket.applied.handler != handler {
            if let Some(handler) = handler {
                self.host.claim(handler);
            }
            if let Some(before) = std::mem::replace(&mut socket.applied.handler, handler) {
                self.host.release(before, id, &mut self.context);
            }
        }
        let claimed = socket.claims_name();
        let is_same = match (claimed, &socket.applied.name) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.key() == b.key(),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return None;
        }
        let claimed = claimed.cloned();
        let before = std::mem::replace(&mut socket.applied.name, claimed);
        let next = before.and_then(|before| self.names.release(&before, id));
        self.acquired(next);
        let plugin = socket.applied.name.as_ref()?;
        self.names
            .acquire(plugin, id)
            .then_some(Event::LockAcquired)
    }

    /// Queues the event for a socket that has acquired its name.
    fn acquired(&mut self, next: Option<SocketId>) {
        let Some(socket) = next.and_then(|id| self.sockets.get(id)) else {
            return;
        };
        if let Some(active) = &socket.active {
            let event = (socket.id, active.id, Event::LockAcquired);
            self.events.push_back(event);
        }
    }

    /// Carries out what a socket asks for. Returns the event for its operation, if that follows at
    /// once.
    fn execute_request(&mut self, socket: &mut Socket, request: Request) -> Option<Event> {
        let context = &mut self.context;
        match request {
            Request::Dial => {
                let (connections, outputs) = (&mut context.connections, &mut context.outputs);
                if !connections.make_room_for_operation(outputs) {
                    context.warn_of_shortage(Shortage::Plugins);
                    return Some(Event::DialFailed(DialError::NoDescriptors));
                }
                let identity = socket.active.as_ref()?.identity;
                let path = if let Some(plugin) = socket.announced_plugin(identity) {
                    context.endpoint_path(&plugin.endpoint)
                } else {
                    socket.path.clone()
                };
                socket.dial(path, context);
            }
            Request::Ask(question, plugin) => return self.ask(socket, question, &plugin),
            Request::Abandon(ticket, plugin) => {
                let pinned = socket.active.as_ref().and_then(|it| it.handler);
                match pinned.or_else(|| self.host.handlers().find(&plugin.kind)) {
                    Some(handler) => {
                        let subject = (socket.id, &plugin);
                        self.host.abandon(handler, ticket, subject, context);
                    }
                    None => self.host.forget(ticket),
                }
            }
            Request::Stalled => {
                let plugin = socket.applied.name.as_ref()?;
                let next = self.names.stall(plugin, socket.id);
                if let (Some(_), Some(active)) = (next, &socket.active) {
                    self.context.emit(PluginEvent {
                        attempt: active.number,
                        ..PluginEvent::of_plugin(plugin, EventKind::HandlerStalled)
                    });
                }
                self.acquired(next);
            }
            Request::Left(left) => self.left(socket, *left),
            Request::Check => return self.check(socket),
            Request::Withdraw => self.sockets.withdraw(socket, context),
            Request::Ended(outcome) => self.ended(socket, outcome),
        }
        None
    }

    /// Processes that a plugin has left the actual state.
    fn left(&mut self, socket: &mut Socket, mut left: Registered) {
        let context = &mut self.context;
        let process = left.health.process;
        if let Some(liveness) = &mut left.health.liveness {
            liveness.give_up(context);
        }
        if let Some(desired) = &mut socket.desired {
            desired.wanted_since = context.now;
            if let Some(process) = process {
                desired.predecessor = Some(Box::new((left.plugin.clone(), process.uid)));
            }
        }
        let removed = self.names.remove(&left.plugin, socket.id);
        let is_promoted = removed.promoted.is_some();
        if let Some(active) = &mut socket.active {
            active.promoted = removed.promoted;
        }
        for id in removed.unblocked {
            self.sockets.retry_now(id);
        }
        let current = self.names.current(&left.plugin).map(|it| it.socket);
        if let (Some(id), true) = (current, is_promoted) {
            self.touch_instance(id);
        }
    }

    /// Schedules the next resync if sockets exist.
    fn schedule_resync(&mut self) {
        if self.resync.at().is_none() && self.sockets.existing() > 0 {
            let at = Some(self.context.now + RESYNC_INTERVAL);
            self.context.timers.set(Timer::Resync, &mut self.resync, at);
        }
    }

    // --- Questions ---

    fn ask(
        &mut self,
        socket: &mut Socket,
        question: Question,
        plugin: &Arc<Plugin>,
    ) -> Option<Event> {
        let (id, now) = (socket.id, self.context.now);
        let active = socket.active.as_mut()?;
        let attempt = active.id;
        let is_restored = question == Question::Deregister && active.handler.is_none();
        if is_restored && self.names.is_registered_elsewhere(plugin, id) {
            log::debug!(
                "{}: {plugin} is registered through another socket: its handler is not asked",
                socket.label(0)
            );
            return Some(Event::Answered(Ok(())));
        }
        let handler = match self.host.find(question, plugin, active.handler) {
            Ok(handler) => handler,
            Err(refusal) => return Some(Event::Answered(Err(refusal))),
        };
        active.handler = Some(handler);
        let mut hints = Hints::default();
        if question == Question::Register {
            if let Some(refusal) = self.endpoint_taken(socket, handler, plugin) {
                return Some(Event::Answered(Err(refusal)));
            }
            if let Some(desired) = &socket.desired {
                hints.was_registered = desired.restored.as_ref() == Some(plugin);
                hints.is_announced = desired.origin.announced().is_some();
                hints.ready_by = Some(desired.found + READY_GRACE);
            }
        }
        let asker = Asker {
            socket: id,
            attempt,
            handler,
        };
        let context = &mut self.context;
        let asked = self.host.ask(asker, question, plugin, hints, context);
        match asked {
            Ok(result) => Some(self.answer(socket, question, plugin, result)),
            Err(ticket) => {
                let stalls_at = Some(now + STALLED_AFTER);
                let pending = Pending {
                    ticket,
                    question,
                    stalls_at,
                };
                socket.active.as_mut()?.question = Some(pending);
                None
            }
        }
    }

    /// Returns the refusal of a plugin whose endpoint another plugin has. The handler decides for
    /// which types. The first plugin keeps the endpoint for as long as it is up; then the refused
    /// one is retried.
    fn endpoint_taken(
        &mut self,
        socket: &mut Socket,
        handler: HandlerId,
        plugin: &Arc<Plugin>,
    ) -> Option<Refusal> {
        let holder = self.names.holder_of_endpoint(plugin, socket.id)?;
        let (id, holder) = (holder.socket, holder.plugin.socket.clone());
        let reason = self.host.endpoint_taken(handler, plugin)?;
        self.block(socket, plugin, id);
        Some(Refusal::EndpointTaken { holder, reason })
    }

    /// Has a socket retried when the plugin behind another one goes.
    fn block(&mut self, socket: &mut Socket, plugin: &Arc<Plugin>, holder: SocketId) {
        let Some(desired) = &mut socket.desired else {
            return;
        };
        desired.is_blocked = true;
        let before = socket.applied.blocked.replace(plugin.clone());
        if let Some(before) = before {
            self.names.unblock(&before, socket.id);
        }
        self.names.block(plugin, socket.id, holder);
    }

    /// Accepts the answer to a pending question, or drops it if the operation does not wait any
    /// more.
    fn answered(&mut self, asker: Asker, ticket: Ticket, result: Result<(), Reason>) {
        let Some(mut socket) = self.sockets.take_out(asker.socket) else {
            return;
        };
        let active = socket.active.as_mut().filter(|it| it.id == asker.attempt);
        let pending = active.and_then(|it| it.question.take_if(|it| it.ticket == ticket));
        let plugin = socket.claims_name().cloned();
        let event = match (pending, plugin) {
            (Some(Pending { question, .. }), Some(plugin)) => {
                Some(self.answer(&mut socket, question, &plugin, result))
            }
            _ => None,
        };
        self.run(socket, event);
    }

    /// Returns the event of a handler's answer. A refused plugin is retried when the plugin that is
    /// registered under its name goes, because that may be why the handler refused it, as for CSI
    /// drivers.
    fn answer(
        &mut self,
        socket: &mut Socket,
        question: Question,
        plugin: &Arc<Plugin>,
        result: Result<(), Reason>,
    ) -> Event {
        if question == Question::Validate && result.is_err() {
            let holder = self.names.current(plugin).map(|current| current.socket);
            if let Some(holder) = holder {
                self.block(socket, plugin, holder);
            }
        }
        Event::Answered(result.map_err(|reason| question.refusal(reason)))
    }
}

impl Question {
    /// Returns the refusal for a handler's rejection. Plugins are not notified of a failed
    /// deregistration.
    fn refusal(self, reason: Reason) -> Refusal {
        match self {
            Self::Validate => Refusal::Validation(reason),
            Self::Register | Self::Deregister => Refusal::Registration(reason),
        }
    }
}

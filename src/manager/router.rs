//! The router: visits sockets, passes on the work that they leave for others, and applies what they
//! claim, until no work is left.
//!
//! Dirty sockets are examined in two phases: first what must be cancelled or deregistered, then
//! what may be registered.

use smallvec::SmallVec;

use super::connections::Owner;
use super::context::{Context, Work};
use super::ids::{ConnectionId, SocketId};
use super::limiter::Limiter;
use super::messages::{ConnectionEvent, Limit};
use super::names::Names;
use super::operation::{Event, Operation};
use super::reconcile::{Action, Target};
use super::socket::{Permit, Socket};
use super::timers::{Scheduled, Timer};
use super::visit::Visit;
use super::{DialError, Manager};
use crate::config::{Distrust, RESYNC_INTERVAL, STOP_GRACE};

impl Manager {
    /// Does all queued work, and all work that follows from it.
    pub(super) fn run_until_idle(&mut self) {
        loop {
            match self.context.work.pop_front() {
                Some(work) => work.carry_out(self),
                None if self.examine_ready_and_dirty() => {}
                None => break,
            }
        }
        for _ in 0..self.context.budget.take_refusal_count() {
            self.context.emit_limit_hit(Limit::Memory);
        }
        if !self.host.unassigned.is_empty() {
            self.host.drop_unused_handlers(&self.sockets);
        }
        if self.resync.at().is_none() && !self.sockets.by_id.is_empty() {
            let context = &mut self.context;
            let at = Some(context.now + RESYNC_INTERVAL);
            context.timers.set(Timer::Resync, &mut self.resync, at);
        }
        if cfg!(test) {
            self.check_invariants();
        }
    }

    /// Examines the sockets for which there is a permit now, in the order of the queue, and then
    /// the dirty ones. Returns whether there were any.
    fn examine_ready_and_dirty(&mut self) -> bool {
        let room = self.context.connections.room_for_operations();
        // mutation: a socket that waits for a descriptor never gets one
        let ready = self.limiter.dequeue_ready(room);
        let is_any_ready = ready.len() > 0;
        if !is_any_ready && self.context.dirty.is_empty() {
            return false;
        }
        let mut ids: SmallVec<[SocketId; 4]> = ready.collect();
        for id in &ids {
            if let Some(socket) = self.sockets.get_mut(*id) {
                socket.permit = Permit::None;
                socket.is_dirty = true;
            }
        }
        ids.extend(self.context.dirty.drain(..));
        ids.retain(|id| self.examine_dirty(*id));
        for id in ids {
            self.visit(id, |visit| {
                visit.start_registration();
            });
        }
        if is_any_ready {
            // The operations that have just started hold the permits now.
            self.limiter
                .schedule_release(self.context.now, &mut self.context.timers);
        }
        true
    }

    /// Examines a dirty socket: cancels its operation or deregisters its plugin if that is needed.
    /// Returns whether its plugin may be registered.
    fn examine_dirty(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.sockets.get_mut(id) else {
            return false;
        };
        let is_dirty = std::mem::take(&mut socket.is_dirty);
        let action = socket.action();
        if matches!(action, Some(Action::Register)) || !is_dirty {
            return is_dirty;
        }
        self.visit(id, |visit| match action {
            Some(Action::Cancel) => visit.socket.cancel_operation(&mut visit.manager.context),
            Some(Action::Deregister) => visit.start_deregistration(),
            Some(Action::Register) | None => {}
        });
        false
    }

    /// Visits a socket, unless it does not exist any more or is being visited.
    pub(super) fn visit(&mut self, id: SocketId, visit: impl FnOnce(&mut Visit<'_>)) {
        let Some((at, mut socket)) = self.sockets.take_out(id) else {
            return;
        };
        let mut begun = Visit {
            manager: self,
            socket: &mut socket,
        };
        visit(&mut begun);
        begun.finish();
        self.sockets.put_back(at, socket, &mut self.context);
    }

    // --- Connections ---

    /// Passes an event of a connection to its owner.
    pub(super) fn handle_connection_event(&mut self, conn: ConnectionId, event: ConnectionEvent) {
        let context = &mut self.context;
        let Some(owner) = context.connections.owner(conn) else {
            return;
        };
        match &event {
            ConnectionEvent::DialFailed(error) => {
                context.connections.remove(conn);
                if *error == DialError::NoDescriptors {
                    for _ in 0..GIVEN_UP_AT_ONCE {
                        context.give_up_oldest_liveness();
                    }
                }
            }
            // A connection that was closed because its process is watched may still report its end.
            ConnectionEvent::Closed if !context.connections.is_open(conn) => return,
            _ => {}
        }
        match owner {
            Owner::Operation(id) => self.visit(id, |visit| visit.handle_connection_event(event)),
            Owner::Liveness(id, server) => {
                self.visit(id, |visit| visit.handle_liveness_event(server, &event));
            }
            Owner::Call(id) | Owner::Stream(id) => {
                self.host.handle_connection_event(id, event, context);
            }
        }
    }

    /// Records why the socket of a connection is not trusted. If the connection is an operation's,
    /// the reason is kept until its plugin is validated.
    pub(super) fn distrust_connection(&mut self, conn: ConnectionId, why: Distrust) {
        match self.context.connections.owner(conn) {
            Some(Owner::Operation(id)) => self.visit(id, |visit| {
                if let Some(active) = &mut visit.socket.active {
                    active.distrust.push(why);
                }
            }),
            Some(Owner::Call(effect) | Owner::Stream(effect)) => {
                if let Some(id) = SocketId::of_owner(effect.owner) {
                    self.visit(id, |visit| visit.record_distrust(why));
                }
            }
            Some(Owner::Liveness(..)) | None => {}
        }
    }

    // --- The end ---

    /// Begins to stop: no more operations are started, and those whose end neither a plugin nor a
    /// handler would notice are cancelled.
    pub(super) fn stop(&mut self) {
        let context = &mut self.context;
        if std::mem::replace(&mut context.policy.is_stopping, true) {
            return;
        }
        let at = Some(context.now + STOP_GRACE);
        context.timers.set(Timer::Stop, &mut self.stop, at);
        for socket in self.sockets.iter_mut() {
            if !socket.running().is_some_and(Operation::is_committed) {
                socket.cancel_operation(context);
            }
        }
        // Clears the deadlines of retries, checks and grace periods.
        self.sockets.mark_all_dirty(context);
    }

    /// Drops the operations that still run, and closes every connection to a plugin, because
    /// [`STOP_GRACE`] is over.
    pub(super) fn stop_at_once(&mut self) {
        self.stop = Scheduled::default();
        let ids: Vec<_> = self.sockets.iter().map(|socket| socket.id).collect();
        for id in ids {
            self.visit(id, |visit| {
                visit.drop_operation_and_liveness();
            });
        }
        self.host.hang_up_all(&mut self.context);
        // The work is for operations, which were dropped, for handlers, which need not process any
        // more events, and for checks and records, which end with the daemon.
        self.context.work.clear();
    }

    /// Asserts that nothing is left to do, and that every claim, deadline and connection has one
    /// owner. The tests outside this crate call this after each input and timeout.
    #[cfg_attr(not(plugind_internals), doc(hidden))]
    pub fn check_invariants(&self) {
        let Context {
            timers,
            connections,
            plugins,
            ..
        } = &self.context;
        let is_idle = self.context.work.is_empty() && self.context.dirty.is_empty();
        assert!(is_idle, "something is left to do");
        let (mut deadlines, mut owned) = self.host.check_effects(&self.sockets);
        let singles = [self.limiter.deadline, self.resync, self.stop];
        deadlines += singles.iter().filter(|it| it.at().is_some()).count();
        for socket in self.sockets.iter() {
            socket.check_claims(&self.limiter, &self.names);
            let deadline = socket.applied.deadline;
            let (at, derived) = (deadline.at(), socket.deadline(&self.context));
            let may_be_early = at.is_some() && socket.active.is_some();
            let is_in_time = at == derived || may_be_early && at < derived;
            assert!(is_in_time, "{:?}: {deadline:?}", socket.path);
            if at.is_some() {
                assert!(timers.has(Timer::Socket(socket.id), deadline));
                deadlines += 1;
            }
            owned += socket.connection_count();
        }
        assert_eq!(deadlines, timers.by_time.len(), "a deadline has no owner");
        let count =
            |has: &dyn Fn(&Socket) -> bool| self.sockets.iter().filter(|it| has(it)).count();
        let holds = |socket: &Socket| self.limiter.held.iter().any(|(it, _)| *it == socket.id);
        assert_eq!(count(&holds), self.limiter.held.len());
        let is_queued = |socket: &Socket| matches!(socket.permit, Permit::Queued);
        assert_eq!(count(&is_queued), self.limiter.queue.len());
        let has_name = |socket: &Socket| socket.applied.name.is_some();
        assert_eq!(count(&has_name), self.names.queue_len());
        assert_eq!(count(&|socket| socket.registered.is_some()), *plugins);
        assert!(
            self.names.instance_count() <= *plugins,
            "a name has a plugin that is not registered"
        );
        assert_eq!(owned, connections.len(), "a connection has no owner");
    }
}

impl Work {
    /// Does this work.
    fn carry_out(self, manager: &mut Manager) {
        let context = &mut manager.context;
        match self {
            Self::Operation(id, operation, event) => {
                manager.visit(id, |visit| {
                    let active = visit.socket.active.as_ref();
                    if active.is_some_and(|it| it.id == operation) {
                        visit.handle_event(event);
                    }
                });
            }
            Self::Answer(ticket, result) => {
                if let Some(id) = SocketId::of_owner(ticket.0.owner) {
                    manager.visit(id, |visit| visit.handle_answer(ticket, result));
                }
            }
            Self::Effect(recipient, event) => {
                manager.host.deliver_event(&recipient, event, context);
            }
            Self::Resume(plugin) => manager.host.resume_debt(&plugin, context),
            Self::SetDown(plugin, reason) => {
                if let Some(id) = manager.sockets.get_by_path(&plugin.socket).map(|it| it.id) {
                    manager.visit(id, |visit| visit.set_down(&plugin, reason));
                }
            }
            Self::Endpoint(id, endpoint, connection) => manager.visit(id, |visit| {
                visit.handle_endpoint_connected(&endpoint, connection);
            }),
            Self::CheckEndpoint(id) => manager.visit(id, |visit| {
                visit.handle_endpoint_loss();
            }),
            Self::GivenUp(id, conn) => manager.visit(id, |visit| {
                let (socket, context) = (&mut *visit.socket, &visit.manager.context);
                socket.handle_liveness_given_up(conn, context);
            }),
            Self::NoteChange(path) => {
                if let Some(socket) = manager.sockets.get_by_path_mut(&path) {
                    context.changes.note_change(socket.id, &mut socket.seen);
                }
            }
        }
    }
}

impl Visit<'_> {
    /// Ends the visit: applies what the socket claims now, and passes on its outputs.
    fn finish(&mut self) {
        self.apply_claims();
        let (socket, context) = (&mut *self.socket, &mut self.manager.context);
        let at = socket.deadline(context);
        let (timer, deadline) = (Timer::Socket(socket.id), &mut socket.applied.deadline);
        // While an operation runs, an earlier deadline that has not passed is kept: it wakes the
        // socket too early, which is harmless. At rest, the deadline is exact.
        let is_past = matches!(deadline.at(), Some(it) if it <= context.now);
        match socket.active {
            Some(_) if !is_past => context.timers.set_or_keep_earlier(timer, deadline, at),
            _ => context.timers.set(timer, deadline, at),
        }
        socket.flush(&mut context.outputs);
        socket.note_changes(context);
    }

    /// Compares what the socket claims with the claims in force, and applies the difference.
    fn apply_claims(&mut self) {
        let (socket, manager) = (&mut *self.socket, &mut *self.manager);
        let (id, limiter, context) = (socket.id, &mut manager.limiter, &mut manager.context);
        if let (Permit::Queued, None) = (&socket.permit, &socket.desired) {
            limiter.queue.retain(|queued| *queued != id);
            limiter.schedule_release(context.now, &mut context.timers);
            socket.permit = Permit::None;
        }
        match (&socket.permit, socket.claims_permit()) {
            (Permit::None, true) => {
                limiter.held.push((id, context.now));
                socket.permit = Permit::Held;
            }
            (Permit::Held, false) => {
                limiter.held.retain(|(holder, _)| *holder != id);
                // mutation: the release of a permit is applied twice
                socket.permit = Permit::None;
            }
            _ => {}
        }
        if !socket.desired.as_ref().is_some_and(|it| it.is_blocked) {
            manager.names.blocked.remove(&id);
        }
        let handler = socket.claimed_handler();
        manager.host.set_handler(socket, handler, context);
        if socket.claimed_name().is_none() {
            if let Some(before) = socket.applied.name.take() {
                // mutation: a name is not released when the operation ends
                let next = manager.names.release_lock(&before, id);
                if let Some(next) = next {
                    manager.sockets.queue_lock_acquired(next, context);
                }
            }
        }
    }
}

impl Socket {
    /// Cancels the operation, if one runs.
    pub(super) fn cancel_operation(&mut self, context: &mut Context) {
        if let Some(active) = &mut self.active {
            active.target = Target::Gone;
            let work = Work::Operation(self.id, active.id, Event::Cancelled);
            context.work.push_back(work);
        }
    }

    /// Asserts that the socket holds what it claims, and nothing else.
    fn check_claims(&self, limiter: &Limiter, names: &Names) {
        assert!(!self.is_empty(), "{:?}", self.path);
        let is_held = matches!(self.permit, Permit::Held);
        assert_eq!(is_held, self.claims_permit());
        let holds = limiter.held.iter().any(|(holder, _)| *holder == self.id);
        assert!(!holds || is_held);
        let is_queued = matches!(self.permit, Permit::Queued);
        assert!(!is_queued || self.desired.is_some());
        assert_eq!(self.applied.name.as_ref(), self.claimed_name());
        let awaits_lock = matches!(self.running(), Some(Operation::AwaitingLock(..)));
        if let Some(plugin) = self.claimed_name().filter(|_| !awaits_lock) {
            assert!(names.is_held(plugin, self.id), "{plugin}");
        }
        assert_eq!(self.applied.handler, self.claimed_handler());
    }
}

/// The number of sources of liveness that are given up when the kernel refuses a descriptor: enough
/// for an operation and a handler's connections.
const GIVEN_UP_AT_ONCE: usize = 4;

//! The router: gives each socket its turn, passes on what is left to do for others, and applies
//! what sockets claim, until nothing is left to do.
//!
//! Dirty sockets are examined in two phases: first what must be cancelled or deregistered, then
//! what may be registered.

use super::Manager;
use super::context::{Context, Work};
use super::ids::SocketId;
use super::measurement::Limit;
use super::operation::Event;
use super::reconcile::{Action, Target};
use super::socket::{Permit, Socket};
use super::timers::Timer;
use super::turn::Turn;
use crate::config::RESYNC_INTERVAL;
use crate::handler::HandlerId;

impl Manager {
    /// Does everything that can be done now.
    pub(super) fn run_until_idle(&mut self) {
        let mut dirty = Vec::new();
        loop {
            match self.context.work.pop_front() {
                Some(Work::Examine(id)) => dirty.push(id),
                Some(work) => self.carry_out(work),
                None if self.reconcile(std::mem::take(&mut dirty)) => {}
                None => break,
            }
        }
        for _ in 0..self.context.budget.take_refused() {
            self.context.limit_hit(Limit::Memory);
        }
        self.host.drop_unused(&self.sockets);
        self.compact_changes();
        self.schedule_resync();
        self.check_invariants();
    }

    fn carry_out(&mut self, work: Work) {
        let context = &mut self.context;
        match work {
            Work::Examine(id) => self.sockets.mark_dirty(id, context),
            Work::Operation(id, attempt, event) => {
                self.turn(id, |turn| turn.handle_of(attempt, event));
            }
            Work::Answer(ticket, result) => {
                if let Some(asker) = self.host.take_asker(ticket) {
                    self.turn(asker.socket, |turn| turn.answered(asker, ticket, result));
                }
            }
            Work::Effect(recipient, event) => self.host.deliver(&recipient, event, context),
            Work::Resume(handler, plugin) => self.host.resume_debt(handler, &plugin, context),
            Work::Withdraw(path) => self.sockets.withdraw_at(&path, context),
            Work::GivenUp(id, conn) => self.turn(id, |turn| {
                turn.socket.liveness_given_up(conn, &turn.manager.context);
            }),
            Work::Touch(path) => {
                if let Some(socket) = self.sockets.at_mut(&path) {
                    context.changes.touch(socket.id, &mut socket.seen);
                }
            }
        }
    }

    /// Examines the sockets for which there is a permit now, in the order in which they came, and
    /// then the dirty ones. Returns whether there were any.
    fn reconcile(&mut self, mut dirty: Vec<SocketId>) -> bool {
        let room = self.context.connections.room_for_operations();
        let mut ids = self.limiter.dequeue_ready(room);
        let is_any_ready = !ids.is_empty();
        for id in &ids {
            if let Some(socket) = self.sockets.get_mut(*id) {
                socket.dequeued();
            }
        }
        ids.append(&mut dirty);
        let is_any = !ids.is_empty();
        ids.retain(|id| self.is_to_register(*id));
        for id in ids {
            self.turn(id, |turn| {
                turn.register();
            });
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
        let Some(socket) = self.sockets.get_mut(id) else {
            return false;
        };
        let is_dirty = std::mem::take(&mut socket.is_dirty);
        let action = socket.action().filter(|_| is_dirty);
        if action == Some(Action::Register) {
            return true;
        }
        self.turn(id, |turn| match action {
            Some(Action::Cancel) => turn.socket.cancel(&mut turn.manager.context),
            Some(Action::Deregister) => turn.deregister(),
            Some(Action::Register) | None => {}
        });
        false
    }

    /// Gives a socket a turn, unless it has one.
    pub(super) fn turn(&mut self, id: SocketId, turn: impl FnOnce(&mut Turn<'_>)) {
        let Some(mut socket) = self.sockets.take_out(id) else {
            return;
        };
        turn(&mut Turn {
            manager: self,
            socket: &mut socket,
        });
        self.settle(socket);
    }

    /// Applies what a socket claims after its turn, and puts it back.
    fn settle(&mut self, mut socket: Box<Socket>) {
        self.apply_claims(&mut socket);
        let context = &mut self.context;
        let at = socket.deadline(context);
        let (timer, deadline) = (Timer::Socket(socket.id), &mut socket.applied.deadline);
        // A socket at rest is woken at the exact time, an active one perhaps too early, but not for
        // what was due before.
        let is_past = deadline.at().is_some_and(|it| it <= context.now);
        match socket.active {
            Some(_) if !is_past => context.timers.set_or_earlier(timer, deadline, at),
            _ => context.timers.set(timer, deadline, at),
        }
        socket.flush(&mut context.outputs);
        socket.note_changes(context);
        self.sockets.put_back(socket, context);
    }

    /// Compares what a socket claims with the claims in force, and applies the difference.
    fn apply_claims(&mut self, socket: &mut Socket) {
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
        self.set_handler(socket, handler);
        if socket.claims_name().is_none() {
            if let Some(before) = socket.applied.name.take() {
                let next = self.names.release(&before, id);
                self.acquired(next);
            }
        }
    }

    /// Records which handler knows the plugin of a socket or was asked about it, and ends what the
    /// one before does for the plugin.
    pub(super) fn set_handler(&mut self, socket: &mut Socket, handler: Option<HandlerId>) {
        if socket.applied.handler == handler {
            return;
        }
        let before = std::mem::replace(&mut socket.applied.handler, handler);
        if before.is_some() {
            let owner = socket.id.owner();
            self.host.cancel_all_of(owner, &mut self.context);
        }
    }

    /// Queues the event for a socket that has acquired its name.
    pub(super) fn acquired(&mut self, next: Option<SocketId>) {
        let socket = next.and_then(|id| self.sockets.get(id));
        if let Some(Socket {
            id,
            active: Some(active),
            ..
        }) = socket
        {
            let work = Work::Operation(*id, active.id, Event::LockAcquired);
            self.context.work.push_back(work);
        }
    }

    /// Schedules the next resync if there is a socket.
    fn schedule_resync(&mut self) {
        if self.resync.at().is_none() && self.sockets.len() > 0 {
            let at = Some(self.context.now + RESYNC_INTERVAL);
            self.context.timers.set(Timer::Resync, &mut self.resync, at);
        }
    }
}

impl Socket {
    /// Has the operation cancelled.
    pub(super) fn cancel(&mut self, context: &mut Context) {
        if let Some(active) = &mut self.active {
            active.target = Target::Gone;
            let work = Work::Operation(self.id, active.id, Event::Cancelled);
            context.work.push_back(work);
        }
    }
}

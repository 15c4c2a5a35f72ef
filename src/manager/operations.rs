//! The start of operations.
//!
//! Pure. A registration waits for its backoff, its redial or a permit; what ends that wait has the
//! socket examined again.

use super::Manager;
use super::active::Active;
use super::context::Context;
use super::event::Shortage;
use super::ids::SocketId;
use super::measurement::Limit;
use super::operation::{Event, Operation};
use super::reconcile::Target;
use super::registered::{By, Registered};
use super::socket::{Permit, Socket};
use crate::config::Mode;
use crate::watch::Identity;

impl Manager {
    /// Starts to register the plugin behind a socket, if that is possible now.
    pub(super) fn start_register(&mut self, id: SocketId) {
        if let Some(mut socket) = self.sockets.take_out(id) {
            let event = self.register(&mut socket);
            self.run(socket, event);
        }
    }

    /// Starts to deregister a plugin.
    pub(super) fn deregister(&mut self, socket: &mut Socket) -> Option<Event> {
        let Registered {
            identity,
            plugin,
            by,
            ..
        } = socket.registered.as_ref()?;
        let commands = &mut self.context.commands;
        let operation = Operation::deregister(plugin.clone(), commands);
        let mut active = self.active(operation, Target::Gone, *identity, 0);
        if let By::Handler(handler) = by {
            active.handler = Some(*handler);
        }
        socket.begin(active, &mut self.context)
    }

    /// Starts to register a plugin, unless its socket has to wait for its backoff, its redial or a
    /// permit.
    fn register(&mut self, socket: &mut Socket) -> Option<Event> {
        let is_free = socket.active.is_none() && socket.registered.is_none();
        let desired = socket.desired.as_mut().filter(|_| is_free)?;
        let Context {
            now,
            policy,
            connections,
            timers,
            commands,
            ..
        } = &mut self.context;
        let now = *now;
        if policy.is_stopping {
            return None;
        }
        if desired.is_observed(now) {
            desired.stop_retrying();
            return None;
        }
        let is_backing_off = desired.backoff.until().is_some_and(|until| now < until);
        if is_backing_off {
            return None;
        }
        if desired.has_refused() {
            let redial_at = &mut desired.redial_at;
            let at = *redial_at.get_or_insert_with(|| self.limiter.reserve_redial(now));
            if now < at {
                return None;
            }
        }
        let has_descriptors = connections.room_for_operations() > 0;
        // A socket in the queue waits for its turn, even if it is examined for another reason.
        if desired.is_queued || !has_descriptors || !self.limiter.is_any_free(now) {
            let is_news = !desired.is_queued;
            if is_news {
                desired.is_queued = true;
                self.limiter.enqueue(socket.id);
                socket.applied.permit = Permit::Queued;
            }
            self.limiter.schedule(now, timers);
            if !has_descriptors {
                self.context.warn_of_shortage(Shortage::Plugins);
            } else if is_news {
                self.context.limit_hit(Limit::Operations);
            }
            return None;
        }
        let identity = desired.identity;
        desired.redial_at = None;
        let is_new = desired.attempts == 0;
        desired.attempts = desired.attempts.saturating_add(1);
        let number = desired.attempts;
        let path = socket.path.clone();
        let announced = desired.origin.announced();
        let operation = match (announced, policy.mode, &desired.restored) {
            (Some(announced), ..) => {
                Operation::register_announced(announced.plugin.clone(), now, commands)
            }
            (None, Mode::Register, None) => Operation::register(path, is_new, now, commands),
            (None, Mode::Register, Some(known)) => {
                Operation::register_again(known.clone(), path, is_new, now, commands)
            }
            (None, Mode::Observe, _) => Operation::observe(path, is_new, now, commands),
        };
        let active = self.active(operation, Target::Registered(identity), identity, number);
        socket.begin(active, &mut self.context)
    }

    /// Starts to check whether a registered plugin answers, unless it is being deregistered.
    pub(super) fn check(&mut self, socket: &mut Socket) -> Option<Event> {
        if self.context.policy.is_stopping || socket.active.is_some() {
            return None;
        }
        let registered = socket.registered.as_ref()?;
        let identity = registered.identity;
        let (now, plugin) = (self.context.now, registered.plugin.clone());
        let commands = &mut self.context.commands;
        let operation = if identity.is_of_announcement() {
            Operation::check_announced(plugin, now, commands)
        } else {
            Operation::check(plugin, now, commands)
        };
        let active = self.active(operation, Target::Checked(identity), identity, 0);
        socket.begin(active, &mut self.context)
    }

    fn active(
        &mut self,
        operation: Operation,
        target: Target,
        identity: Identity,
        number: u32,
    ) -> Active {
        self.last_attempt.0 += 1;
        Active::new(self.last_attempt, operation, target, identity, number)
    }
}

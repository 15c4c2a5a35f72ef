//! Plugins that are cut, because more is held of all of them than the memory budget allows.
//!
//! Pure. `memory` has the rule.

use super::Manager;
use super::context::Context;
use super::event::{EventKind, PluginEvent};
use super::ids::SocketId;
use super::measurement::Limit;
use super::memory::Held;
use super::operation::Event;
use super::registered::{Liveness, Registered};
use super::socket::Socket;
use crate::config::{SMALL_CUT, SMALL_SHARE};
use crate::grpc::Client;
use crate::http2::Endpoint as _;

impl Manager {
    /// Sets the number of octets that may be held of plugins, from now on.
    pub fn set_memory_budget(&mut self, octets: usize) {
        self.context.memory.set_limit(octets);
    }

    /// Counts the octets that the clients hold by which plugins announce themselves.
    #[cfg_attr(not(plugind_internals), doc(hidden))]
    pub fn count_clients(&mut self, octets: usize) {
        self.context.memory.count_clients(octets);
    }

    /// Returns the octets that those clients may hold.
    #[cfg_attr(not(plugind_internals), doc(hidden))]
    pub fn room_for_clients(&self) -> usize {
        self.context.memory.room_for_clients()
    }

    /// Cuts plugins until the budget is kept, if something has grown. Returns whether it had.
    pub(super) fn keep_budget(&mut self) -> bool {
        let Some(grown) = self.context.memory.take_grown() else {
            return false;
        };
        let id = SocketId::of_owner(grown);
        let is_too_large = |socket: &Socket| self.context.memory.is_too_large(socket.applied.held);
        let too_large = id.filter(|id| self.sockets.get(*id).is_some_and(is_too_large));
        if let Some(id) = too_large {
            self.cut(id);
        }
        while self.context.memory.is_exceeded() {
            let before = self.context.memory.used();
            let Some(id) = self.next_to_cut(id) else {
                break;
            };
            self.cut(id);
            if self.context.memory.used() >= before {
                break;
            }
        }
        true
    }

    /// Returns the plugin to cut when this one has grown.
    fn next_to_cut(&self, grown: Option<SocketId>) -> Option<SocketId> {
        let mut most = (0, None);
        for socket in self.sockets.iter() {
            let is_grown = grown == Some(socket.id);
            let octets = socket.applied.held.loose + self.host.loose(socket.id.owner());
            if is_grown && octets > SMALL_SHARE {
                return grown;
            }
            if octets > most.0 || is_grown && octets > 0 && octets == most.0 {
                most = (octets, Some(socket.id));
            }
        }
        most.1
    }

    /// Has everything given up that is held of a plugin and can be.
    fn cut(&mut self, id: SocketId) {
        self.context.limit_hit(Limit::Memory);
        self.context.memory.set_cutting(true);
        self.with_socket(id, |socket, context| Some(socket.cut(context)));
        self.host.cut(id.owner(), &mut self.context);
        self.context.memory.set_cutting(false);
    }
}

impl Socket {
    /// Returns what is held of the plugin, without its effects.
    pub(super) fn held(&self) -> Held {
        let mut held = Held::default();
        let mut known = None;
        if let Some(registered) = &self.registered {
            held.add_plugin(Some(&registered.plugin), &mut known);
            let liveness = registered.health.liveness.as_ref();
            held.loose += mem_used(liveness.and_then(|it| it.client.as_deref()));
        }
        if let Some(active) = &self.active {
            held.add_plugin(active.plugin.as_ref(), &mut known);
            let connection = active.connection.as_ref();
            held.loose += mem_used(connection.and_then(|it| it.client.as_deref()));
        }
        if let Some(desired) = &self.desired {
            held.add_plugin(desired.restored.as_ref(), &mut known);
            held.add_plugin(self.announced().map(|it| &it.plugin), &mut known);
            if let Some(Ok(plugin)) = desired.observed.as_deref() {
                held.add_plugin(Some(plugin), &mut known);
            }
            held.loose += desired.mem_of_failures();
        }
        held
    }

    /// Counts what is held of the plugin.
    pub(super) fn count_memory(&mut self, context: &mut Context) {
        let held = self.held();
        let owner = self.id.owner();
        context.memory.count(owner, &mut self.applied.held, held);
    }

    /// Gives up what is held of the plugin and can be. Returns the event for its operation.
    fn cut(&mut self, context: &mut Context) -> Event {
        if let Some(desired) = &mut self.desired {
            desired.forget_failures();
        }
        if let Some(Registered { plugin, health, .. }) = &mut self.registered {
            let held = |liveness: &mut Liveness| mem_used(liveness.client.as_deref());
            if let Some(mut liveness) = health.liveness.take_if(|it| held(it) > SMALL_CUT) {
                liveness.give_up(context);
                health.check_at = Some(context.slow_check());
            }
            if self.active.is_none() {
                let is_repeated = std::mem::replace(&mut health.was_cut, true);
                let budget = context.memory.limit();
                let kind = EventKind::OverBudget {
                    budget,
                    is_repeated,
                };
                context.emit(PluginEvent::of_plugin(plugin, kind));
            }
        }
        Event::OverBudget
    }
}

fn mem_used(client: Option<&Client>) -> usize {
    client.map_or(0, Client::mem_used)
}

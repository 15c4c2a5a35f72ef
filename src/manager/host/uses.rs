//! What keeps a handler that was replaced: its plugins, effects and debts.
//!
//! Pure.

use super::HandlerHost;
use crate::handler::HandlerId;
use crate::manager::context::Context;
use crate::manager::ids::SocketId;

/// The number of plugins, open effects and debts of each handler.
#[derive(Debug, Default)]
pub(super) struct Uses(Vec<usize>);

impl Uses {
    pub(super) fn add(&mut self, handler: HandlerId) {
        let index = handler.index();
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] += 1;
    }

    pub(super) fn remove(&mut self, handler: HandlerId) {
        self.0[handler.index()] -= 1;
    }

    pub(super) fn of(&self, handler: HandlerId) -> usize {
        self.0.get(handler.index()).copied().unwrap_or_default()
    }
}

impl HandlerHost {
    /// Keeps a handler for a plugin that it knows or is asked about.
    pub(in crate::manager) fn claim(&mut self, handler: HandlerId) {
        self.uses.add(handler);
    }

    /// Ends what a handler does for the plugin behind a socket, which is neither registered nor in
    /// question any more.
    pub(in crate::manager) fn release(
        &mut self,
        handler: HandlerId,
        socket: SocketId,
        context: &mut Context,
    ) {
        self.cancel_all_of(socket.owner(), context);
        self.uses.remove(handler);
    }

    /// Drops the handlers that were replaced and that nothing keeps any more. Called when no event
    /// is left to deliver.
    pub(in crate::manager) fn drop_unused(&mut self) {
        let Self {
            handlers,
            uses,
            replaced,
            ..
        } = self;
        replaced.retain(|id| {
            let is_used = uses.of(*id) > 0;
            if !is_used {
                handlers.remove(*id);
            }
            is_used && handlers.get(*id).is_some()
        });
    }

    /// Asserts that the number of uses of each handler is the number of its plugins, open effects
    /// and debts.
    pub(in crate::manager) fn check_uses(&self, claims: impl Iterator<Item = HandlerId>) {
        let mut counted = Uses::default();
        let effects = self.effects.values().map(|it| it.recipient.handler);
        let debts = self.owed.values().map(|it| it.handler);
        for handler in claims.chain(effects).chain(debts) {
            counted.add(handler);
        }
        for (index, count) in self.uses.0.iter().enumerate() {
            assert_eq!(counted.0.get(index).unwrap_or(&0), count, "handler {index}");
        }
    }
}

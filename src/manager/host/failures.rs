//! Handlers that panic: each is dropped, and its plugins are refused from then on.
//!
//! Pure. A panic may happen in the middle of a step, so what follows from it is an event of its
//! own: the open questions of the handler are answered with an error, and its effects are
//! cancelled. Its debts stay, for the next process.

use super::HandlerHost;
use crate::handler::panics::{self, Panicked};
use crate::handler::{HandlerId, HandlerTable};
use crate::manager::context::Context;

impl HandlerHost {
    /// Returns the answer of a handler that needs no context, or the default value if the handler
    /// panics.
    pub(super) fn query<T: Default>(
        &mut self,
        handler: HandlerId,
        query: impl FnOnce(&HandlerTable) -> T,
    ) -> T {
        match panics::catch(|| query(&self.handlers)) {
            Ok(answer) => answer,
            Err(panicked) => {
                self.give_up(handler, &panicked);
                T::default()
            }
        }
    }

    /// Gives up a handler that has panicked: it is not called again.
    pub(super) fn give_up(&mut self, handler: HandlerId, panicked: &Panicked) {
        self.handlers.give_up(handler, panicked);
        self.given_up.push(handler);
    }

    /// Ends what a handler was doing when it was given up.
    pub(super) fn clear(&mut self, handler: HandlerId, context: &mut Context) {
        let effects = self.effects.iter();
        let open = effects.filter(|(_, effect)| effect.recipient.handler == handler);
        for id in open.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end(id, context);
        }
        let tickets = self.tickets.iter();
        let open = tickets.filter(|(_, asker)| asker.handler == handler);
        let answers = open.map(|(ticket, _)| (*ticket, Err(panics::reason())));
        self.answers.extend(answers);
    }
}

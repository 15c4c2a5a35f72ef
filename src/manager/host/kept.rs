//! What is held for the effects of plugins, and counts against the memory budget.
//!
//! Pure.

use super::{HandlerHost, OpenEffect, Recipient, State};
use crate::config::SMALL_CUT;
use crate::handler::{
    CallFailure, EffectId, EffectOwner, Event as HandlerEvent, ProgramEnd, ProgramOutcome,
};
use crate::manager::context::Context;
use crate::manager::measurement::Limit;
use crate::manager::memory::Held;

impl HandlerHost {
    /// Counts what an effect holds.
    pub(super) fn count(&mut self, id: EffectId, held: Held, context: &mut Context) {
        if let Some(effect) = self.effects.get_mut(&id) {
            context.memory.count(id.owner, &mut effect.held, held);
        }
    }

    /// Counts what a handler keeps for a plugin, in place of what it kept before. Nothing is kept
    /// for what is small, because that is so for most plugins.
    pub(super) fn keep(
        &mut self,
        recipient: Recipient,
        id: EffectId,
        octets: usize,
        context: &mut Context,
    ) {
        if id.owner == EffectOwner::HANDLER {
            return;
        }
        let is_kept = |(_, effect): &(_, &OpenEffect)| matches!(effect.state, State::Kept);
        let before = self.effects_of(id.owner).find(is_kept).map(|(id, _)| id);
        let is_small = octets <= SMALL_CUT;
        match before {
            Some(id) if is_small => drop(self.close(id, context)),
            Some(id) => self.count(id, Held::loose(octets), context),
            None if is_small => {}
            None => {
                self.open(id, recipient, State::Kept, None, context);
                self.count(id, Held::loose(octets), context);
            }
        }
    }

    /// Returns the octets that are held for the effects of a plugin and can be given up.
    pub(in crate::manager) fn loose(&self, owner: EffectOwner) -> usize {
        self.effects_of(owner).map(|(_, it)| it.held.loose).sum()
    }

    fn effects_of(&self, owner: EffectOwner) -> impl Iterator<Item = (EffectId, &OpenEffect)> {
        let effects = self.effects.range(owner.first_effect()..);
        let effects = effects.map(|(id, effect)| (*id, effect));
        effects.take_while(move |(id, _)| id.owner == owner)
    }

    /// Has a plugin's handler drop what it keeps, and closes the connections of the plugin's
    /// effects that hold much.
    pub(in crate::manager) fn cut(&mut self, owner: EffectOwner, context: &mut Context) {
        let large = self.effects_of(owner);
        let large = large.filter(|(_, it)| it.held.loose > SMALL_CUT);
        for id in large.map(|(id, _)| id).collect::<Vec<_>>() {
            let effect = self.effects.get_mut(&id);
            match effect.map(|effect| &mut effect.state) {
                Some(State::Kept) => self.ended(HandlerEvent::OverBudget { id }, context),
                Some(State::Call(call)) => {
                    let progress = call.cut(context);
                    self.progress(id, Some(progress), context);
                }
                _ => {}
            }
        }
    }

    /// Ends a program that cannot wait, because the memory budget is exhausted.
    pub(super) fn refuse_program(&mut self, id: EffectId, context: &mut Context) {
        context.limit_hit(Limit::Memory);
        let end = ProgramEnd::NotStarted(CallFailure::OverBudget.to_string());
        let outcome = ProgramOutcome::silent(end);
        self.ended(HandlerEvent::ProgramEnded { id, outcome }, context);
    }

    /// Returns what each effect and debt was counted with.
    pub(in crate::manager) fn held(&self) -> impl Iterator<Item = Held> {
        let effects = self.effects.values().map(|it| it.held);
        effects.chain(self.owed.values().map(|debt| debt.held))
    }
}

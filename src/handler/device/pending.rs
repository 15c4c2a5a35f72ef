//! A list of devices that is applied over several turns, and the next one.
//!
//! Pure.

use std::time::Duration;

use super::replacement::Replacement;
use crate::handler::{Context, EffectId};

/// A list of devices that is being applied, and the newest one that was received meanwhile.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) list: Replacement,
    pub(super) next: Option<Replacement>,
    /// The timer that goes on with it.
    pub(super) timer: EffectId,
}

impl Pending {
    /// Creates one that goes on with this list in the next turn.
    pub(super) fn new(list: Replacement, context: &mut Context<'_>) -> Self {
        Self {
            list,
            next: None,
            timer: context.set_timer(LATER),
        }
    }

    /// Goes on in the next turn: after the lists of other plugins if this turn was its own.
    pub(super) fn wait(&mut self, was_its_turn: bool, context: &mut Context<'_>) {
        self.timer = context.set_timer(if was_its_turn { LATER } else { SOON });
    }

    /// Starts with the next list. Returns false if there is none.
    pub(super) fn start_next(&mut self) -> bool {
        let next = self.next.take();
        let is_any = next.is_some();
        if let Some(next) = next {
            self.list = next;
        }
        is_any
    }

    /// Drops the lists that are not applied yet.
    pub(super) fn drop_lists(pending: &mut Option<Box<Self>>, context: &mut Context<'_>) {
        if let Some(pending) = pending.take() {
            context.cancel(pending.timer);
        }
    }

    /// Returns the octets of memory that are kept.
    pub(super) fn mem_used(&self) -> usize {
        let next = self.next.as_ref().map_or(0, Replacement::mem_used);
        self.list.mem_used() + next
    }
}

// A timer that is due now would fire in this turn. Of those that are due in the next one, the
// earliest fires first.

const SOON: Duration = Duration::from_nanos(1);

const LATER: Duration = Duration::from_nanos(2);

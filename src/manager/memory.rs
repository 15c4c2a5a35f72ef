//! The memory budget: one limit for everything that plugins can make grow.
//!
//! Pure. Each buffer and each list has a limit of its own, but there may be many plugins, so the
//! sum is limited, too. What counts are octets whose number plugins choose. Each holder remembers
//! what it was counted with last ([`Held`]), and applies the difference to one total:
//!
//! | holder | octets |
//! |---|---|
//! | socket | its plugin's description; failures and refusals; its connections |
//! | effect | the connection of a call or stream; what a handler keeps; texts for a program |
//! | debt | the description of the plugin that is yet to be deregistered |
//! | clients of `registration` | their connections and requests, as one number |
//!
//! A description is *pinned*: it is held for as long as the plugin is registered. So is a program
//! until it ends. All else of a plugin is *loose*: it can be given up, and the plugin stays
//! registered.
//!
//! When the total exceeds the budget, plugins are cut until it does not any more: an operation that
//! runs fails, connections are closed, and the handler drops what it keeps. The one that is cut is
//! the plugin that has grown, unless it holds less than [`SMALL_SHARE`]: then it is the one that
//! holds the most loose octets. So a small plugin registers whatever the others hold. Descriptions
//! may take half of the budget; beyond that, a plugin with one of more than [`SMALL_DESCRIPTION`]
//! is not registered.

use std::sync::Arc;

#[cfg(doc)]
use crate::config::SMALL_SHARE;
use crate::config::{MEMORY_BUDGET, SMALL_DESCRIPTION, SMALL_PROGRAM};
use crate::handler::{EffectOwner, Plugin};

/// What is held for all plugins together.
#[derive(Debug)]
pub(super) struct Memory {
    limit: usize,
    used: Held,
    /// What the clients of `registration` hold.
    clients: usize,
    /// The owner of what has grown although the budget was exceeded then.
    grown: Option<EffectOwner>,
    is_cutting: bool,
}

/// What one holder was counted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// The octets that are held for as long as the plugin is registered.
    pub(super) pinned: usize,
    /// The octets that can be given up before.
    pub(super) loose: usize,
}

impl Held {
    /// Returns octets that can be given up.
    pub(super) const fn loose(loose: usize) -> Self {
        Self { pinned: 0, loose }
    }

    /// Returns octets that cannot.
    pub(super) const fn pinned(pinned: usize) -> Self {
        Self { pinned, loose: 0 }
    }

    fn total(self) -> usize {
        self.pinned + self.loose
    }

    /// Adds the description of a plugin, unless that is the one that was added before.
    #[inline]
    pub(super) fn add_plugin<'a>(
        &mut self,
        plugin: Option<&'a Arc<Plugin>>,
        known: &mut Option<&'a Arc<Plugin>>,
    ) {
        let Some(plugin) = plugin else {
            return;
        };
        if !known.is_some_and(|known| Arc::ptr_eq(known, plugin)) {
            self.pinned += plugin.mem_used();
            *known = Some(plugin);
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            limit: MEMORY_BUDGET,
            used: Held::default(),
            clients: 0,
            grown: None,
            is_cutting: false,
        }
    }
}

impl Memory {
    /// Counts what a holder holds `now`, in place of what it held `before`.
    #[inline(never)]
    pub(super) fn count(&mut self, owner: EffectOwner, held: &mut Held, now: Held) {
        if *held == now {
            return;
        }
        let before = std::mem::replace(held, now);
        self.used.pinned = self.used.pinned - before.pinned + now.pinned;
        self.used.loose = self.used.loose - before.loose + now.loose;
        let has_grown = now.total() > before.total() && self.is_exceeded();
        let is_described = now.pinned > before.pinned && self.is_too_large(now);
        if (has_grown || is_described) && !self.is_cutting {
            self.grown = Some(owner);
        }
    }

    /// Returns whether this holder's description is not small, and descriptions have taken their
    /// part of the budget.
    pub(super) fn is_too_large(&self, held: Held) -> bool {
        held.pinned > SMALL_DESCRIPTION && self.used.pinned > self.limit / 2
    }

    /// Returns whether a program may wait that holds so many octets.
    pub(super) fn has_room_for_program(&self, octets: usize) -> bool {
        let spare = if octets > SMALL_PROGRAM {
            0
        } else {
            self.limit / 16
        };
        self.used() + octets <= self.limit.saturating_add(spare)
    }

    /// Returns the number of octets that are held.
    pub(super) fn used(&self) -> usize {
        self.used.total() + self.clients
    }

    /// Returns the budget.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Sets the budget.
    pub(super) fn set_limit(&mut self, octets: usize) {
        self.limit = octets;
    }

    /// Counts the octets that the clients of `registration` hold.
    pub(super) fn count_clients(&mut self, octets: usize) {
        self.clients = octets;
    }

    /// Returns the octets that those clients may hold.
    pub(super) fn room_for_clients(&self) -> usize {
        self.limit.saturating_sub(self.used.total())
    }

    /// Removes and returns the owner of what has grown although the budget was exceeded.
    pub(super) fn take_grown(&mut self) -> Option<EffectOwner> {
        self.grown.take()
    }

    /// Sets whether a plugin is being cut: what grows meanwhile does not have others cut, so that
    /// a handler that drops nothing is not asked again and again.
    pub(super) fn set_cutting(&mut self, is_cutting: bool) {
        self.is_cutting = is_cutting;
    }

    /// Returns whether the budget is exceeded.
    pub(super) fn is_exceeded(&self) -> bool {
        self.used() > self.limit
    }

    /// Asserts that the total is the sum over the holders.
    pub(super) fn check(&self, held: impl Iterator<Item = Held>) {
        let sum = held.fold(Held::default(), |sum, held| Held {
            pinned: sum.pinned + held.pinned,
            loose: sum.loose + held.loose,
        });
        assert_eq!(self.used, sum);
        assert!(self.grown.is_none() && !self.is_cutting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: EffectOwner = EffectOwner(1);
    const OTHER: EffectOwner = EffectOwner(2);

    fn memory(limit: usize) -> Memory {
        let mut memory = Memory::default();
        memory.set_limit(limit);
        memory
    }

    #[test]
    fn a_holder_is_counted_with_the_difference_to_what_it_held_before() {
        let mut memory = memory(100_000);
        let (mut one, mut other) = (Held::default(), Held::default());
        memory.count(ONE, &mut one, Held::loose(10_000));
        memory.count(OTHER, &mut other, Held::pinned(500));
        memory.count(ONE, &mut one, Held::loose(20_000));
        assert_eq!(memory.used(), 20_500);
        memory.check([one, other].into_iter());
        memory.count_clients(4);
        assert_eq!((memory.used(), memory.room_for_clients()), (20_504, 79_500));
        memory.count(ONE, &mut one, Held::default());
        memory.count(OTHER, &mut other, Held::default());
        assert_eq!(memory.used(), 4);
        assert_eq!(memory.take_grown(), None);
    }

    #[test]
    fn only_what_grows_beyond_the_budget_is_reported() {
        let mut memory = memory(10_000);
        let (mut one, mut other) = (Held::default(), Held::default());
        memory.count(ONE, &mut one, Held::loose(10_000));
        assert_eq!(memory.take_grown(), None, "it is just enough");
        memory.count(OTHER, &mut other, Held::loose(1));
        assert_eq!(memory.take_grown(), Some(OTHER));
        memory.count(ONE, &mut one, Held::loose(9_999));
        assert_eq!(memory.take_grown(), None);
        memory.count(ONE, &mut one, Held::loose(10_002));
        assert!(memory.is_exceeded());
        memory.count(ONE, &mut one, Held::loose(10_001));
        assert_eq!(memory.take_grown(), Some(ONE), "it had grown before");
        memory.set_cutting(true);
        memory.count(OTHER, &mut other, Held::loose(5));
        memory.set_cutting(false);
        assert_eq!(memory.take_grown(), None);
    }

    #[test]
    fn a_description_that_is_not_small_is_reported_at_half_of_the_budget() {
        let mut memory = memory(10_000);
        let mut holders = [Held::default(); 3];
        let [first, small, large] = &mut holders;
        memory.count(ONE, first, Held::pinned(5_000));
        memory.count(OTHER, small, Held::pinned(SMALL_DESCRIPTION));
        assert_eq!(memory.take_grown(), None);
        memory.count(OTHER, large, Held::pinned(SMALL_DESCRIPTION + 1));
        assert_eq!(memory.take_grown(), Some(OTHER));
        assert!(memory.is_too_large(*large) && !memory.is_too_large(*small));
        memory.check(holders.into_iter());
    }

    #[test]
    fn a_small_program_may_exceed_the_budget_by_some() {
        let mut memory = memory(1 << 20);
        let mut held = Held::default();
        memory.count(ONE, &mut held, Held::loose((1 << 20) - 5_000));
        assert!(memory.has_room_for_program(5_000));
        assert!(!memory.has_room_for_program(5_001));
        assert!(memory.has_room_for_program(SMALL_PROGRAM));
        memory.count(ONE, &mut held, Held::loose((1 << 20) + (1 << 16)));
        assert!(!memory.has_room_for_program(1));
        memory.set_limit(usize::MAX);
        assert!(memory.has_room_for_program(SMALL_PROGRAM));
    }
}

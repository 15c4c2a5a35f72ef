//! The memory budget: one limit on all the memory that plugins can make grow.
//!
//! Each buffer and each list has a limit of its own, but there may be many plugins, so the sum is
//! limited, too. What would exceed the budget is refused at that moment: a call fails, or a list is
//! not accepted. No data of other plugins is dropped to make room. A small share of each holder is
//! not counted, so that a small plugin can register whatever the others hold, and many small
//! plugins leave the budget to the large ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use smallvec::{Array, SmallVec};

use crate::config::{MEMORY_BUDGET, SMALL_SHARE};

/// The octets that may be held for all plugins together. Clones share the same budget.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    limit: AtomicUsize,
    held: AtomicUsize,
    refused: AtomicUsize,
}

/// The share of one holder. Dropping it returns the octets to the budget.
#[derive(Debug, Default)]
pub struct Reserved {
    counters: Arc<Counters>,
    /// The octets that are counted.
    octets: usize,
}

/// The reason why octets are refused: all plugins together would hold more than the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugins have exhausted the memory budget")]
pub struct OverBudget;

impl Default for Counters {
    fn default() -> Self {
        Self {
            limit: AtomicUsize::new(MEMORY_BUDGET),
            held: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }
}

impl Budget {
    /// Returns the number of octets that may be held.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Relaxed)
    }

    /// Sets the number of octets that may be held. Octets that are already held stay.
    pub fn set_limit(&self, octets: usize) {
        self.0.limit.store(octets, Relaxed);
    }

    /// Returns the number of octets that are held and count against the limit.
    pub fn held_octets(&self) -> usize {
        self.0.held.load(Relaxed)
    }

    /// Returns how often octets were refused since the last call.
    pub fn take_refusal_count(&self) -> usize {
        self.0.refused.swap(0, Relaxed)
    }

    /// Returns a share of zero octets.
    pub fn empty_share(&self) -> Reserved {
        Reserved {
            counters: Arc::clone(&self.0),
            octets: 0,
        }
    }
}

impl Reserved {
    /// Changes the share to this number of octets, of which the first [`SMALL_SHARE`] are not
    /// counted. Fails and changes nothing if the share would grow and the sum of all shares exceed
    /// the limit.
    pub fn resize(&mut self, octets: usize) -> Result<(), OverBudget> {
        let octets = octets.saturating_sub(SMALL_SHARE);
        let counters = &*self.counters;
        let others = counters.held.load(Relaxed) - self.octets;
        let is_granted =
            octets <= self.octets || others.saturating_add(octets) <= counters.limit.load(Relaxed);
        if !is_granted {
            counters.refused.fetch_add(1, Relaxed);
            return Err(OverBudget);
        }
        counters.held.store(others + octets, Relaxed);
        self.octets = octets;
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.counters.held.fetch_sub(self.octets, Relaxed);
    }
}

/// Returns the number of octets that a list has allocated on the heap: none while its items fit
/// inline.
pub(crate) fn spilled_octets<A: Array>(list: &SmallVec<A>) -> usize {
    if list.spilled() {
        list.capacity() * size_of::<A::Item>()
    } else {
        0
    }
}

/// Reserves memory for `size` octets: doubles the capacity, as vectors do, but not beyond `most`,
/// which must not be less than `size`.
#[inline]
pub(crate) fn grow_capacity(octets: &mut Vec<u8>, size: usize, most: usize) {
    if size > octets.capacity() {
        let doubled = octets.capacity().saturating_mul(2).clamp(size, most);
        octets.reserve_exact(doubled - octets.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a size of which `octets` are counted.
    const fn size_counted_as(octets: usize) -> usize {
        SMALL_SHARE + octets
    }

    #[test]
    fn what_would_exceed_the_budget_is_refused_and_changes_nothing() {
        let budget = Budget::default();
        budget.set_limit(20);
        let (mut one, mut other) = (budget.empty_share(), budget.empty_share());
        assert_eq!(one.resize(size_counted_as(10)), Ok(()));
        assert_eq!(other.resize(size_counted_as(11)), Err(OverBudget));
        assert_eq!((budget.held_octets(), budget.take_refusal_count()), (10, 1));
        assert_eq!(
            other.resize(size_counted_as(10)),
            Ok(()),
            "it is just enough"
        );
        assert_eq!((budget.held_octets(), budget.take_refusal_count()), (20, 0));
        drop(one);
        assert_eq!(other.resize(size_counted_as(20)), Ok(()));
        drop(other);
        assert_eq!(budget.held_octets(), 0);
    }

    #[test]
    fn a_small_share_is_not_counted_and_less_than_before_is_granted() {
        let budget = Budget::default();
        let mut large = budget.empty_share();
        assert_eq!(large.resize(size_counted_as(10)), Ok(()));
        let mut small: Vec<_> = (0..1300).map(|_| budget.empty_share()).collect();
        for small in &mut small {
            assert_eq!(small.resize(SMALL_SHARE), Ok(()));
        }
        assert_eq!(budget.held_octets(), 10);
        budget.set_limit(0);
        assert_eq!(small[0].resize(SMALL_SHARE), Ok(()));
        assert_eq!(large.resize(size_counted_as(11)), Err(OverBudget));
        assert_eq!(large.resize(size_counted_as(9)), Ok(()));
        assert_eq!(large.resize(size_counted_as(10)), Err(OverBudget));
    }
}

//! Who wants to be woken, and when.
//!
//! Pure. An index over deadlines that others hold in their own state: whoever changes such a state
//! says its deadline again, and the earliest of them all is known without a search.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Time;

/// At most one deadline for each key.
#[derive(Debug)]
pub(super) struct Deadlines<K> {
    /// Of the keys whose owners do not keep it themselves.
    by_key: BTreeMap<K, Time>,
    by_time: BTreeSet<(Time, K)>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Ord> Deadlines<K> {
    /// The deadline of `key` is `at`, or there is none any more.
    pub(super) fn set(&mut self, key: K, at: Option<Time>) {
        let before = match at {
            Some(at) => self.by_key.insert(key.clone(), at),
            None => self.by_key.remove(&key),
        };
        self.change(key, before, at);
    }

    /// The same for a key whose deadline changes often: its owner keeps it in `kept`. That is out
    /// of reach when the deadline is popped: its owner clears it then.
    pub(super) fn set_kept(&mut self, key: K, kept: &mut Option<Time>, at: Option<Time>) {
        let before = std::mem::replace(kept, at);
        self.change(key, before, at);
    }

    fn change(&mut self, key: K, before: Option<Time>, at: Option<Time>) {
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.by_time.insert((at, key));
        }
    }

    /// The earliest deadline.
    pub(super) fn first(&self) -> Option<(Time, &K)> {
        self.by_time.first().map(|(at, key)| (*at, key))
    }

    /// Whether `key` has that deadline.
    pub(super) fn has(&self, key: K, at: Time) -> bool {
        self.by_time.contains(&(at, key))
    }

    /// How many keys have a deadline, of those that their owners keep.
    pub(super) fn kept(&self) -> usize {
        self.by_time.len() - self.by_key.len()
    }

    /// The deadline of `key`, unless its owner keeps it.
    pub(super) fn get(&self, key: &K) -> Option<Time> {
        self.by_key.get(key).copied()
    }

    /// Takes out the earliest deadline that has come by `now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<K> {
        let (at, _) = self.first()?;
        if at > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_a_key_has_one_deadline() {
        let mut deadlines = Deadlines::default();
        deadlines.set("a", Some(Time::from_millis(5)));
        deadlines.set("b", Some(Time::from_millis(3)));
        deadlines.set("b", Some(Time::from_millis(7)));
        assert_eq!(deadlines.first(), Some((Time::from_millis(5), &"a")));
        assert_eq!(deadlines.pop_due(Time::from_millis(4)), None);
        assert_eq!(deadlines.pop_due(Time::from_millis(5)), Some("a"));
        assert_eq!(deadlines.pop_due(Time::from_millis(5)), None);
        deadlines.set("b", None);
        assert_eq!(deadlines.first(), None);
        assert_eq!(deadlines.get(&"b"), None);
    }

    #[test]
    fn a_deadline_that_its_owner_keeps_comes_in_the_order_of_all() {
        let [early, middle, late] = [3, 5, 7].map(Time::from_millis);
        let mut deadlines = Deadlines::default();
        let mut kept = None;
        deadlines.set("a", Some(middle));
        deadlines.set_kept("b", &mut kept, Some(late));
        assert_eq!(deadlines.first(), Some((middle, &"a")));
        deadlines.set_kept("b", &mut kept, Some(early));
        assert_eq!(kept, Some(early));
        assert!(deadlines.has("b", early) && !deadlines.has("b", late));
        assert_eq!(deadlines.kept(), 1);
        assert_eq!(deadlines.pop_due(early), Some("b"));
        kept = None;
        deadlines.set_kept("b", &mut kept, Some(late));
        deadlines.set_kept("b", &mut kept, None);
        assert!(deadlines.has("a", middle));
        assert_eq!(deadlines.kept(), 0);
        assert_eq!(deadlines.pop_due(late), Some("a"));
        assert_eq!(deadlines.pop_due(late), None);
    }
}

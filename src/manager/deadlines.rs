//! Who wants to be woken, and when.
//!
//! Pure. An index over deadlines that others hold in their own state: whoever changes such a state
//! says its deadline again, and the earliest of them all is known without a search.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Time;

/// At most one deadline for each key.
#[derive(Debug)]
pub(super) struct Deadlines<K> {
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

    /// The deadline of `key`.
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
}

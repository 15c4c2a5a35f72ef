//! An index of deadlines.
//!
//! Pure. The deadlines belong to the states of other parts: a part that changes such a state sets
//! its deadline again, and the earliest deadline of all is known without a search.

use std::collections::BTreeMap;

use crate::time::Time;

/// A set of deadlines, at most one for each key.
#[derive(Debug)]
pub(super) struct Deadlines<K> {
    /// The deadlines whose owners do not keep them.
    by_key: BTreeMap<K, Entry>,
    by_time: BTreeMap<Entry, K>,
    last: u64,
}

/// A deadline with a unique number, because keys take longer to compare.
type Entry = (Time, u64);

/// A deadline that its owner keeps, because it changes often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept(Option<Entry>);

impl Kept {
    /// Returns the time of the deadline, or `None` if it is not set.
    pub(super) fn at(self) -> Option<Time> {
        self.0.map(|(at, _)| at)
    }
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_time: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<K: Clone + Ord> Deadlines<K> {
    /// Sets the deadline of `key`, or removes it.
    pub(super) fn set(&mut self, key: K, at: Option<Time>) {
        let mut kept = Kept(self.by_key.get(&key).copied());
        if kept.at() == at {
            return;
        }
        self.set_kept(key.clone(), &mut kept, at);
        match kept.0 {
            Some(entry) => self.by_key.insert(key, entry),
            None => self.by_key.remove(&key),
        };
    }

    /// Sets a deadline that its owner keeps. When the deadline is popped, its owner must clear
    /// `kept`.
    pub(super) fn set_kept(&mut self, key: K, kept: &mut Kept, at: Option<Time>) {
        if kept.at() == at {
            return;
        }
        if let Some(before) = kept.0 {
            self.by_time.remove(&before);
        }
        kept.0 = at.map(|at| {
            self.last += 1;
            (at, self.last)
        });
        if let Some(entry) = kept.0 {
            self.by_time.insert(entry, key);
        }
    }

    /// Sets a deadline whose owner checks the time again when it is popped: a later `at` does not
    /// move the deadline, which is then popped early.
    pub(super) fn set_kept_or_earlier(&mut self, key: K, kept: &mut Kept, at: Option<Time>) {
        let is_put_off = kept
            .at()
            .is_some_and(|kept| at.is_some_and(|at| kept <= at));
        if !is_put_off {
            self.set_kept(key, kept, at);
        }
    }

    /// Returns the earliest deadline.
    pub(super) fn first(&self) -> Option<(Time, &K)> {
        let ((at, _), key) = self.by_time.first_key_value()?;
        Some((*at, key))
    }

    /// Returns whether `key` has that deadline.
    pub(super) fn has(&self, key: &K, kept: Kept) -> bool {
        kept.0.and_then(|entry| self.by_time.get(&entry)) == Some(key)
    }

    /// Returns the number of deadlines that their owners keep.
    pub(super) fn kept(&self) -> usize {
        self.by_time.len() - self.by_key.len()
    }

    /// Returns the deadline of `key`, unless its owner keeps it.
    pub(super) fn get(&self, key: &K) -> Option<Time> {
        self.by_key.get(key).map(|(at, _)| *at)
    }

    /// Removes the earliest deadline and returns its key, if it is due by `now`.
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
        let mut kept = Kept::default();
        deadlines.set("a", Some(middle));
        deadlines.set_kept("b", &mut kept, Some(late));
        assert_eq!(deadlines.first(), Some((middle, &"a")));
        let before = kept;
        deadlines.set_kept("b", &mut kept, Some(early));
        assert_eq!(kept.at(), Some(early));
        assert!(deadlines.has(&"b", kept) && !deadlines.has(&"b", before));
        assert_eq!(deadlines.kept(), 1);
        deadlines.set_kept_or_earlier("b", &mut kept, Some(late));
        assert_eq!(kept.at(), Some(early), "it is popped early");
        assert_eq!(deadlines.pop_due(early), Some("b"));
        kept = Kept::default();
        deadlines.set_kept_or_earlier("b", &mut kept, Some(late));
        deadlines.set_kept_or_earlier("b", &mut kept, Some(middle));
        assert_eq!(kept.at(), Some(middle));
        deadlines.set_kept("b", &mut kept, None);
        assert_eq!(deadlines.get(&"a"), Some(middle));
        assert_eq!(deadlines.kept(), 0);
        assert_eq!(deadlines.pop_due(late), Some("a"));
        assert_eq!(deadlines.pop_due(late), None);
    }
}

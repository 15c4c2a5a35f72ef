//! A map that is sorted by its keys, in little code.
//!
//! Pure. The entries are in sorted runs that are short enough for a cheap insertion, whether there
//! are three of them or 20,000. A `BTreeMap` has 4 to 5 kB of code for each pair of types, this map
//! about 1 kB.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::mem;

/// A map that is sorted by its keys.
#[derive(Clone, Debug)]
pub(crate) struct SortedMap<K, V> {
    /// The sorted runs: none is longer than [`MAX_RUN`], and none is empty but the only one.
    runs: Vec<Vec<(K, V)>>,
    len: usize,
}

/// The index of a run, and the index of an entry in it: where an entry is or would be inserted.
pub(crate) type Place = (usize, usize);

impl<K: Ord, V> SortedMap<K, V> {
    /// Returns the value of a key.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (run, index) = self.find(key).ok()?;
        Some(&self.runs[run][index].1)
    }

    /// Returns the value of a key, to change it.
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let place = self.find(key).ok()?;
        Some(self.at_mut(place))
    }

    /// Returns whether the map has a key.
    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Adds an entry. Returns the value that it replaces, if there is one.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(place) => Some(mem::replace(self.at_mut(place), value)),
            Err(place) => {
                self.insert_at(place, (key, value));
                None
            }
        }
    }

    /// Returns the value of a key, to change it. If it is missing, adds this one.
    pub(crate) fn get_or_insert(&mut self, key: K, value: V) -> &mut V {
        let place = match self.find(&key) {
            Ok(place) => place,
            Err(place) => self.insert_at(place, (key, value)),
        };
        self.at_mut(place)
    }

    /// Removes an entry and returns its value.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.find(key).ok()?;
        Some(self.remove_at(place).1)
    }

    /// Returns the entries from a key on, whether or not the map has that key.
    pub(crate) fn iter_from<'a, Q: Ord + ?Sized>(
        &'a self,
        key: &Q,
    ) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, Q, K, V>
    where
        K: Borrow<Q>,
    {
        let (Ok((run, index)) | Err((run, index))) = self.find(key);
        let runs = self.runs.get(run..).unwrap_or_default();
        let entries = runs.iter().flatten().skip(index);
        entries.map(|(key, value)| (key, value))
    }

    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Place, Place>
    where
        K: Borrow<Q>,
    {
        self.find_by(|found| found.borrow().cmp(key))
    }
}

impl<K, V> SortedMap<K, V> {
    /// Creates an empty map.
    pub(crate) const fn new() -> Self {
        let runs = Vec::new();
        Self { runs, len: 0 }
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the first entry.
    pub(crate) fn first(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// Removes the first entry and returns it.
    pub(crate) fn pop_first(&mut self) -> Option<(K, V)> {
        (self.len > 0).then(|| self.remove_at((0, 0)))
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Removes the entries that do not meet a condition.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&K, &mut V) -> bool) {
        for run in &mut self.runs {
            run.retain_mut(|(key, value)| is_kept(key, value));
        }
        self.runs.retain(|run| !run.is_empty());
        self.len = self.runs.iter().map(Vec::len).sum();
    }

    /// Returns the entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.runs.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Returns the keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the values, to change them.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.runs.iter_mut().flatten().map(|(_, value)| value)
    }

    /// Returns where the entry is whose key is equal by this comparison, as `Ok`, or where it would
    /// be inserted, as `Err`. The keys must be sorted by the comparison.
    pub(crate) fn find_by(&self, compare: impl Fn(&K) -> Ordering) -> Result<Place, Place> {
        let compare = |(found, _): &(K, V)| compare(found);
        let later = self.runs.get(1..).unwrap_or_default();
        let run = match search(later, |run| compare(&run[0])) {
            Ok(run) => return Ok((run + 1, 0)),
            Err(run) => run,
        };
        let entries = self.runs.get(run).map_or(&[][..], Vec::as_slice);
        match search(entries, compare) {
            Ok(index) => Ok((run, index)),
            Err(index) => Err((run, index)),
        }
    }

    /// Returns the value of the entry at a place.
    pub(crate) fn at(&self, (run, index): Place) -> &V {
        &self.runs[run][index].1
    }

    /// Returns the value of the entry at a place, to change it.
    pub(crate) fn at_mut(&mut self, (run, index): Place) -> &mut V {
        &mut self.runs[run][index].1
    }

    /// Inserts an entry at a place where it belongs, and returns where it is.
    pub(crate) fn insert_at(&mut self, (mut run, mut index): Place, entry: (K, V)) -> Place {
        self.len += 1;
        if self.runs.is_empty() {
            self.runs.push(Vec::new());
        }
        if self.runs[run].len() == MAX_RUN {
            // Sorted insertions fill every run completely.
            let middle = if index == MAX_RUN {
                MAX_RUN
            } else {
                MAX_RUN / 2
            };
            let upper = self.runs[run].split_off(middle);
            self.runs.insert(run + 1, upper);
            if index >= middle {
                (run, index) = (run + 1, index - middle);
            }
        }
        self.runs[run].insert(index, entry);
        (run, index)
    }

    /// Removes the entry at a place.
    pub(crate) fn remove_at(&mut self, (run, index): Place) -> (K, V) {
        self.len -= 1;
        let entry = self.runs[run].remove(index);
        // The only run keeps its memory, for a map that gets and loses one entry all the time.
        if self.runs[run].is_empty() && self.runs.len() > 1 {
            self.runs.remove(run);
        }
        entry
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// Returns the index of an item, or the index at which it would be inserted. Unlike that of the
/// standard library, this binary search ends as soon as it has found the item: to compare paths
/// takes long.
fn search<T>(sorted: &[T], compare: impl Fn(&T) -> Ordering) -> Result<usize, usize> {
    let (mut first, mut rest) = (0, sorted);
    while !rest.is_empty() {
        let middle = rest.len() / 2;
        match compare(&rest[middle]) {
            Ordering::Less => {
                first += middle + 1;
                rest = &rest[middle + 1..];
            }
            Ordering::Equal => return Ok(first + middle),
            Ordering::Greater => rest = &rest[..middle],
        }
    }
    Err(first)
}

/// The maximum number of entries in a run: an insertion moves at most this many.
const MAX_RUN: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Asserts that a map is as it must be, and that it has these entries.
    fn check(map: &SortedMap<u64, u64>, expected: &BTreeMap<u64, u64>) {
        assert!(map.iter().eq(expected));
        assert!(map.keys().eq(expected.keys()) && map.values().eq(expected.values()));
        assert_eq!(map.len(), expected.len());
        assert_eq!(map.is_empty(), expected.is_empty());
        assert_eq!(map.first(), expected.first_key_value());
        assert!(map.runs.iter().all(|run| run.len() <= MAX_RUN));
        let empty = map.runs.iter().filter(|run| run.is_empty()).count();
        assert!(empty == 0 || map.runs.len() == 1);
    }

    #[test]
    fn a_map_is_what_a_b_tree_is_in_every_order_of_insertions_and_removals() {
        let upwards: Vec<u64> = (0..500).collect();
        let downwards = upwards.iter().rev().copied().collect();
        let mixed = upwards.iter().map(|n| n * 617 % 500).collect();
        for order in [upwards, downwards, mixed] {
            let (mut map, mut expected) = (SortedMap::new(), BTreeMap::new());
            for &n in &order {
                assert_eq!(map.insert(n, 0), expected.insert(n, 0));
                assert_eq!(map.insert(n, n), expected.insert(n, n));
                check(&map, &expected);
            }
            assert!(map.runs.len() <= 2 * 500 / MAX_RUN + 1);
            for n in order.iter().filter(|&n| n % 3 != 0) {
                assert!(map.contains_key(n));
                assert_eq!(map.remove(n), expected.remove(n));
                assert_eq!(map.remove(n), None);
                assert_eq!(map.get(n), None);
                assert_eq!(map.get_mut(n), None);
                check(&map, &expected);
            }
            for from in 0..502 {
                assert!(map.iter_from(&from).eq(expected.range(from..)), "{from}");
            }
            for value in map.values_mut().chain(expected.values_mut()) {
                *value += 1;
            }
            for n in (0..500).step_by(7) {
                *map.get_or_insert(n, 3) *= 2;
                *expected.entry(n).or_insert(3) *= 2;
                assert_eq!(map.get(&n), expected.get(&n));
            }
            check(&map, &expected);
            map.retain(|n, value| (n / 100 != 2) && *value % 4 != 0);
            expected.retain(|n, value| (*n / 100 != 2) && *value % 4 != 0);
            check(&map, &expected);
            check(
                &map.iter().map(|(n, value)| (*n, *value)).collect(),
                &expected,
            );
            for _ in 0..=expected.len() {
                assert_eq!(map.pop_first(), expected.pop_first());
                check(&map, &expected);
            }
        }
    }

    #[test]
    fn an_empty_map_has_nothing_and_can_be_filled_again() {
        let mut map = SortedMap::default();
        check(&map, &BTreeMap::new());
        assert_eq!(map.get(&1), None);
        assert_eq!(map.remove(&1), None);
        assert_eq!(map.pop_first(), None);
        assert_eq!(map.iter_from(&0).count(), 0);
        for n in [3, 4] {
            map.insert(n, n);
            map.clear();
            check(&map, &BTreeMap::new());
            map.insert(n, n);
            map.retain(|_, _| false);
            check(&map, &BTreeMap::new());
            map.insert(n, n);
            check(&map, &[(n, n)].into());
            assert_eq!(map.remove(&n), Some(n));
            check(&map, &BTreeMap::new());
        }
    }
}

//! A map of connections by link.
//!
//! Pure. An event has its connection looked up a dozen times in a row, so the entry that was found
//! last is tried first.

use std::cell::Cell;

use super::LinkId;

/// At most one value for each link, in the order of the links.
#[derive(Debug)]
pub(crate) struct ByLink<V> {
    values: Vec<(LinkId, V)>,
    /// The index of the value that was added or found last; it may be out of date.
    last: Cell<usize>,
}

impl<V> Default for ByLink<V> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            last: Cell::new(0),
        }
    }
}

impl<V> ByLink<V> {
    /// Adds the value of a link that has none.
    pub(crate) fn insert(&mut self, link: LinkId, value: V) {
        let found = self.find(link);
        debug_assert!(found.is_err(), "{link:?} has a value");
        let (Ok(place) | Err(place)) = found;
        self.values.insert(place, (link, value));
        self.last.set(place);
    }

    pub(crate) fn get(&self, link: LinkId) -> Option<&V> {
        let place = self.find(link).ok()?;
        self.values.get(place).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, link: LinkId) -> Option<&mut V> {
        let place = self.find(link).ok()?;
        self.values.get_mut(place).map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, link: LinkId) -> Option<V> {
        let place = self.find(link).ok()?;
        let (_, value) = self.values.remove(place);
        Some(value)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkId, &V)> {
        self.values.iter().map(|(link, value)| (*link, value))
    }

    /// Returns the index of a link's value as `Ok`, or the index to insert it at as `Err`.
    fn find(&self, link: LinkId) -> Result<usize, usize> {
        let last = self.last.get();
        match self.values.get(last) {
            Some((it, _)) if *it == link => Ok(last),
            _ => self.search(link),
        }
    }

    fn search(&self, link: LinkId) -> Result<usize, usize> {
        let place = self.values.binary_search_by_key(&link, |(it, _)| *it)?;
        self.last.set(place);
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_link_whatever_was_asked_for_before_it() {
        let mut map = ByLink::default();
        for link in [3, 1, 2, 5] {
            map.insert(LinkId(link), link);
        }
        assert!(map.iter().map(|(_, value)| *value).eq([1, 2, 3, 5]));
        for before in 0..=6 {
            for link in 0..=6 {
                map.get(LinkId(before));
                let expected = [1, 2, 3, 5].contains(&link).then_some(link);
                assert_eq!(map.get(LinkId(link)).copied(), expected);
                assert_eq!(map.get_mut(LinkId(link)).copied(), expected);
            }
        }
    }

    #[test]
    fn a_value_that_was_removed_is_not_found_and_those_behind_it_are() {
        let mut map = ByLink::default();
        for link in 1..=4 {
            map.insert(LinkId(link), link);
        }
        for link in [2, 4, 1, 3] {
            assert_eq!(map.get(LinkId(link)), Some(&link));
            assert_eq!(map.remove(LinkId(link)), Some(link));
            assert_eq!(map.remove(LinkId(link)), None);
            let left: Vec<u64> = map.iter().map(|(_, value)| *value).collect();
            assert!(left.iter().all(|&it| map.get(LinkId(it)) == Some(&it)));
        }
    }
}

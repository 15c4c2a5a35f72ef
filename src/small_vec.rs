//! A list that mostly has one item, for which it allocates no memory.
//!
//! Pure. Nearly every connection serves one call after the other, so at any time it mostly has one
//! call, one stream and one event.

/// A list that stores its first item inline.
#[derive(Debug)]
pub(crate) struct SmallVec<T> {
    /// The first item; if it is `None`, `others` is empty.
    first: Option<T>,
    others: Vec<T>,
}

impl<T> SmallVec<T> {
    /// Creates an empty list.
    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            others: Vec::new(),
        }
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Returns whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns an iterator over the items.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.others)
    }

    /// Returns an iterator that allows modifying each item.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(&mut self.others)
    }

    /// Returns the index of the first item that meets the condition.
    pub(crate) fn position(&self, is_met: impl FnMut(&T) -> bool) -> Option<usize> {
        self.iter().position(is_met)
    }

    /// Returns the item at `index`.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(1) {
            None => self.first.as_mut(),
            Some(index) => self.others.get_mut(index),
        }
    }

    /// Adds an item at the end.
    pub(crate) fn push(&mut self, item: T) {
        if self.first.is_none() {
            self.first = Some(item);
        } else {
            self.others.push(item);
        }
    }

    /// Removes and returns the item at `index`; the items after it move up.
    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let Some(index) = index.checked_sub(1) else {
            let first = self.first.take();
            if !self.others.is_empty() {
                self.first = Some(self.others.remove(0));
            }
            return first;
        };
        (index < self.others.len()).then(|| self.others.remove(index))
    }

    /// Returns the octets of memory allocated beyond the value itself.
    pub(crate) fn mem_used(&self) -> usize {
        self.others.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: impl IntoIterator<Item = char>) -> SmallVec<char> {
        let mut list = SmallVec::new();
        items.into_iter().for_each(|item| list.push(item));
        list
    }

    #[test]
    fn items_keep_their_order_and_those_behind_one_that_goes_move_up() {
        for (index, expected) in [(0, "bc"), (1, "ac"), (2, "ab"), (3, "abc")] {
            let mut list = list("abc".chars());
            assert_eq!(list.remove(index), "abc".chars().nth(index));
            assert_eq!(list.iter().collect::<String>(), expected);
            assert_eq!(list.len(), expected.len());
            for (index, item) in expected.chars().enumerate() {
                assert_eq!(list.get_mut(index), Some(&mut { item }));
            }
            assert_eq!(list.get_mut(expected.len()), None);
        }
    }

    #[test]
    fn one_item_after_the_other_takes_no_memory() {
        let mut list = list([]);
        for item in 'a'..='z' {
            assert!(list.is_empty());
            list.push(item);
            list.iter_mut().for_each(char::make_ascii_uppercase);
            assert_eq!(list.remove(0), Some(item.to_ascii_uppercase()));
            assert_eq!(list.remove(0), None);
        }
        assert_eq!(list.mem_used(), 0);
        list.push('a');
        list.push('b');
        assert!(list.mem_used() >= size_of::<char>());
    }
}

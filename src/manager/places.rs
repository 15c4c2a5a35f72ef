//! The places for operations that use a connection, and who waits for one.
//!
//! Pure.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::by_path::ByPath;
use crate::config::MAX_OPERATIONS;

/// [`MAX_OPERATIONS`] places, and the sockets in line for one, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: usize,
    line: BTreeMap<u64, Arc<Path>>,
    waiting: ByPath<u64>,
    last: u64,
}

impl Places {
    /// Whether a place is free; if not, the socket gets in line.
    pub(super) fn is_free_for(&mut self, path: &Arc<Path>) -> bool {
        if self.taken < MAX_OPERATIONS {
            return true;
        }
        if !self.waiting.contains(path) {
            self.last += 1;
            self.line.insert(self.last, path.clone());
            self.waiting.insert(path.clone(), self.last);
        }
        false
    }

    /// The sockets that have waited longest, as many as there are free places: they wait no longer.
    ///
    /// No more of them, because whoever finds no place gets in line again, at its end.
    pub(super) fn call(&mut self) -> Vec<Arc<Path>> {
        let free = MAX_OPERATIONS.saturating_sub(self.taken);
        let mut called = Vec::new();
        while called.len() < free {
            let Some((_, path)) = self.line.pop_first() else {
                break;
            };
            self.waiting.remove(&path);
            called.push(path);
        }
        called
    }

    /// The socket does not wait any more.
    pub(super) fn forget(&mut self, path: &Path) {
        if let Some(place) = self.waiting.remove(path) {
            self.line.remove(&place);
        }
    }

    /// An operation held a place or did not, and now does or does not.
    pub(super) fn change(&mut self, before: bool, after: bool) {
        self.taken = self.taken + usize::from(after) - usize::from(before);
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_gets_the_place_that_comes_free() {
        let path = |name: &str| Arc::<Path>::from(Path::new(name));
        let mut places = Places::default();
        for _ in 0..MAX_OPERATIONS {
            assert!(places.is_free_for(&path("x")));
            places.change(false, true);
        }
        for name in ["c", "a", "b", "c"] {
            assert!(!places.is_free_for(&path(name)));
        }
        places.forget(&path("a"));
        assert!(places.call().is_empty());
        places.change(true, false);
        assert_eq!(places.call(), [path("c")]);
        places.change(true, false);
        assert_eq!(places.call(), [path("b")]);
        assert!(places.call().is_empty());
    }
}

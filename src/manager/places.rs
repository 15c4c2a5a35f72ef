//! The places for operations that use a connection, and who waits for one.
//!
//! Pure. Few places are enough for plugins that answer, and what operations need at once in memory
//! the daemon keeps. So there are [`BRISK_OPERATIONS`] places as long as some come free all the
//! time, and more, up to [`MAX_OPERATIONS`], when none does for [`PATIENCE_IN_LINE`]: plugins that
//! do not answer must not keep the others waiting.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::by_path::ByPath;
use super::{Manager, Wake};
use crate::config::{BRISK_OPERATIONS, MAX_OPERATIONS, PATIENCE_IN_LINE};
use crate::time::Time;

/// The places, and the sockets in line for one, in the order in which they came.
#[derive(Debug)]
pub(super) struct Places {
    taken: usize,
    /// How many there are for now.
    limit: usize,
    /// When the line last moved, or began.
    moved: Time,
    line: BTreeMap<u64, Arc<Path>>,
    waiting: ByPath<u64>,
    last: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            taken: 0,
            limit: BRISK_OPERATIONS,
            moved: Time::ZERO,
            line: BTreeMap::new(),
            waiting: ByPath::default(),
            last: 0,
        }
    }
}

impl Places {
    /// Whether a place is free; if not, the socket gets in line.
    pub(super) fn is_free_for(&mut self, path: &Arc<Path>, now: Time) -> bool {
        if self.taken < self.limit {
            return true;
        }
        if self.line.is_empty() {
            self.moved = now;
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
        let free = self.limit.saturating_sub(self.taken);
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
    pub(super) fn change(&mut self, before: bool, after: bool, now: Time) {
        self.taken = self.taken + usize::from(after) - usize::from(before);
        if before && !after {
            self.moved = now;
        }
        if self.taken < BRISK_OPERATIONS && self.line.is_empty() {
            self.limit = BRISK_OPERATIONS;
        }
    }

    /// When to see whether the line moves; none: nobody waits, or there are no more places.
    fn patience(&self) -> Option<Time> {
        let is_use = !self.line.is_empty() && self.limit < MAX_OPERATIONS;
        is_use.then(|| self.moved + PATIENCE_IN_LINE)
    }

    /// If the line has not moved for long enough, there are twice as many places from now on.
    fn make_room(&mut self, now: Time) {
        if self.patience().is_some_and(|until| until <= now) {
            self.limit = (self.limit * 2).min(MAX_OPERATIONS);
            self.moved = now;
        }
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }
}

impl Manager {
    /// Somebody got in line: if it does not move, something has to be done.
    pub(super) fn watch_line(&mut self) {
        if self.deadlines.get(&Wake::Line).is_none() {
            self.deadlines.set(Wake::Line, self.places.patience());
        }
    }

    /// Somebody has been in line for a while.
    pub(super) fn line_waited(&mut self, now: Time) {
        self.places.make_room(now);
        self.watch_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> Arc<Path> {
        Path::new(name).into()
    }

    /// Places of which so many are taken.
    fn taken(count: usize) -> Places {
        let mut places = Places::default();
        for _ in 0..count {
            assert!(places.is_free_for(&path("x"), Time::ZERO));
            places.change(false, true, Time::ZERO);
        }
        places
    }

    #[test]
    fn who_came_first_gets_the_place_that_comes_free() {
        let mut places = taken(BRISK_OPERATIONS);
        for name in ["c", "a", "b", "c"] {
            assert!(!places.is_free_for(&path(name), Time::ZERO));
        }
        places.forget(&path("a"));
        assert!(places.call().is_empty());
        places.change(true, false, Time::ZERO);
        assert_eq!(places.call(), [path("c")]);
        places.change(true, false, Time::ZERO);
        assert_eq!(places.call(), [path("b")]);
        assert!(places.call().is_empty());
    }

    #[test]
    fn a_line_that_does_not_move_gets_more_places_until_there_are_no_more() {
        let mut places = taken(BRISK_OPERATIONS);
        assert_eq!(places.patience(), None, "nobody waits");
        let begun = Time::from_millis(100);
        assert!(!places.is_free_for(&path("a"), begun));
        assert_eq!(places.patience(), Some(begun + PATIENCE_IN_LINE));
        places.make_room(begun);
        assert!(places.call().is_empty(), "it is early");
        places.make_room(begun + PATIENCE_IN_LINE);
        assert_eq!(places.call(), [path("a")]);

        let mut now = begun;
        while places.taken() < MAX_OPERATIONS {
            now += PATIENCE_IN_LINE;
            if places.is_free_for(&path("b"), now) {
                places.change(false, true, now);
            } else {
                places.make_room(now + PATIENCE_IN_LINE);
                places.forget(&path("b"));
            }
        }
        assert!(!places.is_free_for(&path("b"), now));
        assert_eq!(places.patience(), None, "there are no more");
    }

    #[test]
    fn once_few_places_are_taken_there_are_few_again() {
        let mut places = taken(BRISK_OPERATIONS);
        assert!(!places.is_free_for(&path("a"), Time::ZERO));
        places.make_room(Time::ZERO + PATIENCE_IN_LINE);
        assert_eq!(places.call(), [path("a")]);
        assert!(places.is_free_for(&path("b"), Time::ZERO));
        places.change(true, false, Time::ZERO);
        places.change(false, true, Time::ZERO);
        assert!(!places.is_free_for(&path("b"), Time::ZERO));
    }
}

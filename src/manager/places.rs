//! The places for operations that use a connection, and who waits for one.
//!
//! Pure. Few places are enough for plugins that answer, and what operations need at once in memory
//! the daemon keeps. So there are [`BRISK_OPERATIONS`] places as long as some come free all the
//! time, and more, up to [`MAX_OPERATIONS`], when none does for [`PATIENCE_IN_LINE`]: plugins that
//! do not answer must not keep the others waiting.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

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
    line: BTreeMap<InLine, Arc<Path>>,
    last: InLine,
}

/// Which place in line a socket has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InLine(u64);

impl Default for Places {
    fn default() -> Self {
        Self {
            taken: 0,
            limit: BRISK_OPERATIONS,
            moved: Time::ZERO,
            line: BTreeMap::new(),
            last: InLine::default(),
        }
    }
}

impl Places {
    /// Whether a place is free.
    pub(super) fn is_any_free(&self) -> bool {
        self.taken < self.limit
    }

    /// The socket waits from now on, at the end of the line.
    pub(super) fn line_up(&mut self, path: Arc<Path>, now: Time) -> InLine {
        if self.line.is_empty() {
            self.moved = now;
        }
        self.last.0 += 1;
        self.line.insert(self.last, path);
        self.last
    }

    /// The sockets that have waited longest, as many as there are free places, and at most `room`:
    /// they wait no longer.
    ///
    /// No more of them, because whoever finds no place gets in line again, at its end.
    pub(super) fn call(&mut self, room: usize) -> Vec<Arc<Path>> {
        let free = self.limit.saturating_sub(self.taken).min(room);
        let mut called = Vec::new();
        while called.len() < free {
            let Some((_, path)) = self.line.pop_first() else {
                break;
            };
            called.push(path);
        }
        called
    }

    /// The socket with that place in line does not wait any more.
    pub(super) fn forget(&mut self, place: InLine) {
        self.line.remove(&place);
    }

    /// An operation held a place or did not, and now does or does not.
    pub(super) fn change(&mut self, before: bool, after: bool, now: Time) {
        self.taken = self.taken + usize::from(after) - usize::from(before);
        // Whoever dials again takes a place without waiting for it: nobody gets that one.
        if before && !after && self.taken < self.limit {
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

    /// Nobody needs to watch a line in which nobody waits.
    pub(super) fn line_moved(&mut self) {
        if self.places.patience().is_none() {
            self.deadlines.set(Wake::Line, None);
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
            assert!(places.is_any_free());
            places.change(false, true, Time::ZERO);
        }
        places
    }

    #[test]
    fn who_came_first_gets_the_place_that_comes_free() {
        let mut places = taken(BRISK_OPERATIONS);
        assert!(!places.is_any_free());
        let [_, a, _] = ["c", "a", "b"].map(|name| places.line_up(path(name), Time::ZERO));
        places.forget(a);
        assert!(places.call(usize::MAX).is_empty());
        places.change(true, false, Time::ZERO);
        assert_eq!(places.call(usize::MAX), [path("c")]);
        places.change(true, false, Time::ZERO);
        assert_eq!(places.call(usize::MAX), [path("b")]);
        assert!(places.call(usize::MAX).is_empty());
    }

    #[test]
    fn a_line_that_does_not_move_gets_more_places_until_there_are_no_more() {
        let mut places = taken(BRISK_OPERATIONS);
        assert_eq!(places.patience(), None, "nobody waits");
        let mut now = Time::from_millis(100);
        let place = places.line_up(path("a"), now);
        assert_eq!(places.patience(), Some(now + PATIENCE_IN_LINE));
        places.make_room(now);
        assert!(!places.is_any_free(), "it is early");
        while let Some(until) = places.patience() {
            now = until;
            places.make_room(now);
            while places.is_any_free() {
                places.change(false, true, now);
            }
        }
        assert_eq!(places.taken(), MAX_OPERATIONS);
        places.change(true, false, now);
        assert_eq!(places.call(usize::MAX), [path("a")]);
        places.forget(place);
    }

    #[test]
    fn once_few_places_are_taken_there_are_few_again() {
        let mut places = taken(BRISK_OPERATIONS);
        places.line_up(path("a"), Time::ZERO);
        places.make_room(Time::ZERO + PATIENCE_IN_LINE);
        assert_eq!(places.call(usize::MAX), [path("a")]);
        assert!(places.is_any_free());
        places.change(true, false, Time::ZERO);
        places.change(false, true, Time::ZERO);
        assert!(!places.is_any_free());
    }

    #[test]
    fn a_line_that_moves_gets_no_more_places_however_long_it_takes_to_serve_it() {
        let mut places = taken(BRISK_OPERATIONS);
        let mut now = Time::ZERO;
        for n in 0..20 {
            places.line_up(path(&n.to_string()), now);
        }
        for _ in 0..10 {
            now += PATIENCE_IN_LINE * 9 / 10;
            places.change(true, false, now);
            assert_eq!(places.call(usize::MAX).len(), 1);
            places.change(false, true, now);
            places.make_room(now + PATIENCE_IN_LINE / 2);
            assert!(!places.is_any_free());
        }
    }

    #[test]
    fn no_more_sockets_are_called_than_there_is_room_for_their_connections() {
        let mut places = taken(BRISK_OPERATIONS - 3);
        for name in ["a", "b", "c"] {
            places.line_up(path(name), Time::ZERO);
        }
        assert!(places.call(0).is_empty());
        assert_eq!(places.call(2), [path("a"), path("b")]);
    }
}

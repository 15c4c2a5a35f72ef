//! A limit on the operations that wait for plugins to answer, and the queue of sockets that wait
//! for one of its places.
//!
//! Pure. The memory that operations need at the same time is never returned to the kernel, so only
//! [`BRISK_OPERATIONS`] call their plugins at the same time. A plugin that answers needs its place
//! for a moment. An operation that has waited for its peer for [`BRISK_TIME`] gives its place to
//! the next socket and continues without one: from then on it costs only a descriptor, and so does
//! an operation that waits for a handler, for a program or for its turn on a plugin name.
//!
//! Places are given round-robin over the directories of the sockets, so that one directory with
//! thousands of sockets holds up no other; sockets whose path is renewed all the time come last.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

use super::deadlines::Kept;
use super::execute::AttemptId;
use super::{Manager, Wake};
use crate::config::{BRISK_OPERATIONS, BRISK_TIME};
use crate::time::Time;

/// The places, and the sockets in line for one.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The operations that hold a place, and the time at which each got it.
    held: LiteMap<AttemptId, Time>,
    line: BTreeMap<InLine, Arc<Path>>,
    /// For each directory in line, the round in which its last socket gets a place.
    rounds: Rounds,
    /// The same for sockets whose path is renewed all the time.
    renewed_rounds: Rounds,
    /// The round in which the last socket got a place.
    round: u64,
    last: u64,
    /// The time at which a place should be released.
    deadline: Kept,
}

/// Rounds by directory, which is a prefix of the paths of its sockets.
type Rounds = BTreeMap<Box<[u8]>, u64>;

/// The position of a socket in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InLine {
    is_renewed: bool,
    /// In each round, every directory gets one place.
    round: u64,
    number: u64,
}

impl Places {
    /// Returns whether a place is free.
    pub(super) fn is_any_free(&self) -> bool {
        self.held.len() < BRISK_OPERATIONS
    }

    /// Adds a socket to the line, behind the others of its directory.
    pub(super) fn line_up(&mut self, path: Arc<Path>, is_renewed: bool) -> InLine {
        let rounds = if is_renewed {
            &mut self.renewed_rounds
        } else {
            &mut self.rounds
        };
        let directory = directory_of(&path);
        let round = if let Some(last) = rounds.get_mut(directory) {
            *last = self.round.max(*last + 1);
            *last
        } else {
            rounds.insert(directory.into(), self.round);
            self.round
        };
        self.last += 1;
        let place = InLine {
            is_renewed,
            round,
            number: self.last,
        };
        self.line.insert(place, path);
        place
    }

    /// Removes and returns the sockets at the head of the line: as many as there are free places,
    /// but at most `room`.
    ///
    /// Not more of them, because a socket that finds no free place is queued again at the end of
    /// the line.
    pub(super) fn call(&mut self, room: usize) -> Vec<Arc<Path>> {
        let free = BRISK_OPERATIONS.saturating_sub(self.held.len()).min(room);
        let mut called = Vec::new();
        while called.len() < free {
            let Some((place, path)) = self.line.pop_first() else {
                break;
            };
            if !place.is_renewed {
                self.round = place.round;
            }
            called.push(path);
        }
        self.tidy_rounds();
        called
    }

    /// Removes the socket with that position from the line.
    pub(super) fn forget(&mut self, place: InLine) {
        self.line.remove(&place);
        self.tidy_rounds();
    }

    /// Clears the rounds once the line is empty, so that all directories start equal.
    fn tidy_rounds(&mut self) {
        let is_any = !self.rounds.is_empty() || !self.renewed_rounds.is_empty();
        if is_any && self.line.is_empty() {
            self.rounds.clear();
            self.renewed_rounds.clear();
        }
    }

    /// Records whether an operation held a place before, and whether it holds one now.
    pub(super) fn change(&mut self, id: AttemptId, before: bool, after: bool, now: Time) {
        match (before, after) {
            (false, true) => {
                self.held.insert(id, now);
            }
            (true, false) => {
                self.held.remove(&id);
            }
            _ => {}
        }
    }

    /// Returns when the next operation has had its place for long enough; `None` if the line is
    /// empty.
    fn next_release(&self) -> Option<Time> {
        if self.line.is_empty() {
            return None;
        }
        self.held.values().min().map(|since| *since + BRISK_TIME)
    }

    /// Releases every place that an operation has held for long enough.
    fn release_slow(&mut self, now: Time) {
        self.held.retain(|_, since| now < *since + BRISK_TIME);
    }

    /// Returns whether the operation holds a place.
    pub(super) fn is_held(&self, id: AttemptId) -> bool {
        self.held.contains_key(&id)
    }

    /// Returns the time at which a place should be released for a socket in line.
    pub(super) fn deadline(&self) -> Kept {
        self.deadline
    }

    /// Returns the number of places that are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

/// Returns the part of a path before its last component, as bytes, which are compared faster than
/// components.
fn directory_of(path: &Path) -> &[u8] {
    let path = path.as_os_str().as_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next();
    &path[..path.len() - name.map_or(0, <[u8]>::len)]
}

impl Manager {
    /// Schedules the release of a place if sockets are in line. To be called after the line has
    /// changed.
    pub(super) fn watch_line(&mut self) {
        let at = self.places.next_release();
        let kept = &mut self.places.deadline;
        // A deadline that is too early, because that place was released before, is set again then.
        self.deadlines.set_kept_or_earlier(Wake::Line, kept, at);
    }

    /// Releases the places that are due, and schedules the next release.
    pub(super) fn line_waited(&mut self, now: Time) {
        self.places.deadline = Kept::default();
        self.places.release_slow(now);
        self.watch_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> Arc<Path> {
        Path::new(name).into()
    }

    /// Returns places of which so many are held.
    fn held(count: usize) -> Places {
        let mut places = Places::default();
        for n in 0..count {
            assert!(places.is_any_free());
            let id = AttemptId(n.try_into().unwrap());
            places.change(id, false, true, Time::ZERO);
        }
        places
    }

    fn called(places: &mut Places) -> Vec<String> {
        let called = places.call(usize::MAX);
        let names = called.iter().map(|path| path.display().to_string());
        names.collect()
    }

    #[test]
    fn of_one_directory_the_socket_that_came_first_gets_the_place_that_comes_free() {
        let mut places = held(BRISK_OPERATIONS);
        assert!(!places.is_any_free());
        let [_, a, _] = ["/c", "/a", "/b"].map(|name| places.line_up(path(name), false));
        places.forget(a);
        assert!(places.call(usize::MAX).is_empty());
        places.change(AttemptId(0), true, false, Time::ZERO);
        assert_eq!(called(&mut places), ["/c"]);
        places.change(AttemptId(1), true, false, Time::ZERO);
        assert_eq!(called(&mut places), ["/c", "/b"][1..]);
    }

    #[test]
    fn directories_take_turns_and_paths_that_are_renewed_all_the_time_come_last() {
        let mut places = Places::default();
        for name in ["/r/renewed", "/d/renewed"] {
            places.line_up(path(name), true);
        }
        for name in ["/r/1", "/r/2", "/r/3", "/d/1", "/d/2", "/e/1"] {
            places.line_up(path(name), false);
        }
        assert_eq!(places.call(2), [path("/r/1"), path("/d/1")]);
        places.line_up(path("/late/1"), false);
        let rest = ["/e/1", "/late/1", "/r/2", "/d/2", "/r/3"];
        let renewed = ["/r/renewed", "/d/renewed"];
        assert_eq!(called(&mut places), [&rest[..], &renewed].concat());
    }

    #[test]
    fn an_operation_that_waits_for_its_peer_gives_its_place_to_a_socket_in_line() {
        let mut places = held(BRISK_OPERATIONS);
        assert_eq!(places.next_release(), None, "none is wanted");
        places.line_up(path("/a"), false);
        let at = Time::ZERO + BRISK_TIME;
        assert_eq!(places.next_release(), Some(at));
        places.release_slow(at);
        assert_eq!((places.held(), places.next_release()), (0, None));
        places.change(AttemptId(0), true, false, at);
        assert_eq!(called(&mut places), ["/a"]);
    }

    #[test]
    fn no_more_sockets_are_called_than_there_is_room_for_their_connections() {
        let mut places = held(BRISK_OPERATIONS - 3);
        for name in ["/a", "/b", "/c"] {
            places.line_up(path(name), false);
        }
        assert!(places.call(0).is_empty());
        assert_eq!(places.call(2), [path("/a"), path("/b")]);
    }
}

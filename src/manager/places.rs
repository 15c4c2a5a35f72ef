//! The places for operations whose plugins are expected to answer at once, and the sockets that
//! wait for one.
//!
//! Pure. What operations need at once in memory the daemon keeps, so only [`BRISK_OPERATIONS`] ask
//! their plugins at the same time. A plugin that answers needs its place for a moment. An operation
//! that has waited for its peer for [`BRISK_TIME`] gives its place to the next socket and goes on
//! without one: then it costs a descriptor only, and so does one that waits for a handler, a
//! program or the order of its plugin name.
//!
//! Sockets get places round-robin over their directories, so that one directory with thousands of
//! sockets holds up no other; and those whose path is renewed all the time come last.

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
    /// The operations that hold a place, and since when.
    held: LiteMap<AttemptId, Time>,
    line: BTreeMap<InLine, Arc<Path>>,
    /// The round in which the last socket of each directory in line gets its place.
    rounds: Rounds,
    /// The same for sockets whose path is renewed all the time.
    renewed_rounds: Rounds,
    /// The round in which the last socket got a place.
    round: u64,
    last: u64,
    /// When a place is to come free.
    deadline: Kept,
}

/// Rounds by directory, as it stands in the paths of its sockets.
type Rounds = BTreeMap<Box<[u8]>, u64>;

/// Which place in line a socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InLine {
    is_renewed: bool,
    /// In each round, every directory gets one place.
    round: u64,
    number: u64,
}

impl Places {
    /// Whether a place is free.
    pub(super) fn is_any_free(&self) -> bool {
        self.held.len() < BRISK_OPERATIONS
    }

    /// The socket waits from now on, behind those of its directory.
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

    /// The sockets whose turn it is, as many as there are free places, and at most `room`: they
    /// wait no longer.
    ///
    /// No more of them, because a socket that finds no place gets in line again, at its end.
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

    /// The socket with that place in line does not wait any more.
    pub(super) fn forget(&mut self, place: InLine) {
        self.line.remove(&place);
        self.tidy_rounds();
    }

    /// Without a line, no directory has had more than another.
    fn tidy_rounds(&mut self) {
        let is_any = !self.rounds.is_empty() || !self.renewed_rounds.is_empty();
        if is_any && self.line.is_empty() {
            self.rounds.clear();
            self.renewed_rounds.clear();
        }
    }

    /// The operation held a place or did not, and now does or does not.
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

    /// When the next operation has had its place for long enough; `None` if no socket waits for it.
    fn next_release(&self) -> Option<Time> {
        if self.line.is_empty() {
            return None;
        }
        self.held.values().min().map(|since| *since + BRISK_TIME)
    }

    /// Operations that have had a place for long enough go on without one.
    fn release_slow(&mut self, now: Time) {
        self.held.retain(|_, since| now < *since + BRISK_TIME);
    }

    /// Whether the operation holds a place.
    pub(super) fn is_held(&self, id: AttemptId) -> bool {
        self.held.contains_key(&id)
    }

    /// When a place is to come free for a socket in line.
    pub(super) fn deadline(&self) -> Kept {
        self.deadline
    }

    /// How many places are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

/// Returns what is before the name of a socket: bytes are compared faster than components.
fn directory_of(path: &Path) -> &[u8] {
    let path = path.as_os_str().as_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next();
    &path[..path.len() - name.map_or(0, <[u8]>::len)]
}

impl Manager {
    /// Sockets got in line or left it: if there are any, places must come free for them.
    pub(super) fn watch_line(&mut self) {
        let at = self.places.next_release();
        let kept = &mut self.places.deadline;
        // One that comes too early, because that place came free, is set again then.
        self.deadlines.set_kept_or_earlier(Wake::Line, kept, at);
    }

    /// An operation has had its place for a while.
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

    /// Places of which so many are held.
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

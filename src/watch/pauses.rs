//! Paths for which work is requested repeatedly, and the pauses between two runs of that work.
//!
//! The first request is granted at once. Requests during the pause that follows are granted
//! together when the pause ends, and the next pause is twice as long, up to a cap. A path without
//! requests for [`PAUSE_CALM`] after a pause starts with the shortest pause again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use crate::backoff::Backoff;
use crate::config::{MAX_SOCKETS, PAUSE_CALM};
use crate::octets::PathKey;
use crate::time::Time;

/// The paths and their pauses.
#[derive(Debug)]
pub(super) struct Pauses {
    backoff: Backoff,
    /// At most [`MAX_SOCKETS`].
    by_path: HashMap<PathKey, Pause>,
    /// The paths for which work was requested during their pause, by the end of the pause.
    pending: BTreeSet<(Time, Arc<Path>)>,
}

/// The pause of a path.
#[derive(Clone, Copy, Debug)]
struct Pause {
    end: Time,
    length: Duration,
}

impl Pauses {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            by_path: HashMap::default(),
            pending: BTreeSet::new(),
        }
    }

    /// Requests work for a path. Returns whether the work is to be done now; otherwise it is due
    /// when the pause of the path ends ([`Pauses::take_due`]).
    pub(super) fn request_work(&mut self, path: &Arc<Path>, now: Time) -> bool {
        let Some(pause) = self.by_path.get_mut(&PathKey(path.clone())) else {
            self.start_first_pause(path, now);
            return true;
        };
        if now < pause.end {
            self.pending.insert((pause.end, path.clone()));
            return false;
        }
        self.pending.remove(&(pause.end, path.clone()));
        let last = (now < pause.end + PAUSE_CALM).then_some(pause.length);
        *pause = Pause::new(self.backoff.next_pause(last), now);
        true
    }

    /// Starts the first pause of a path, unless too many paths are remembered already.
    fn start_first_pause(&mut self, path: &Arc<Path>, now: Time) {
        if self.by_path.len() >= MAX_SOCKETS {
            self.forget_expired(now);
        }
        // Without a pause, each request for work on this path is granted at once.
        if self.by_path.len() < MAX_SOCKETS {
            let pause = Pause::new(self.backoff.first, now);
            self.by_path.insert(PathKey(path.clone()), pause);
        }
    }

    /// Forgets the paths that would start with the first pause again.
    pub(super) fn forget_expired(&mut self, now: Time) {
        self.by_path.retain(|_, pause| now < pause.end + PAUSE_CALM);
    }

    /// Returns the time at which the next path is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.pending.first().map(|(end, _)| *end)
    }

    /// Removes and returns the paths that are due by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Arc<Path>> {
        let mut due = Vec::new();
        while self.poll_timeout().is_some_and(|end| end <= now) {
            let Some((_, path)) = self.pending.pop_first() else {
                break;
            };
            if let Some(pause) = self.by_path.get_mut(&PathKey(path.clone())) {
                *pause = Pause::new(self.backoff.next_pause(Some(pause.length)), now);
            }
            due.push(path);
        }
        due
    }
}

impl Pause {
    fn new(length: Duration, now: Time) -> Self {
        let end = now + length;
        Self { end, length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_millis(100),
        cap: Duration::from_secs(5),
    };

    fn path(path: &str) -> Arc<Path> {
        Path::new(path).into()
    }

    /// Requests work for the path in each millisecond from `begin` to `end`. Returns the times, in
    /// ms, at which a request was granted.
    fn granted_times(pauses: &mut Pauses, path: &Arc<Path>, begin: u64, end: u64) -> Vec<u64> {
        let mut granted = Vec::new();
        for ms in begin..end {
            let now = Time::from_millis(ms);
            let is_due = pauses.take_due(now).iter().any(|due| due == path);
            if is_due || pauses.request_work(path, now) {
                granted.push(ms);
            }
        }
        granted
    }

    #[test]
    fn continual_requests_are_granted_less_and_less_often() {
        let mut pauses = Pauses::new(BACKOFF);
        let path = path("/p/a");
        assert_eq!(pauses.poll_timeout(), None);
        let seen = granted_times(&mut pauses, &path, 0, 2000);
        assert_eq!(seen, [0, 100, 300, 700, 1500]);
        assert_eq!(pauses.poll_timeout(), Some(Time::from_millis(3100)));
        let seen = granted_times(&mut pauses, &path, 2000, 18_000);
        assert_eq!(seen, [3100, 6300, 11_300, 16_300]);
    }

    #[test]
    fn a_request_when_a_pause_is_over_is_granted_once() {
        let mut pauses = Pauses::new(BACKOFF);
        let path = path("/p/a");
        assert!(pauses.request_work(&path, Time::ZERO));
        assert!(!pauses.request_work(&path, Time::from_millis(50)));
        assert!(
            pauses.request_work(&path, Time::from_millis(100)),
            "it is due and was not taken"
        );
        assert_eq!(
            pauses.take_due(Time::from_millis(100)),
            [] as [Arc<Path>; 0]
        );
        assert_eq!(pauses.poll_timeout(), None);
    }

    #[test]
    fn a_calm_path_starts_with_the_first_pause_again() {
        let mut pauses = Pauses::new(BACKOFF);
        let path = path("/p/a");
        granted_times(&mut pauses, &path, 0, 1);
        assert_eq!(granted_times(&mut pauses, &path, 500, 701), [500, 700]);
        let later = 1100 + 11_000;
        assert_eq!(
            granted_times(&mut pauses, &path, later, later + 200),
            [later, later + 100]
        );
    }

    #[test]
    fn calm_paths_make_room_else_requests_are_granted_at_once() {
        let mut pauses = Pauses::new(BACKOFF);
        let later = Time::from_millis(20_000);
        for n in 0..MAX_SOCKETS {
            assert!(pauses.request_work(&path(&format!("/p/{n}")), Time::ZERO));
        }
        for _ in 0..2 {
            assert!(pauses.request_work(&path("/p/new"), Time::ZERO));
        }
        assert!(!pauses.request_work(&path("/p/0"), Time::ZERO));
        assert!(pauses.request_work(&path("/p/new"), later));
        assert!(!pauses.request_work(&path("/p/new"), later));
        assert_eq!(pauses.by_path.len(), 1);
    }
}

//! Paths at which something else was found than the watch has reported.
//!
//! Pure. inotify reports names that come and go, not a change of the file behind a name: a link
//! that leads to another socket than before, or, on a file system without birth times, a socket
//! whose modification time is set. A dial notices, and the path is doubted. It is examined again
//! then, at most once per [`config::DOUBT_PAUSE`], a pause that doubles up to
//! [`config::RESYNC_INTERVAL`] while the doubts go on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use litemap::LiteMap;

use crate::config;
use crate::time::Time;

/// The doubted paths.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    by_path: LiteMap<Arc<Path>, Doubt>,
}

/// The state of a doubted path.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// When the path may be examined again.
    next: Time,
    /// The pause before `next`.
    pause: Duration,
    /// Whether the path was doubted again before `next`.
    is_pending: bool,
}

impl Doubts {
    /// Counts a doubt. Returns true if the path is to be examined at once, else it is due later.
    pub(super) fn add(&mut self, path: &Arc<Path>, now: Time) -> bool {
        let fresh = Doubt {
            next: now + config::DOUBT_PAUSE,
            pause: config::DOUBT_PAUSE,
            is_pending: false,
        };
        match self.by_path.get_mut(&**path) {
            None => {
                self.by_path.insert(path.clone(), fresh);
                true
            }
            Some(doubt) if now < doubt.next => {
                doubt.is_pending = true;
                false
            }
            // No doubt for so long: the path counts as settled.
            Some(doubt) if doubt.next + config::DOUBT_FORGOTTEN <= now => {
                *doubt = fresh;
                true
            }
            Some(doubt) => {
                *doubt = doubt.after(now);
                true
            }
        }
    }

    /// Forgets a path.
    pub(super) fn forget(&mut self, path: &Path) {
        if !self.by_path.is_empty() {
            self.by_path.remove(path);
        }
    }

    /// Returns the next moment at which a path is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let pending = self.by_path.values().filter(|doubt| doubt.is_pending);
        pending.map(|doubt| doubt.next).min()
    }

    /// Takes the paths that are due by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Arc<Path>> {
        let mut due = Vec::new();
        for (path, doubt) in self.by_path.iter_mut() {
            if doubt.is_pending && doubt.next <= now {
                *doubt = doubt.after(now);
                due.push(path.clone());
            }
        }
        due
    }
}

impl Doubt {
    /// The doubt once the path has been examined at `now`, again.
    fn after(self, now: Time) -> Self {
        let pause = (self.pause * 2).min(config::RESYNC_INTERVAL);
        Self {
            next: now + pause,
            pause,
            is_pending: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubts the path without pause until `end`. Returns when it was examined, in ms.
    fn examined(doubts: &mut Doubts, path: &Arc<Path>, begin: u64, end: u64) -> Vec<u64> {
        let mut examined = Vec::new();
        for ms in begin..end {
            let now = Time::from_millis(ms);
            let is_due = doubts.take_due(now).iter().any(|due| due == path);
            if is_due || doubts.add(path, now) {
                examined.push(ms);
            }
        }
        examined
    }

    #[test]
    fn a_path_that_is_doubted_without_pause_is_examined_after_pauses_that_double() {
        let mut doubts = Doubts::default();
        let path = Path::new("/p/a").into();
        assert_eq!(doubts.poll_timeout(), None);
        let seen = examined(&mut doubts, &path, 0, 2000);
        assert_eq!(seen, [0, 100, 300, 700, 1500]);
        assert_eq!(doubts.poll_timeout(), Some(Time::from_millis(3100)));
        doubts.forget(&path);
        assert_eq!(doubts.poll_timeout(), None);
    }

    #[test]
    fn a_path_that_was_left_alone_for_a_minute_begins_anew() {
        let mut doubts = Doubts::default();
        let path = Path::new("/p/a").into();
        examined(&mut doubts, &path, 0, 1);
        assert_eq!(examined(&mut doubts, &path, 500, 701), [500, 700]);
        let later = 1100 + 61_000;
        assert_eq!(
            examined(&mut doubts, &path, later, later + 200),
            [later, later + 100]
        );
    }
}

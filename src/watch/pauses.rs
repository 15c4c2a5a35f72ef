//! Paths that request work repeatedly, and the pauses between two runs.
//!
//! Pure. The first request is served at once. Requests during the pause that follows are served
//! together when the pause ends, and the next pause is twice as long. A path without requests for a
//! while starts with the shortest pause again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::time::Time;

/// The paths and their pauses.
#[derive(Debug)]
pub(super) struct Pauses {
    rule: Rule,
    by_path: BTreeMap<Arc<Path>, Pause>,
    /// The number of paths with a request during their pause.
    pending: usize,
}

/// The lengths of the pauses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) pauses: Backoff,
    /// The time without requests after a pause, after which a path starts with the first pause
    /// again.
    pub(super) calm: Duration,
    /// The number of paths that are remembered.
    pub(super) paths: usize,
}

/// The pause of a path.
#[derive(Clone, Copy, Debug)]
struct Pause {
    /// The end of the pause.
    end: Time,
    /// The length of the pause.
    length: Duration,
    /// Whether the path has requested work again before the end.
    is_pending: bool,
}

impl Pauses {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            rule,
            by_path: BTreeMap::new(),
            pending: 0,
        }
    }

    /// Requests work for a path. Returns `true` if it is to be done now; otherwise it is due later.
    pub(super) fn ask(&mut self, path: &Arc<Path>, now: Time) -> bool {
        let Rule { pauses, calm, .. } = self.rule;
        match self.by_path.get_mut(&**path) {
            None => {
                self.remember(path, now);
                true
            }
            Some(pause) if now < pause.end => {
                self.pending += usize::from(!pause.is_pending);
                pause.is_pending = true;
                false
            }
            Some(pause) => {
                self.pending -= usize::from(pause.is_pending);
                *pause = if pause.end + calm <= now {
                    Pause::new(now, pauses.first)
                } else {
                    pause.after(now, pauses)
                };
                true
            }
        }
    }

    fn remember(&mut self, path: &Arc<Path>, now: Time) {
        if self.by_path.len() >= self.rule.paths {
            self.forget_calm(now);
        }
        // With so many paths whose pauses are in use, the pauses of further paths do not matter.
        if self.by_path.len() < self.rule.paths {
            let pause = Pause::new(now, self.rule.pauses.first);
            self.by_path.insert(Arc::clone(path), pause);
        }
    }

    /// Starts the pause of a path now, because its work took until `now`.
    pub(super) fn restart(&mut self, path: &Path, now: Time) {
        if let Some(pause) = self.by_path.get_mut(path) {
            pause.end = now + pause.length;
        }
    }

    /// Forgets the paths that are not kept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Path) -> bool) {
        let pending = &mut self.pending;
        self.by_path.retain(|path, pause| {
            let is_kept = is_kept(path);
            *pending -= usize::from(!is_kept && pause.is_pending);
            is_kept
        });
    }

    /// Forgets the paths that would start with the first pause again.
    pub(super) fn forget_calm(&mut self, now: Time) {
        let calm = self.rule.calm;
        self.by_path
            .retain(|_, pause| pause.is_pending || now < pause.end + calm);
    }

    /// Returns the next time at which a path is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if self.pending == 0 {
            return None;
        }
        let pending = self.by_path.values().filter(|pause| pause.is_pending);
        pending.map(|pause| pause.end).min()
    }

    /// Removes and returns the paths that are due by `now`.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Arc<Path>> {
        let mut due = Vec::new();
        if self.pending > 0 {
            for (path, pause) in &mut self.by_path {
                if pause.is_pending && pause.end <= now {
                    *pause = pause.after(now, self.rule.pauses);
                    due.push(path.clone());
                }
            }
            self.pending -= due.len();
        }
        due
    }
}

impl Pause {
    fn new(now: Time, length: Duration) -> Self {
        Self {
            end: now + length,
            length,
            is_pending: false,
        }
    }

    /// Returns the pause that follows this one and starts at `now`.
    fn after(self, now: Time, pauses: Backoff) -> Self {
        Self::new(now, pauses.after(Some(self.length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        pauses: Backoff {
            first: Duration::from_millis(100),
            cap: Duration::from_secs(5),
        },
        calm: Duration::from_secs(60),
        paths: 3,
    };

    fn path(path: &str) -> Arc<Path> {
        Path::new(path).into()
    }

    /// Requests work for the path each millisecond until `end`. Returns when it was served, in ms.
    fn served(pauses: &mut Pauses, path: &Arc<Path>, begin: u64, end: u64) -> Vec<u64> {
        let mut served = Vec::new();
        for ms in begin..end {
            let now = Time::from_millis(ms);
            let is_due = pauses.take_due(now).iter().any(|due| due == path);
            if is_due || pauses.ask(path, now) {
                served.push(ms);
            }
        }
        served
    }

    #[test]
    fn a_path_that_asks_without_pause_is_served_after_pauses_that_double() {
        let mut pauses = Pauses::new(RULE);
        let path = path("/p/a");
        assert_eq!(pauses.poll_timeout(), None);
        let seen = served(&mut pauses, &path, 0, 2000);
        assert_eq!(seen, [0, 100, 300, 700, 1500]);
        assert_eq!(pauses.poll_timeout(), Some(Time::from_millis(3100)));
        let seen = served(&mut pauses, &path, 2000, 18_000);
        assert_eq!(seen, [3100, 6300, 11_300, 16_300]);
        pauses.retain(|_| false);
        assert_eq!(pauses.poll_timeout(), None);
    }

    #[test]
    fn a_path_that_was_left_alone_for_a_minute_begins_anew() {
        let mut pauses = Pauses::new(RULE);
        let path = path("/p/a");
        served(&mut pauses, &path, 0, 1);
        assert_eq!(served(&mut pauses, &path, 500, 701), [500, 700]);
        let later = 1100 + 61_000;
        assert_eq!(
            served(&mut pauses, &path, later, later + 200),
            [later, later + 100]
        );
    }

    #[test]
    fn a_pause_begins_when_the_work_is_done() {
        let mut pauses = Pauses::new(RULE);
        let path = path("/p/a");
        assert!(pauses.ask(&path, Time::ZERO));
        pauses.restart(&path, Time::from_millis(1000));
        assert!(!pauses.ask(&path, Time::from_millis(1050)));
        assert_eq!(pauses.poll_timeout(), Some(Time::from_millis(1100)));
        let due = Time::from_millis(1100);
        assert_eq!(pauses.take_due(due), std::slice::from_ref(&path));
        assert_eq!(pauses.poll_timeout(), None);
    }

    #[test]
    fn calm_paths_make_room_and_without_room_a_path_is_served_at_once() {
        let mut pauses = Pauses::new(RULE);
        let later = Time::from_millis(70_000);
        for name in ["a", "b", "c", "d", "d"] {
            assert!(pauses.ask(&path(name), Time::ZERO), "{name}");
        }
        assert!(!pauses.ask(&path("a"), Time::ZERO));
        assert!(pauses.ask(&path("d"), later));
        assert!(!pauses.ask(&path("d"), later));
        assert_eq!(pauses.by_path.len(), 2, "that and the one that is pending");
    }
}

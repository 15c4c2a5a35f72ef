//! The deadlines of everything in the manager, in one index.
//!
//! A deadline is derived from the state of its owner. The owner keeps the key of its entry in the
//! index, so the entry is found without a search when the deadline changes. The earliest deadline
//! is the first entry.

use std::collections::BTreeMap;

use super::ids::SocketId;
use crate::handler::EffectId;
use crate::time::Time;

/// The owner of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A socket: its operation, its backoff, or the liveness of its plugin.
    Socket(SocketId),
    /// An effect of a handler.
    Effect(EffectId),
    /// The limiter of operations: a permit may be due for release.
    Limiter,
    /// The periodic examination of every socket.
    Resync,
    /// The end of the grace period that running operations have when the daemon stops.
    Stop,
}

/// The index of the deadlines.
#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) by_time: BTreeMap<Entry, Timer>,
    last: u64,
}

/// The key of a deadline: its time, and a unique number.
type Entry = (Time, u64);

/// The key under which the index has an owner's deadline; `None` if the owner has no deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scheduled(Option<Entry>);

impl Scheduled {
    /// Returns the time of the deadline, or `None` if it is not set.
    pub(super) fn at(self) -> Option<Time> {
        Some(self.0?.0)
    }
}

impl Timers {
    /// Sets or removes a deadline. When the deadline is popped, its owner must clear `scheduled`.
    pub(super) fn set(&mut self, timer: Timer, scheduled: &mut Scheduled, at: Option<Time>) {
        if scheduled.at() == at {
            return;
        }
        if let Some(before) = scheduled.0.take() {
            self.by_time.remove(&before);
        }
        if let Some(at) = at {
            self.last += 1;
            scheduled.0 = Some((at, self.last));
            self.by_time.insert((at, self.last), timer);
        }
    }

    /// Sets or removes a deadline whose owner checks the time again when it is popped: a later `at`
    /// does not move the deadline, which is then popped early.
    pub(super) fn set_or_keep_earlier(
        &mut self,
        timer: Timer,
        scheduled: &mut Scheduled,
        at: Option<Time>,
    ) {
        match (scheduled.at(), at) {
            (Some(before), Some(at)) if before <= at => {}
            _ => self.set(timer, scheduled, at),
        }
    }

    /// Removes the earliest deadline and returns its owner, if it is due by `now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        let first = self.by_time.first_entry()?;
        let (at, _) = *first.key();
        (at <= now).then(|| first.remove())
    }

    /// Returns whether the index has this deadline for this owner.
    pub(super) fn has(&self, timer: Timer, scheduled: Scheduled) -> bool {
        scheduled.0.and_then(|entry| self.by_time.get(&entry)) == Some(&timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(timers: &Timers) -> Option<(Time, Timer)> {
        let ((at, _), timer) = timers.by_time.first_key_value()?;
        Some((*at, *timer))
    }

    #[test]
    fn the_earliest_deadline_comes_first_and_an_owner_has_one() {
        let [early, middle, late] = [3, 5, 7].map(Time::from_millis);
        let (mut timers, mut a, mut b) = <(Timers, Scheduled, Scheduled)>::default();
        timers.set(Timer::Resync, &mut a, Some(middle));
        timers.set(Timer::Stop, &mut b, Some(late));
        assert_eq!(first(&timers), Some((middle, Timer::Resync)));
        let before = b;
        timers.set(Timer::Stop, &mut b, Some(early));
        assert!(timers.has(Timer::Stop, b) && !timers.has(Timer::Stop, before));
        assert_eq!(timers.by_time.len(), 2);
        assert_eq!(timers.pop_due(Time::from_millis(2)), None);
        assert_eq!(timers.pop_due(early), Some(Timer::Stop));
        timers.set(Timer::Resync, &mut a, None);
        assert_eq!((first(&timers), timers.pop_due(late)), (None, None));
    }

    #[test]
    fn a_deadline_that_is_put_off_may_be_popped_early() {
        let [early, late] = [3, 7].map(Time::from_millis);
        let (mut timers, mut scheduled) = <(Timers, Scheduled)>::default();
        timers.set_or_keep_earlier(Timer::Stop, &mut scheduled, Some(early));
        timers.set_or_keep_earlier(Timer::Stop, &mut scheduled, Some(late));
        assert_eq!(scheduled.at(), Some(early));
        timers.set_or_keep_earlier(Timer::Stop, &mut scheduled, None);
        assert_eq!(first(&timers), None);
        timers.set_or_keep_earlier(Timer::Stop, &mut scheduled, Some(late));
        timers.set_or_keep_earlier(Timer::Stop, &mut scheduled, Some(early));
        assert_eq!(scheduled.at(), Some(early));
    }
}

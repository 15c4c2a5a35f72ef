//! The retries of a `del` that cannot be started.
//!
//! The program may be missing for a moment because it is being replaced, or the system may lack
//! memory or processes. The changes made by `add` still exist then, so the `del` is tried again,
//! after a pause that doubles each time up to a cap. It is given up after [`MAX_DEL_TRIES`] tries,
//! or at once if [`MAX_OWED`](crate::config::MAX_OWED) jobs wait already.

use std::time::Duration;

use crate::config::{BACKOFF, MAX_DEL_TRIES};
use crate::handler::EffectId;
use crate::time::Time;

/// A `del` that has yet to run, and its failed tries.
#[derive(Debug)]
pub(super) struct Owed {
    /// The effect that records, across restarts, that the `del` is owed.
    pub(super) id: EffectId,
    /// The number of failed tries, without those before their time.
    pub(super) tries: u32,
    /// The time of the next try.
    due: Time,
    /// The pause before the next try; `None` before the first failure.
    pause: Option<Duration>,
}

impl Owed {
    pub(super) fn new(id: EffectId) -> Self {
        Self {
            id,
            tries: 0,
            due: Time::ZERO,
            pause: None,
        }
    }

    /// Counts a failed try. Returns the time until the next one, or `None` if the tries are used
    /// up.
    ///
    /// A try before `due`, made because a new job for the plugin's name has arrived, does not
    /// count: a plugin that registers again and again must not use up the tries.
    pub(super) fn record_failure(&mut self, now: Time) -> Option<Duration> {
        if now >= self.due {
            self.tries += 1;
            if self.tries >= MAX_DEL_TRIES {
                return None;
            }
            let pause = BACKOFF.next_pause(self.pause);
            self.pause = Some(pause);
            self.due = now + pause;
        }
        Some(self.due.saturating_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::EffectOwner;

    fn owed() -> Owed {
        Owed::new(EffectId {
            owner: EffectOwner::HANDLER,
            number: 1,
        })
    }

    #[test]
    fn pauses_double_up_to_the_longest_until_the_tries_are_used_up() {
        let (mut owed, mut now) = (owed(), Time::ZERO);
        let mut pauses = Vec::new();
        while let Some(pause) = owed.record_failure(now) {
            pauses.push(pause.as_millis());
            now += pause;
        }
        let expected = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000];
        assert_eq!(pauses[..8], expected);
        assert!(pauses[8..].iter().all(|&pause| pause == 122_000));
        assert_eq!(pauses.len() + 1, MAX_DEL_TRIES as usize);
    }

    #[test]
    fn an_early_try_neither_counts_nor_delays_the_next() {
        let mut owed = owed();
        assert_eq!(
            owed.record_failure(Time::ZERO),
            Some(Duration::from_millis(500))
        );
        for _ in 0..100 {
            let left = owed.record_failure(Time::from_millis(200));
            assert_eq!(left, Some(Duration::from_millis(300)));
        }
        assert_eq!(
            owed.record_failure(Time::from_millis(500)),
            Some(Duration::from_secs(1))
        );
    }
}

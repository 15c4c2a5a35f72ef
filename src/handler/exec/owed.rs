//! How often a `del` is tried that cannot be started.
//!
//! Pure. The program may be missing for a moment, because it is being replaced, or there may be no
//! memory or no process for it. What `add` did is still there then, so the `del` is owed: it is
//! tried again after a pause that doubles, and given up in the end.

use std::time::Duration;

use crate::config::{BACKOFF_CAP, BACKOFF_INITIAL, MAX_DEL_TRIES};
use crate::handler::EffectId;
use crate::time::Time;

/// A `del` that has not run yet.
#[derive(Debug)]
pub(super) struct Owed {
    /// What has it kept in mind over a restart.
    pub(super) id: EffectId,
    /// How many tries have failed.
    pub(super) tries: u32,
    /// When the next one is due.
    due: Time,
}

impl Owed {
    pub(super) fn new(id: EffectId) -> Self {
        Self {
            id,
            tries: 0,
            due: Time::ZERO,
        }
    }

    /// A try has failed. Returns how long to wait for the next one, or `None` when there is none.
    ///
    /// A try before its time, because the plugin's name is needed again, costs none of the others:
    /// a plugin that comes back time after time must not use them up.
    pub(super) fn fail(&mut self, now: Time) -> Option<Duration> {
        if now >= self.due {
            self.tries += 1;
            if self.tries >= MAX_DEL_TRIES {
                return None;
            }
            self.due = now + pause(self.tries);
        }
        Some(self.due.saturating_since(now))
    }
}

/// Returns the pause after so many tries.
fn pause(tries: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
    BACKOFF_INITIAL.saturating_mul(doubled).min(BACKOFF_CAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owed() -> Owed {
        Owed::new(EffectId(0))
    }

    #[test]
    fn pauses_double_up_to_the_longest_until_the_tries_are_used_up() {
        let (mut owed, mut now) = (owed(), Time::ZERO);
        let mut pauses = Vec::new();
        while let Some(pause) = owed.fail(now) {
            pauses.push(pause.as_millis());
            now += pause;
        }
        let expected = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000];
        assert_eq!(pauses[..8], expected);
        assert!(pauses[8..].iter().all(|&pause| pause == 122_000));
        assert_eq!(pauses.len() + 1, MAX_DEL_TRIES as usize);
    }

    #[test]
    fn a_try_before_its_time_costs_none_and_puts_none_off() {
        let mut owed = owed();
        assert_eq!(owed.fail(Time::ZERO), Some(Duration::from_millis(500)));
        for _ in 0..100 {
            let left = owed.fail(Time::from_millis(200));
            assert_eq!(left, Some(Duration::from_millis(300)));
        }
        assert_eq!(
            owed.fail(Time::from_millis(500)),
            Some(Duration::from_secs(1))
        );
    }
}

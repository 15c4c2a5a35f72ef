//! How long a socket that failed is left alone.
//!
//! Pure: no clock inside. It belongs to a socket's identity and dies with it, so a socket that is
//! created again starts afresh.

use std::time::Duration;

use crate::config::{BACKOFF_CAP, BACKOFF_INITIAL};
use crate::time::Time;

/// Exponential backoff: 500 ms, doubling, capped at 2 m 2 s, as kubelet's `exponentialbackoff`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Elsewhere, because there is one for every socket and most have never failed.
    failed: Option<Box<Failed>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed {
    at: Time,
    delay: Duration,
}

impl Backoff {
    /// An attempt failed at `now`.
    pub fn fail(&mut self, now: Time) {
        self.fail_up_to(BACKOFF_CAP, now);
    }

    /// An attempt failed at `now`, and the next one is made after `cap` at the latest.
    pub fn fail_up_to(&mut self, cap: Duration, now: Time) {
        let delay = self
            .delay()
            .map_or(BACKOFF_INITIAL, |last| (last * 2).min(cap));
        self.set(now, delay);
    }

    /// An attempt at `now` failed in a way that time does not mend: it is tried again at the cap.
    pub fn fail_for_good(&mut self, now: Time) {
        self.set(now, BACKOFF_CAP);
    }

    /// No attempt is made for `delay`, whatever there was before.
    pub(super) fn pause(&mut self, now: Time, delay: Duration) {
        self.set(now, delay);
    }

    /// An attempt succeeded: nothing is left of earlier failures.
    pub fn succeed(&mut self) {
        self.failed = None;
    }

    /// The moment until which no attempt is made; none when nothing failed.
    ///
    /// kubelet refuses while `now - last_error <= delay`, so this very moment is still too early by
    /// less than any clock tells.
    pub fn until(&self) -> Option<Time> {
        self.failed.as_ref().map(|failed| failed.at + failed.delay)
    }

    /// How long the last failure costs.
    pub fn delay(&self) -> Option<Duration> {
        self.failed.as_ref().map(|failed| failed.delay)
    }

    fn set(&mut self, at: Time, delay: Duration) {
        self.failed = Some(Box::new(Failed { at, delay }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_is_500_ms_doubling_up_to_2_m_2_s() {
        let mut backoff = Backoff::default();
        let mut delays = Vec::new();
        for _ in 0..10 {
            backoff.fail(Time::ZERO);
            delays.push(backoff.delay().unwrap().as_millis());
        }
        assert_eq!(
            delays,
            [
                500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000
            ]
        );
    }

    #[test]
    fn it_counts_from_the_failure_and_is_gone_after_a_success() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.until(), None);
        backoff.fail(Time::from_millis(100));
        assert_eq!(backoff.until(), Some(Time::from_millis(600)));
        backoff.fail(Time::from_millis(700));
        assert_eq!(backoff.until(), Some(Time::from_millis(1700)));
        backoff.succeed();
        assert_eq!(backoff.until(), None);
    }
}

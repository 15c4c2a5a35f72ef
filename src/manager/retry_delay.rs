//! The pause after a failure of a socket.
//!
//! Pure: no clock inside. A backoff belongs to a socket's identity, so a socket that is created
//! again starts without one.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::config::BACKOFF;
use crate::time::Time;

/// The failures of a socket, and the delay that follows from them: [`BACKOFF`], as kubelet's
/// `exponentialbackoff`, unless another rule applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryDelay {
    /// Boxed, because there is one for every socket and most have never failed.
    failed: Option<Box<Failed>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed {
    at: Time,
    delay: Duration,
}

impl RetryDelay {
    /// Records that an attempt failed at `now`.
    pub fn fail(&mut self, now: Time) {
        self.fail_by(BACKOFF, now);
    }

    /// Records that an attempt failed at `now`; the next one follows by this rule.
    pub fn fail_by(&mut self, rule: Backoff, now: Time) {
        self.pause(now, rule.after(self.delay()));
    }

    /// Records that an attempt failed at `now` in a way that time does not mend: the delay is the
    /// cap.
    pub fn fail_for_good(&mut self, now: Time) {
        self.pause(now, BACKOFF.cap);
    }

    /// Sets the delay of the next attempt, whatever it was before.
    pub(super) fn pause(&mut self, now: Time, delay: Duration) {
        self.failed = Some(Box::new(Failed { at: now, delay }));
    }

    /// Records that an attempt succeeded, and forgets earlier failures.
    pub fn succeed(&mut self) {
        self.failed = None;
    }

    /// Returns the time until which no attempt is made, or `None` if nothing failed.
    ///
    /// kubelet refuses while `now - last_error <= delay`, so an attempt at this very time would be
    /// too early for kubelet, by less than any clock resolves.
    pub fn until(&self) -> Option<Time> {
        self.failed.as_ref().map(|failed| failed.at + failed.delay)
    }

    /// Returns the delay after the last failure.
    pub fn delay(&self) -> Option<Duration> {
        self.failed.as_ref().map(|failed| failed.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_is_500_ms_doubling_up_to_2_m_2_s() {
        let mut backoff = RetryDelay::default();
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
        let mut backoff = RetryDelay::default();
        assert_eq!(backoff.until(), None);
        backoff.fail(Time::from_millis(100));
        assert_eq!(backoff.until(), Some(Time::from_millis(600)));
        backoff.fail(Time::from_millis(700));
        assert_eq!(backoff.until(), Some(Time::from_millis(1700)));
        backoff.succeed();
        assert_eq!(backoff.until(), None);
    }
}

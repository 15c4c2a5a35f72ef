//! A limit on the rate at which sockets without a listener are dialled, for all of them together.
//!
//! Pure. A socket that exists and refuses connections is dialled every few seconds, because its
//! plugin may begin to listen at any moment. There may be thousands of such sockets, so each dial
//! after the first attempt has a time of its own, at least [`REDIAL_INTERVAL`] after the one before
//! it.

use crate::config::REDIAL_INTERVAL;
use crate::time::Time;

/// The time at which the next socket that has refused a connection may be dialled.
#[derive(Debug, Default)]
pub(super) struct Redials {
    next: Time,
}

impl Redials {
    /// Reserves the next free time for one dial, and returns it.
    pub(super) fn reserve(&mut self, now: Time) -> Time {
        let at = self.next.max(now);
        self.next = at + REDIAL_INTERVAL;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_reserved_one_interval_apart_and_none_is_in_the_past() {
        let mut redials = Redials::default();
        let now = Time::from_millis(1_000);
        assert_eq!(redials.reserve(now), now);
        assert_eq!(redials.reserve(now), now + REDIAL_INTERVAL);
        assert_eq!(redials.reserve(now), now + 2 * REDIAL_INTERVAL);
        let later = now + 10 * REDIAL_INTERVAL;
        assert_eq!(redials.reserve(later), later);
    }
}

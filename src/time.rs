//! Points in time, for a core without a clock.
//!
//! Pure. The daemon reads the monotonic clock and passes the result; a test or a simulator passes
//! any value. A [`Time`] cannot be compared with the time of day.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A point in time: the time since an origin that the caller chose (the daemon: its own start).
///
/// Counted in nanoseconds, which is enough for 584 years and makes comparisons, the most frequent
/// operation, cheap.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin itself.
    pub const ZERO: Self = Self(0);

    /// Returns the time `elapsed` after the origin.
    pub const fn after_origin(elapsed: Duration) -> Self {
        Self(nanos(elapsed))
    }

    /// Returns the time that many milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self::after_origin(Duration::from_millis(millis))
    }

    /// Returns the time since the origin.
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Adds a duration and saturates: a time too far away to be represented never comes.
    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(nanos(after)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, after: Duration) {
        *self = *self + after;
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", self.since_origin())
    }
}

/// Returns the duration in nanoseconds, saturating.
const fn nanos(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(NANOS_PER_SECOND);
    whole.saturating_add(duration.subsec_nanos() as u64)
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_too_far_away_never_comes_instead_of_wrapping() {
        let late = Time::from_millis(5) + Duration::MAX;
        assert!(late > Time::ZERO + Duration::from_secs(500 * 365 * 86_400));
        assert_eq!(late + Duration::from_nanos(1), late);
    }

    #[test]
    fn a_moment_is_exact_to_the_nanosecond() {
        let elapsed = Duration::new(1_000_000_000, 999_999_999);
        assert_eq!(Time::after_origin(elapsed).since_origin(), elapsed);
        assert_eq!((Time::ZERO + elapsed).since_origin(), elapsed);
    }

    #[test]
    fn the_time_since_a_later_moment_is_zero() {
        assert_eq!(
            Time::from_millis(1).saturating_since(Time::from_millis(2)),
            Duration::ZERO
        );
        assert_eq!(
            Time::from_millis(5).saturating_since(Time::from_millis(2)),
            Duration::from_millis(3)
        );
    }
}

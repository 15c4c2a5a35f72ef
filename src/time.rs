//! Points in time, for a core without a clock.
//!
//! The daemon reads the monotonic clock and passes the result; a test or a simulator passes any
//! value. A [`Time`] cannot be compared with the time of day, which is only formatted here.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A point in time: the time since an origin that the caller chose (the daemon: its own start).
///
/// Counted in nanoseconds, which is enough for 584 years and makes comparisons, the most frequent
/// operation, cheap. The origin is stored as 1, so that an `Option<Time>` is as small as a `Time`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZeroU64);

impl Time {
    /// The origin itself.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// Returns the time `elapsed` after the origin.
    pub const fn after_origin(elapsed: Duration) -> Self {
        Self(Self::ZERO.0.saturating_add(nanos(elapsed)))
    }

    /// Returns the time `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self::after_origin(Duration::from_millis(millis))
    }

    /// Returns the time since the origin.
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0.get() - 1)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// The origin.
impl Default for Time {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Adds a duration and saturates: a time that is too far away to be represented is never
    /// reached.
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

/// Returns a duration in whole milliseconds, saturating.
pub(crate) const fn millis(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1000);
    whole.saturating_add(duration.subsec_millis() as u64)
}

/// Returns a duration in whole microseconds, saturating.
pub(crate) const fn micros(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000);
    whole.saturating_add(duration.subsec_micros() as u64)
}

/// Returns a duration in nanoseconds, saturating.
pub(crate) const fn nanos(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(duration.subsec_nanos() as u64)
}

/// Formats a time of day as in RFC 3339 (UTC, milliseconds), given the time since the beginning of
/// 1970.
pub(crate) fn rfc3339(since_1970: Duration) -> String {
    String::from_utf8(rfc3339_octets(since_1970).into()).expect("it is ASCII")
}

/// Formats a time of day as [`rfc3339`] does, in ASCII.
pub(crate) fn rfc3339_octets(since_1970: Duration) -> [u8; 24] {
    let seconds = since_1970.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = since_1970.subsec_millis().into();
    let mut text = *b"0000-00-00T00:00:00.000Z";
    // Log lines in most formats have such a text, and `format!` takes eight times as long.
    for (mut number, digits) in [
        (year, 0..4),
        (month, 5..7),
        (day, 8..10),
        (hour, 11..13),
        (minute, 14..16),
        (second, 17..19),
        (millis, 20..23),
    ] {
        for digit in text[digits].iter_mut().rev() {
            *digit += (number % 10).to_le_bytes()[0];
            number /= 10;
        }
    }
    text
}

/// Returns the year, month and day of the day with this number, where 1 January 1970 is 0.
///
/// Counts in years that begin in March, so that the leap day is the last day of a year, and in eras
/// of 400 years, which all have 146,097 days.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The number of days from 1 March of the year 0 to 1 January 1970.
pub(crate) const DAYS_BEFORE_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_range_saturates() {
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
    fn a_moment_that_may_be_absent_takes_no_more_memory() {
        assert_eq!(size_of::<Option<Time>>(), size_of::<Time>());
        assert_eq!(Time::default().since_origin(), Duration::ZERO);
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

    #[track_caller]
    fn assert_shown(seconds: u64, shown: &str) {
        assert_eq!(rfc3339(Duration::from_secs(seconds)), shown);
    }

    #[test]
    fn times_are_formatted_as_in_rfc_3339() {
        assert_shown(0, "1970-01-01T00:00:00.000Z");
        assert_shown(951_782_399, "2000-02-28T23:59:59.000Z");
        assert_shown(951_782_400, "2000-02-29T00:00:00.000Z");
        assert_shown(1_077_926_400, "2004-02-28T00:00:00.000Z");
        assert_shown(1_735_689_599, "2024-12-31T23:59:59.000Z");
        assert_shown(4_107_542_400, "2100-03-01T00:00:00.000Z");
        let precise = rfc3339(Duration::from_millis(1_769_860_800_250));
        assert_eq!(precise, "2026-01-31T12:00:00.250Z");
    }
}

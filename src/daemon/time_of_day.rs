//! The time of day, for log lines and for the messages of simulated plugins. Nothing is decided by
//! it, and no other module reads it: the clock may be set back at any moment, and begins in 1970 on
//! a machine without a battery.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment, formatted as people and log readers expect it (RFC 3339, UTC, milliseconds).
#[derive(Clone, Copy, Debug)]
pub struct TimeOfDay(Duration);

impl TimeOfDay {
    /// Returns the current time of the system's clock.
    pub fn now() -> Self {
        Self::at(SystemTime::now())
    }

    /// Returns the time of day at a moment. A clock that is before 1970 has not been set, and is
    /// shown as 1970.
    fn at(moment: SystemTime) -> Self {
        let since_epoch = moment.duration_since(UNIX_EPOCH);
        Self(since_epoch.unwrap_or_default())
    }

    /// Appends the formatted time to a text.
    pub(super) fn push_to(self, text: &mut Vec<u8>) {
        text.extend_from_slice(&self.shown());
    }

    fn shown(self) -> [u8; 24] {
        let seconds = self.0.as_secs();
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let millis = u64::from(self.0.subsec_millis());
        let mut shown = *b"0000-00-00T00:00:00.000Z";
        for (digits, number) in [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, hour),
            (14..16, minute),
            (17..19, second),
            (20..23, millis),
        ] {
            fill(&mut shown[digits], number);
        }
        shown
    }

    /// Returns the time since the beginning of 1970.
    pub(super) fn since_1970(self) -> Duration {
        self.0
    }
}

/// Writes the last digits of a number, as many as fit. This takes a quarter of the time of the
/// standard library's formatting, and every log line has seven numbers.
fn fill(digits: &mut [u8], number: u64) {
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
}

/// Returns the year, month and day of the day with this number, where 1 January 1970 is 0.
///
/// Counts in years that begin in March, so that the leap day is the last day of a year, and in eras
/// of 400 years, which all have the same number of days.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The number of days in 400 years of the Gregorian calendar.
const DAYS_PER_ERA: u64 = 146_097;

/// The number of days from 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(moment: TimeOfDay) -> String {
        let mut text = Vec::new();
        moment.push_to(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[track_caller]
    fn assert_shown(seconds: u64, shown: &str) {
        assert_eq!(text(TimeOfDay(Duration::from_secs(seconds))), shown);
    }

    #[test]
    fn a_clock_that_was_not_set_or_is_set_back_is_shown_as_it_is() {
        let shown = |moment| text(TimeOfDay::at(moment));
        assert_eq!(shown(UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        let hour = Duration::from_secs(3600);
        assert_eq!(shown(UNIX_EPOCH - hour), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(UNIX_EPOCH + hour), "1970-01-01T01:00:00.000Z");
        let year_10_000 = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(shown(year_10_000).len(), "1970-01-01T00:00:00.000Z".len());
    }

    #[test]
    fn moments_are_shown_as_rfc_3339_has_them() {
        assert_shown(0, "1970-01-01T00:00:00.000Z");
        assert_shown(951_782_399, "2000-02-28T23:59:59.000Z");
        assert_shown(951_782_400, "2000-02-29T00:00:00.000Z");
        assert_shown(1_077_926_400, "2004-02-28T00:00:00.000Z");
        assert_shown(1_735_689_599, "2024-12-31T23:59:59.000Z");
        assert_shown(4_107_542_400, "2100-03-01T00:00:00.000Z");
        let precise = TimeOfDay(Duration::from_millis(1_769_860_800_250));
        assert_eq!(text(precise), "2026-01-31T12:00:00.250Z");
    }
}

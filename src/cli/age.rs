//! Ages and remaining times in the style of kubectl, in two units at most.
//!
//! The daemon sends timestamps, which are compared with the clock of this process.

use std::ops::Range;
use std::time::Duration;

use crate::time::{DAYS_BEFORE_1970, rfc3339};

/// Returns the time from `then` until `now`, or `<unknown>` if `then` is not a time. `then` is in
/// the format of RFC 3339, in UTC; `now` is in milliseconds since the Unix epoch. If `then` is in
/// the future, the result is `0s`.
pub(super) fn format_age(then: &str, now: u64) -> String {
    format_difference(parse_time(then), Some(now))
}

/// Returns the time from `now` until `then`, in the formats of [`format_age`]; `0s` if `then` is in
/// the past.
pub(super) fn format_time_left(then: &str, now: u64) -> String {
    format_difference(Some(now), parse_time(then))
}

fn format_difference(from: Option<u64>, to: Option<u64>) -> String {
    match (from, to) {
        (Some(from), Some(to)) => format_duration(to.saturating_sub(from) / 1000),
        _ => super::UNKNOWN.to_owned(),
    }
}

/// Formats a duration in the largest unit that it contains at least twice, else in seconds. A count
/// below eight is followed by the count of the next smaller unit, unless that is 0: similar to
/// kubectl (`HumanDuration` of k8s.io/apimachinery).
pub(super) fn format_duration(seconds: u64) -> String {
    let at = UNITS.iter().position(|(unit, _)| seconds / 2 >= *unit);
    let at = at.unwrap_or(UNITS.len() - 1);
    let (unit, letter) = UNITS[at];
    let (count, rest) = (seconds / unit, seconds % unit);
    match UNITS
        .get(at + 1)
        .map(|(next, letter)| (rest / next, letter))
    {
        Some((more @ 1.., next)) if count < 8 => format!("{count}{letter}{more}{next}"),
        _ => format!("{count}{letter}"),
    }
}

/// The units in seconds, with their letters.
const UNITS: [(u64, char); 5] = [
    (365 * DAY, 'y'),
    (DAY, 'd'),
    (3600, 'h'),
    (60, 'm'),
    (1, 's'),
];

const DAY: u64 = 24 * 3600;

/// Parses a time such as `2026-01-31T12:00:00.250Z`, and returns the milliseconds since the Unix
/// epoch, or `None` if the time has another format or is before 1970.
fn parse_time(time: &str) -> Option<u64> {
    let number = |digits: Range<usize>| time.get(digits)?.parse::<u64>().ok();
    let [year, month, day] = [number(0..4)?, number(5..7)?, number(8..10)?];
    let [hour, minute, second] = [number(11..13)?, number(14..16)?, number(17..19)?];
    let millis = number(20..23)?;
    if year < 1970 || month == 0 || day == 0 {
        return None;
    }
    // Years begin in March here, so that a leap day is the last day of a year, and months have 31,
    // 30, 31, 30 and 31 days in turn.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_BEFORE_1970;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second;
    let millis = seconds * 1000 + millis;
    (rfc3339(Duration::from_millis(millis)) == time).then_some(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_two_units_at_most() {
        for (seconds, expected) in [
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (479, "7m59s"),
            (480, "8m"),
            (2 * 3600 - 1, "119m"),
            (3 * 3600, "3h"),
            (4 * 3600 + 59, "4h"),
            (7 * 3600 + 59 * 60, "7h59m"),
            (8 * 3600 + 59 * 60, "8h"),
            (47 * 3600, "47h"),
            (2 * DAY, "2d"),
            (7 * DAY + 23 * 3600, "7d23h"),
            (12 * DAY, "12d"),
            (729 * DAY, "729d"),
            (2 * 365 * DAY, "2y"),
            (2 * 365 * DAY + DAY, "2y1d"),
            (9 * 365 * DAY + 300 * DAY, "9y"),
            (u64::MAX, "584942417355y"),
        ] {
            assert_eq!(format_duration(seconds), expected, "{seconds} s");
        }
    }

    #[test]
    fn times_are_parsed_in_the_format_of_the_log() {
        for (seconds, time) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_077_926_400, "2004-02-28T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(parse_time(time), Some(seconds * 1000), "{time}");
        }
        assert_eq!(
            parse_time("2026-01-31T12:00:00.250Z"),
            Some(1_769_860_800_250)
        );
    }

    #[test]
    fn what_is_not_a_time_is_unknown() {
        for wrong in [
            "",
            "Z",
            "now",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-00-31T12:00:00.000Z",
            "2026-13-31T12:00:00.000Z",
            "2026-01-00T12:00:00.000Z",
            "1969-01-01T00:00:00.000Z",
            "99999-01-01T00:00:00.00Z",
            "2026-01-31T12:00:00.9999999999Z",
            "2026-01-31T12:00:-1.000Z",
            "2026-01-31T12:00:+1.000Z",
            "2026-01-31 12:00:00.000Z",
            "2026/01/31T12:00:00,000Z",
            "2026-02-29T12:00:00.000Z",
            "2026-01-31T24:00:00.000Z",
            "2026-01-31T12:60:00.000Z",
        ] {
            assert_eq!(format_age(wrong, 0), "<unknown>", "{wrong}");
        }
    }

    #[test]
    fn a_difference_is_never_negative() {
        let then = "2026-01-31T12:00:00.000Z";
        assert_eq!(format_age(then, 1_769_860_805_000), "5s");
        assert_eq!(format_age(then, 1_769_860_795_000), "0s");
        assert_eq!(format_time_left(then, 1_769_860_795_000), "5s");
        assert_eq!(format_time_left(then, 1_769_860_805_000), "0s");
    }
}

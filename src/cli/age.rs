//! Times as kubectl shows them: how long ago, in two units at most.
//!
//! Pure. The daemon sends times of day; the difference to the clock of this process is shown.

use std::time::Duration;

use crate::time;

/// Returns the time from `then` until `now`, or `<unknown>` if `then` is not a time. `then` is as
/// RFC 3339 has it, in UTC; `now` is in milliseconds since 1970. A future time is shown as `0s`.
pub(super) fn since(then: &str, now: u64) -> String {
    between(parse(then), Some(now))
}

/// Returns the time from `now` until `then`, as [`since`].
pub(super) fn until(then: &str, now: u64) -> String {
    between(Some(now), parse(then))
}

fn between(from: Option<u64>, to: Option<u64>) -> String {
    match (from, to) {
        (Some(from), Some(to)) => duration(to.saturating_sub(from) / 1000),
        _ => super::UNKNOWN.to_owned(),
    }
}

/// Returns a number of seconds as kubectl shows it (`HumanDuration` of k8s.io/apimachinery).
pub(super) fn duration(seconds: u64) -> String {
    let scale = SCALES.iter().find(|(below, ..)| seconds < *below);
    let (_, unit, minor) = scale.unwrap_or(&(u64::MAX, YEAR, 0));
    let mut shown = (seconds / unit).to_string();
    shown.push(letter(*unit));
    let rest = (seconds % unit).checked_div(*minor).unwrap_or_default();
    if rest > 0 {
        shown.push_str(&rest.to_string());
        shown.push(letter(*minor));
    }
    shown
}

/// Returns a duration as the options accept it, exact to the millisecond.
pub(super) fn exact(duration: Duration) -> String {
    let mut rest = time::millis(duration);
    let mut shown = String::new();
    for (unit, letters) in [(3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")] {
        if rest >= unit {
            shown.push_str(&(rest / unit).to_string());
            shown.push_str(letters);
            rest %= unit;
        }
    }
    if shown.is_empty() {
        shown.push_str("0s");
    }
    shown
}

/// Returns the letter of a unit.
fn letter(unit: u64) -> char {
    match unit {
        1 => 's',
        MINUTE => 'm',
        HOUR => 'h',
        DAY => 'd',
        _ => 'y',
    }
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// The unit of durations below a limit, and the smaller unit that is shown, too, or 0.
const SCALES: [(u64, u64, u64); 8] = [
    (2 * MINUTE, 1, 0),
    (10 * MINUTE, MINUTE, 1),
    (3 * HOUR, MINUTE, 0),
    (8 * HOUR, HOUR, MINUTE),
    (2 * DAY, HOUR, 0),
    (8 * DAY, DAY, HOUR),
    (2 * YEAR, DAY, 0),
    (8 * YEAR, YEAR, DAY),
];

/// Parses a time such as `2026-01-31T12:00:00.250Z` and returns the milliseconds since 1970.
fn parse(time: &str) -> Option<u64> {
    let mut numbers = [0; 8];
    let mut at = 0;
    if time.len() != SHAPE.len() {
        return None;
    }
    for (byte, shape) in time.bytes().zip(SHAPE) {
        if *shape == b'0' {
            let number: &mut u64 = numbers.get_mut(at)?;
            *number = *number * 10 + u64::from(char::from(byte).to_digit(10)?);
        } else if byte == *shape {
            at += 1;
        } else {
            return None;
        }
    }
    let [year, month, day, hour, minute, second, millis, _] = numbers;
    if year < 1970 || !(1..=12).contains(&month) {
        return None;
    }
    let days = days_before_year(year) + days_before_month(year, month) + day.checked_sub(1)?;
    let seconds = days * DAY + hour * HOUR + minute * MINUTE + second;
    Some(seconds * 1000 + millis)
}

/// The form of a time, in which `0` stands for any digit.
const SHAPE: &[u8] = b"0000-00-00T00:00:00.000Z";

/// Returns the number of days from 1970 to the beginning of a year.
fn days_before_year(year: u64) -> u64 {
    let before = year - 1;
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leap_days(before) - leap_days(1969)
}

/// Returns the number of days in a year before a month, where January is 1.
fn days_before_month(year: u64, month: u64) -> u64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    // Counted from March, months have 31, 30, 31, 30 and 31 days, again and again.
    match month {
        1 => 0,
        2 => 31,
        _ => 59 + u64::from(is_leap) + (153 * (month - 3) + 2) / 5,
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments;
    use super::*;

    #[test]
    fn a_duration_has_the_units_that_kubectl_shows() {
        for (seconds, expected) in [
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (4 * HOUR + 59, "4h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (48 * HOUR, "2d"),
            (7 * DAY + 23 * HOUR, "7d23h"),
            (12 * DAY, "12d"),
            (729 * DAY, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (9 * YEAR + 300 * DAY, "9y"),
            (u64::MAX, "584942417355y"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds} s");
        }
    }

    #[test]
    fn an_exact_duration_is_one_that_the_options_accept() {
        for (millis, expected) in [
            (0, "0s"),
            (300, "300ms"),
            (30_000, "30s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (31_536_000_000, "8760h"),
            (3_661_001, "1h1m1s1ms"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(exact(duration), expected);
            assert_eq!(arguments::duration(expected), Some(duration));
        }
    }

    #[test]
    fn times_are_read_as_the_log_writes_them() {
        for (seconds, time) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_077_926_400, "2004-02-28T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(parse(time), Some(seconds * 1000), "{time}");
        }
        assert_eq!(parse("2026-01-31T12:00:00.250Z"), Some(1_769_860_800_250));
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
            "2026-01-31 12:00:00.000Z",
            "2026-01-31T12:00:00.9999999999Z",
            "2026-01-31T12:00:-1.000Z",
        ] {
            assert_eq!(since(wrong, 0), "<unknown>", "{wrong}");
        }
    }

    #[test]
    fn a_difference_is_never_negative() {
        let then = "2026-01-31T12:00:00.000Z";
        assert_eq!(since(then, 1_769_860_805_000), "5s");
        assert_eq!(since(then, 1_769_860_795_000), "0s");
        assert_eq!(until(then, 1_769_860_795_000), "5s");
        assert_eq!(until(then, 1_769_860_805_000), "0s");
    }
}

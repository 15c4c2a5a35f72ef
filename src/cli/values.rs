//! Parsers for the values of options.
//!
//! The error of each parser is what it expects in place of the value.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{self, PathBuf};
use std::time::Duration;

use crate::escape;

/// A parsed value, or a description of what is expected in its place.
pub(super) type Parsed<T> = Result<T, String>;

/// Returns the error text for a value that an option does not accept.
pub(super) fn invalid_value(value: &OsStr, option: &str, expected: &str) -> String {
    let value = escape::bytes(value.as_bytes());
    format!("invalid value {value:?} for {option}, expected {expected}")
}

/// Parses a value with `parse`; the error is `expected`.
pub(super) fn parse_with<T>(
    value: &OsStr,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Parsed<T> {
    let parsed = value.to_str().and_then(parse);
    parsed.ok_or_else(|| expected.to_owned())
}

/// Parses one of these words, and returns its meaning.
pub(super) fn parse_one_of<T: Copy>(value: &OsStr, words: &[(&str, T)]) -> Parsed<T> {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    parse_with(value, &join_with_or(&names), |value| {
        let found = words.iter().find(|(name, _)| *name == value);
        found.map(|(_, meaning)| *meaning)
    })
}

/// Parses any text in UTF-8.
pub(super) fn parse_text(value: &OsStr) -> Parsed<String> {
    parse_with(value, "text in UTF-8", |text| Some(text.to_owned()))
}

/// Parses a path, and makes it absolute.
pub(super) fn parse_path(value: &OsStr) -> Parsed<PathBuf> {
    make_absolute(value).ok_or_else(|| "a path".to_owned())
}

/// Parses `none`, or a path, which is made absolute.
pub(super) fn parse_path_or_none(value: &OsStr) -> Parsed<PathBuf> {
    if value == NONE {
        return Ok(value.into());
    }
    make_absolute(value).ok_or_else(|| "a path, or none".to_owned())
}

/// Parses a duration.
pub(super) fn parse_duration(value: &OsStr) -> Parsed<Duration> {
    parse_with(
        value,
        "a duration such as 500ms, 30s, 5m or 1h",
        parse_units,
    )
}

/// Joins names as in a sentence: `a, b or c`.
pub(super) fn join_with_or(names: &[&str]) -> String {
    match names {
        [names @ .., last] if !names.is_empty() => format!("{} or {last}", names.join(", ")),
        names => names.concat(),
    }
}

/// Returns the absolute form of a path, which means the same file in every working directory, or
/// `None` if the path is empty or the working directory is not known.
pub(super) fn make_absolute(path: &OsStr) -> Option<PathBuf> {
    path::absolute(path).ok()
}

/// Parses a duration: whole numbers with units, such as `500ms`, `30s`, `1m30s` or `1h`. The
/// maximum is a year, so that adding it to a time never overflows.
fn parse_units(words: &str) -> Option<Duration> {
    let mut sum = 0_u64;
    let mut rest = words;
    loop {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let end = behind.find(|c: char| c.is_ascii_digit());
        let (unit, behind) = behind.split_at(end.unwrap_or(behind.len()));
        let millis = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60 * 1000,
            "h" => 60 * 60 * 1000,
            _ => return None,
        };
        let millis = number.parse::<u64>().ok()?.checked_mul(millis)?;
        (sum, rest) = (sum.checked_add(millis)?, behind);
        if rest.is_empty() {
            break;
        }
    }
    let duration = Duration::from_millis(sum);
    (duration <= LONGEST_DURATION).then_some(duration)
}

/// The word for no file and no socket.
pub(super) const NONE: &str = "none";

/// The longest duration that is accepted: a year.
pub(super) const LONGEST_DURATION: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Parsed<Duration> {
        parse_duration(words.as_ref())
    }

    #[test]
    fn a_duration_is_whole_numbers_with_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
        for nonsense in [
            "",
            "30",
            "s",
            "-1s",
            "1.5s",
            "1m30",
            "1m s",
            "9999999h",
            "99999999999999999999s",
        ] {
            assert!(parse(nonsense).is_err(), "{nonsense}");
        }
    }
}

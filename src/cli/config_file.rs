//! The syntax of the configuration file: parses lines, and formats the line of a setting.
//!
//! A line is a key, which is a long option of `run` without the dashes, and the value of that
//! option after blanks, `=` or both; a flag needs no value. `--config` is not a key.
//! Blanks around the key and the value are ignored. `#` begins a comment at the beginning of a line
//! and after a blank, so a value cannot contain a blank followed by `#`. There are neither quotes
//! nor continuation lines.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::str;

use crate::escape;

/// The key and the value of a line that is neither blank nor a comment; the value is `None` if only
/// the key is given.
pub(super) type Line<'a> = (&'a str, Option<&'a str>);

/// Returns the lines of a file that are neither blank nor a comment, each with its number or with
/// its problem.
pub(super) fn parse_lines(
    content: &[u8],
) -> impl Iterator<Item = (usize, Result<Line<'_>, &'static str>)> {
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    let numbered = (1..).zip(content.split(|&byte| byte == b'\n'));
    numbered.filter_map(|(number, line)| Some((number, parse_line(line).transpose()?)))
}

/// Parses a line. Returns `None` if the line is blank or a comment.
fn parse_line(line: &[u8]) -> Result<Option<Line<'_>>, &'static str> {
    let line = str::from_utf8(line).map_err(|_| "the line is not UTF-8")?;
    let is_comment = |at: &usize| {
        let bytes = line.as_bytes();
        bytes[*at] == b'#' && (*at == 0 || is_blank(bytes[*at - 1]))
    };
    let end = (0..line.len()).find(is_comment);
    let line = line[..end.unwrap_or(line.len())].trim_ascii();
    if line
        .bytes()
        .any(|byte| byte.is_ascii_control() && byte != b'\t')
    {
        return Err("the line contains a control character");
    }
    if line.is_empty() {
        return Ok(None);
    }
    let end = line.bytes().position(|byte| byte == b'=' || is_blank(byte));
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    if key.is_empty() {
        return Err("the key is missing");
    }
    let rest = rest.trim_ascii_start();
    let value = match rest.strip_prefix('=') {
        Some(value) => Some(value.trim_ascii_start()),
        None => Some(rest).filter(|rest| !rest.is_empty()),
    };
    Ok(Some((key, value)))
}

/// Returns the line of a setting, with a comment. If no line can hold the value, the whole line is
/// a comment. The value of a flag is empty.
pub(super) fn format_line(key: &str, value: &OsStr, comment: &str) -> String {
    let text = value.to_str().unwrap_or_default();
    let separator = match text.as_bytes() {
        [] => "",
        // After a blank, `=` would be a separator, and `#` would begin a comment.
        // mutation: a value that begins with = is printed behind a blank
        [b'=' | b'#', ..] => " =",
        _ => " ",
    };
    let line = [key, separator, text, "  # ", comment, "\n"].concat();
    match parse_line(line.as_bytes()) {
        Ok(Some((_, parsed))) if parsed.unwrap_or_default() == value => line,
        _ => {
            let value = escape::bytes(value.as_bytes()).to_string();
            ["#", key, " ", &value, "  # ", comment, "\n"].concat()
        }
    }
}

/// The byte order mark that some editors write at the beginning of a file in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect_lines(content: &[u8]) -> Vec<(usize, Result<Line<'_>, &'static str>)> {
        parse_lines(content).collect()
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_key() {
        let expected = [(1, Ok(("observe", None)))];
        assert_eq!(collect_lines(b"\xef\xbb\xbfobserve"), expected);
    }

    #[test]
    fn a_value_follows_blanks_or_an_equals_sign() {
        for line in [
            "exec X=/lib/hook",
            "exec=X=/lib/hook",
            "exec = X=/lib/hook",
            "\texec\t=\tX=/lib/hook\t",
            "exec X=/lib/hook\r",
            "exec X=/lib/hook # runs a program",
            "exec X=/lib/hook\t#",
        ] {
            let expected = Ok(("exec", Some("X=/lib/hook")));
            assert_eq!(collect_lines(line.as_bytes()), [(1, expected)], "{line:?}");
        }
        for (line, value) in [
            ("observe", None),
            (" observe # on", None),
            ("observe =", Some("")),
            ("observe= # nothing", Some("")),
            ("observe a b  c", Some("a b  c")),
            ("observe a#b", Some("a#b")),
            ("observe =#", Some("#")),
            ("observe ==", Some("=")),
            ("observe \u{e4}\u{a0}", Some("\u{e4}\u{a0}")),
        ] {
            assert_eq!(
                collect_lines(line.as_bytes()),
                [(1, Ok(("observe", value)))]
            );
        }
    }

    #[test]
    fn blank_lines_and_comments_are_counted_but_not_returned() {
        let content = b"\n# a\r\n \t\r\n  # b\na 1\r\n#\nb\n\n";
        let expected = [(5, Ok(("a", Some("1")))), (7, Ok(("b", None)))];
        assert_eq!(collect_lines(content), expected);
        assert_eq!(collect_lines(b""), []);
        assert_eq!(collect_lines(b"a"), [(1, Ok(("a", None)))]);
    }

    #[test]
    fn an_invalid_line_is_returned_as_its_problem() {
        let content = b"a \xff\nb\n= 1\nc\x00\nd \x1b[1m\ne\rf\n# \x07\n";
        let control = Err("the line contains a control character");
        let expected = [
            (1, Err("the line is not UTF-8")),
            (2, Ok(("b", None))),
            (3, Err("the key is missing")),
            (4, control),
            (5, control),
            (6, control),
        ];
        assert_eq!(collect_lines(content), expected);
    }

    #[test]
    fn a_formatted_line_is_parsed_to_the_same_setting() {
        for value in ["/a", "/a b", "X=/lib/hook", "a#b", "keep", "=", "==a", "#"] {
            let line = format_line("key", value.as_ref(), "default");
            assert_eq!(
                collect_lines(line.as_bytes()),
                [(1, Ok(("key", Some(value))))]
            );
        }
        let flag = format_line("observe", "".as_ref(), "default");
        assert_eq!(flag, "observe  # default\n");
        assert_eq!(collect_lines(flag.as_bytes()), [(1, Ok(("observe", None)))]);
        for value in [
            &b"/a #b"[..],
            b" /a",
            b"/a\t",
            b"/a\nb /c",
            b"\x1b",
            b"\xff",
        ] {
            let line = format_line("key", OsStr::from_bytes(value), "environment");
            assert_eq!(collect_lines(line.as_bytes()), [], "{line:?}");
        }
    }
}

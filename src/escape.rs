//! Untrusted text, made safe to show.
//!
//! For the log and terminals ([`Escaped`]), and as JSON in plain ASCII. A plugin chooses its
//! own name, versions and error messages, and every process that may write to the directory chooses
//! file names: none of them may move a cursor, colour a terminal, forge a second log line or hide
//! what follows.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Untrusted text that is shown with control and format characters escaped, and with a length
/// limit.
///
/// These characters appear as in a Rust string literal (`\n`, `\u{1b}`); bytes that are not UTF-8
/// appear as `\xNN`; a backslash is doubled, so that the output is unambiguous.
#[derive(Clone, Copy)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
    limit: usize,
}

/// Wraps `text` so that it is shown escaped.
pub fn text(text: &str) -> Escaped<'_> {
    bytes(text.as_bytes())
}

/// Wraps `path` so that it is shown escaped.
pub fn path(path: &Path) -> Escaped<'_> {
    bytes(path.as_os_str().as_bytes())
}

/// Wraps `bytes`, which should be UTF-8 but need not be, so that they are shown escaped.
pub fn bytes(bytes: &[u8]) -> Escaped<'_> {
    Escaped {
        bytes,
        limit: MAX_SHOWN,
    }
}

/// Returns `text` escaped as by [`text`].
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_SHOWN && is_plain(text.as_bytes()) {
        return text.into();
    }
    self::text(text).to_string().into()
}

/// Returns the items of a list, which are escaped already, separated by commas. A long list ends in
/// the number of the items that are left out.
pub(crate) fn list(items: impl ExactSizeIterator<Item = impl fmt::Display>) -> String {
    let more = items.len().saturating_sub(MAX_LISTED);
    let shown: Vec<String> = items.take(MAX_LISTED).map(|it| it.to_string()).collect();
    match more {
        0 => shown.join(","),
        _ => format!("{},...({more} more)", shown.join(",")),
    }
}

/// Returns a text whose untrusted parts should already be escaped, made safe to show in case they
/// are not: escaped like [`bytes`], but without doubled backslashes.
pub(crate) fn composed_text(text: &[u8]) -> String {
    bytes(text).to_string().replace(r"\\", r"\")
}

/// Appends a value as JSON in plain ASCII, so that a terminal can show it whatever it is.
///
/// # Panics
///
/// Panics if the value cannot be JSON, such as a path that is not UTF-8.
pub fn append_json(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    append_json_up_to(usize::MAX, value, out).expect("the value can be JSON");
}

/// Appends a value as JSON in plain ASCII. Fails if `out` would be longer than `limit` octets.
pub(crate) fn append_json_up_to(
    limit: usize,
    value: &(impl Serialize + ?Sized),
    out: &mut Vec<u8>,
) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(
        Limited { out, limit },
        Ascii,
    ))
}

/// A text that is being written. Its length is limited.
struct Limited<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
}

impl io::Write for Limited<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.write_all(octets).map(|()| octets.len())
    }

    fn write_all(&mut self, octets: &[u8]) -> io::Result<()> {
        if octets.len() > self.limit.saturating_sub(self.out.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match octets {
            // Most of what is written: copying one octet takes musl 40 ns.
            [octet] => self.out.push(*octet),
            _ => self.out.extend_from_slice(octets),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The format of JSON whose strings are printable ASCII: every other character that JSON allows
/// unescaped is `\uXXXX`.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|octet| matches!(octet, b' '..=b'~')) {
            return out.write_all(fragment.as_bytes()); // Nearly every text.
        }
        for part in fragment.split_inclusive(|c| !matches!(c, ' '..='~')) {
            let plain = part.trim_end_matches(|c| !matches!(c, ' '..='~'));
            out.write_all(plain.as_bytes())?;
            for unit in part[plain.len()..].encode_utf16() {
                write!(out, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

impl Escaped<'_> {
    /// Limits what is shown to `limit` bytes of the text, followed by the number of bytes left out.
    #[must_use]
    pub const fn at_most(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, needs_escape)
    }
}

/// Shows the text in quotes, with quotes inside it escaped, too.
impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.show(f, |c| c == '"' || needs_escape(c))?;
        f.write_char('"')
    }
}

impl Escaped<'_> {
    fn show(&self, f: &mut fmt::Formatter<'_>, needs_escape: fn(char) -> bool) -> fmt::Result {
        // Nearly every text is plain, for which this takes a tenth of the time.
        if self.bytes.len() <= self.limit && is_plain(self.bytes) {
            return f.write_str(std::str::from_utf8(self.bytes).expect("it is ASCII"));
        }
        let (shown, hidden) = self.bytes.split_at(cut_length(self.bytes, self.limit));
        for chunk in shown.utf8_chunks() {
            for part in chunk.valid().split_inclusive(needs_escape) {
                let plain = part.trim_end_matches(needs_escape);
                write!(f, "{plain}{}", part[plain.len()..].escape_default())?;
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        if hidden.is_empty() {
            Ok(())
        } else {
            write!(f, "...({} more bytes)", hidden.len())
        }
    }
}

/// Returns whether none of the bytes ever needs an escape, as in nearly every name.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| PLAIN[usize::from(byte)])
}

/// Returns the length to which `bytes` are cut so that at most `limit` are shown and no character
/// is split.
fn cut_length(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let is_continuation = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
    (limit.saturating_sub(3)..=limit)
        .rev()
        .find(|&at| !is_continuation(bytes[at]))
        .unwrap_or(limit)
}

/// Returns whether the unescaped character could mislead a terminal, a log reader or a human.
pub(crate) fn needs_escape(c: char) -> bool {
    let is_format_or_bidi = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c == '\\' || c.is_control() || is_format_or_bidi
}

/// For each octet, whether it never needs an escape.
static PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut octet = b' ';
    while octet <= b'~' {
        table[octet as usize] = !matches!(octet, b'"' | b'\\');
        octet += 1;
    }
    table
};

/// The maximum length of one text that is shown: enough for any honest name or message, too little
/// to fill a log (bytes).
const MAX_SHOWN: usize = 1024;

/// The maximum number of items of a list that are shown in one line: enough to look into the cause.
pub(crate) const MAX_LISTED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_text_is_shown_as_it_is() {
        assert_eq!(
            text("hostpath.csi.k8s.io").to_string(),
            "hostpath.csi.k8s.io"
        );
        assert_eq!(text("größe 大").to_string(), "größe 大");
    }

    #[test]
    fn what_could_mislead_a_terminal_is_escaped() {
        assert_eq!(text("a\x1b[2Jb\nc\\").to_string(), "a\\u{1b}[2Jb\\nc\\\\");
        assert_eq!(
            text("\u{9b}31m \u{202e}cod").to_string(),
            "\\u{9b}31m \\u{202e}cod"
        );
        assert_eq!(bytes(b"ok\xff\xfe").to_string(), "ok\\xff\\xfe");
    }

    #[test]
    fn a_composed_text_is_safe_and_not_escaped_again() {
        let shown = text("a\x1b[2J\n\\\"\u{202e}").to_string();
        assert_eq!(composed_text(shown.as_bytes()), shown);
        assert_eq!(composed_text(b"\\n\\\n\\\\\x1b\xff"), r"\n\\n\\\u{1b}\xff");
    }

    #[test]
    fn what_is_in_quotes_cannot_end_them() {
        let shown = format!("{:?}", text("a\"; next\n"));
        assert_eq!(shown, r#""a\"; next\n""#);
    }

    #[test]
    fn json_is_plain_ascii_and_means_the_same() {
        let said = "größe \u{7f}\u{9b}31m \u{202e}\u{1f600}\n\t\0\"\\";
        let mut string = Vec::new();
        append_json(said, &mut string);
        let string = String::from_utf8(string).expect("it is text");
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~');
        assert!(string.bytes().all(is_plain), "{string}");
        let read: String = serde_json::from_str(&string).expect("it is JSON");
        assert_eq!(read, said);
    }

    #[test]
    fn long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(
            text("abcdef").at_most(4).to_string(),
            "abcd...(2 more bytes)"
        );
        assert_eq!(text("aééé").at_most(2).to_string(), "a...(6 more bytes)");
        assert_eq!(text("abc").at_most(3).to_string(), "abc");
    }
}

//! Untrusted text, made safe to show.
//!
//! Pure: for the log and terminals ([`Escaped`]), and as JSON in plain ASCII. A plugin chooses its
//! own name, versions and error messages, and every process that may write to the directory chooses
//! file names: none of them may move a cursor, colour a terminal, forge a second log line or hide
//! what follows.

use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Untrusted text that is shown with everything but visible characters and plain spaces escaped,
/// and with a length limit.
///
/// Characters that are not printable appear as in a Rust string literal (`\n`, `\u{1b}`); bytes
/// that are not UTF-8 appear as `\xNN`; a backslash is doubled, so that the output is unambiguous.
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

/// Returns a text in which all that is untrusted is escaped already, made safe to show whether that
/// is true or not: as [`bytes`], but a backslash stays one.
pub(crate) fn composed(text: &[u8]) -> String {
    bytes(text).to_string().replace(r"\\", r"\")
}

/// Appends a value as JSON in plain ASCII, so that a terminal can show it whatever it is.
///
/// # Panics
///
/// Panics if the value cannot be JSON, such as a path that is not UTF-8.
pub fn json(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    write_json(value, out).expect("the value can be JSON, and a vector takes all of it");
}

/// Writes a value as JSON in plain ASCII.
pub(crate) fn write_json(
    value: &(impl Serialize + ?Sized),
    out: &mut dyn io::Write,
) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Ascii))
}

/// Appends `text` as a JSON string in plain ASCII, so that a terminal can show it whatever it is.
pub fn json_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '\n' => out.extend_from_slice(b"\\n"),
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            _ => push_ascii(c, out),
        }
    }
    out.push(b'"');
}

/// Appends a character of a JSON string, as `\uXXXX` if it is not visible ASCII.
fn push_ascii(c: char, out: &mut Vec<u8>) {
    if matches!(c, ' '..='~') {
        out.push(c as u8);
        return;
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(b"\\u");
        for shift in [12, 8, 4, 0] {
            out.push(b"0123456789abcdef"[usize::from((*unit >> shift) & 0xf)]);
        }
    }
}

/// The format of JSON in which every character that is not visible ASCII is `\uXXXX`.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
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
        let (shown, hidden) = self.bytes.split_at(cut(self.bytes, self.limit));
        match plain(shown) {
            Some(text) => f.write_str(text)?,
            None => show_any(shown, f, needs_escape)?,
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
    plain(bytes).is_some()
}

/// Returns `bytes` as text if none of them ever needs an escape, as in nearly every name: they are
/// written in one piece.
fn plain(bytes: &[u8]) -> Option<&str> {
    let mut rest = bytes;
    while let Some((eight, behind)) = rest.split_first_chunk() {
        if !are_plain(*eight) {
            return None;
        }
        rest = behind;
    }
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    rest.iter().all(is_plain).then_some(())?;
    std::str::from_utf8(bytes).ok()
}

/// Returns whether none of eight bytes ever needs an escape, computed for all of them at once: the
/// highest bit of each byte holds its result. The additions run on the low seven bits, so no sum
/// carries into the next byte.
fn are_plain(bytes: [u8; 8]) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = 0x80 * EACH;
    let bytes = u64::from_ne_bytes(bytes);
    let low = bytes & !HIGHEST;
    let is_visible = low + (0x80 - u64::from(b' ')) * EACH;
    let is_not = |byte: u8| (low ^ (u64::from(byte) * EACH)) + !HIGHEST;
    let is_plain = !bytes & is_visible & is_not(0x7f) & is_not(b'"') & is_not(b'\\');
    is_plain & HIGHEST == HIGHEST
}

/// Shows text that is not plain, escaping where needed.
fn show_any(
    bytes: &[u8],
    f: &mut fmt::Formatter<'_>,
    needs_escape: fn(char) -> bool,
) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        show_valid(chunk.valid(), f, needs_escape)?;
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Shows valid UTF-8; each part that needs no escape is written in one piece.
fn show_valid(
    mut text: &str,
    f: &mut fmt::Formatter<'_>,
    needs_escape: fn(char) -> bool,
) -> fmt::Result {
    while let Some(at) = text.find(needs_escape) {
        f.write_str(&text[..at])?;
        let mut rest = text[at..].chars();
        if let Some(c) = rest.next() {
            write!(f, "{}", c.escape_default())?;
        }
        text = rest.as_str();
    }
    f.write_str(text)
}

/// Returns where to cut `bytes` so that at most `limit` are shown and no character is split.
fn cut(bytes: &[u8], limit: usize) -> usize {
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

/// The maximum length of one text that is shown: enough for any honest name or message, too little
/// to fill a log (bytes).
const MAX_SHOWN: usize = 1024;

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
        assert_eq!(composed(shown.as_bytes()), shown);
        assert_eq!(composed(b"\\n\\\n\\\\\x1b\xff"), r"\n\\n\\\u{1b}\xff");
    }

    #[test]
    fn what_is_in_quotes_cannot_end_them() {
        let shown = format!("{:?}", text("a\"; next\n"));
        assert_eq!(shown, r#""a\"; next\n""#);
    }

    #[test]
    fn an_octet_is_shown_in_plain_text_as_it_is_in_text_that_is_not_plain() {
        for byte in 0..=u8::MAX {
            for place in 1..=9 {
                let mut with_another = *b"\xff !#[]^{|~";
                with_another[place] = byte;
                let (alone, with_another) = (bytes(&with_another[1..]), bytes(&with_another));
                assert_eq!(format!("\\xff{alone}"), format!("{with_another}"));
                let quoted = format!("{with_another:?}").replacen("\\xff", "", 1);
                assert_eq!(format!("{alone:?}"), quoted);
            }
        }
    }

    #[test]
    fn json_is_plain_ascii_and_means_the_same() {
        let said = "größe \u{7f}\u{9b}31m \u{202e}\u{1f600}\n\t\0\"\\";
        let mut string = Vec::new();
        json(said, &mut string);
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

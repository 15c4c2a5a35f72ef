//! Reads JSON.

use std::str;

/// The rest of a document, without leading white space.
///
/// Each method returns `None` if the document does not have what is asked for, or is not valid up
/// to its end.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// The number of levels that may still be entered.
    levels: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader of a document, which may be surrounded by white space.
    pub(crate) fn new(document: &'a [u8]) -> Self {
        Self {
            rest: trim(document),
            levels: MAX_DEPTH,
        }
    }

    /// Returns whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the first octet of what is left.
    pub(crate) fn first(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Reads an object. `entry` reads the value of each key.
    pub(crate) fn object(
        &mut self,
        entry: &mut dyn FnMut(&mut Self, &str) -> Option<()>,
    ) -> Option<()> {
        self.parts(b'{', b'}', &mut |reader| {
            let key = reader.text()?;
            reader.skip(b':').then_some(())?;
            entry(reader, &key)
        })
    }

    /// Reads an array. `item` reads each value.
    pub(crate) fn array(&mut self, item: &mut dyn FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.parts(b'[', b']', item)
    }

    /// Reads any value, and drops it.
    #[cfg(test)]
    pub(crate) fn ignore(&mut self) -> Option<()> {
        match self.first()? {
            b'"' => self.text().map(drop),
            b'[' => self.array(&mut Self::ignore),
            b'{' => self.object(&mut |reader, _| reader.ignore()),
            _ => self.plain().map(drop),
        }
    }

    /// Reads a number or one of the words `true`, `false` and `null`.
    pub(crate) fn plain(&mut self) -> Option<&'a str> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let end = self.rest.iter().position(|byte| !is_part(byte));
        let (plain, behind) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let is_number = matches!(plain.first()?, b'-' | b'0'..=b'9')
            && plain.last()?.is_ascii_digit()
            && !plain.iter().any(|byte| !b"0123456789+-.eE".contains(byte));
        let is_known = is_number || [&b"true"[..], b"false", b"null"].contains(&plain);
        let plain = str::from_utf8(plain).ok().filter(|_| is_known)?;
        self.rest = trim(behind);
        Some(plain)
    }

    /// Reads a string.
    pub(crate) fn text(&mut self) -> Option<String> {
        let mut rest = self.rest.strip_prefix(b"\"")?;
        let mut text = String::new();
        loop {
            let len = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
            let (plain, behind) = rest.split_at(len);
            text.push_str(str::from_utf8(plain).ok()?);
            let (&first, behind) = behind.split_first()?;
            match first {
                b'"' => {
                    self.rest = trim(behind);
                    return Some(text);
                }
                b'\\' => {}
                _ => return None, // A control character has to be escaped.
            }
            let (&escaped, behind) = behind.split_first()?;
            rest = behind;
            text.push(match escaped {
                b'n' => '\n',
                b't' => '\t',
                b'r' => '\r',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'u' => unicode(&mut rest)?,
                b'"' | b'\\' | b'/' => escaped.into(),
                _ => return None,
            });
        }
    }

    /// Reads what is between two brackets, part by part.
    fn parts(
        &mut self,
        open: u8,
        close: u8,
        part: &mut dyn FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.levels = self.levels.checked_sub(1)?;
        self.skip(open).then_some(())?;
        if !self.skip(close) {
            loop {
                part(self)?;
                if self.skip(close) {
                    break;
                }
                self.skip(b',').then_some(())?;
            }
        }
        self.levels += 1;
        Some(())
    }

    /// Skips a character and the white space after it if the rest begins with it.
    fn skip(&mut self, byte: u8) -> bool {
        let behind = self.rest.strip_prefix(&[byte]);
        if let Some(behind) = behind {
            self.rest = trim(behind);
        }
        behind.is_some()
    }
}

/// Returns the rest after white space (RFC 8259 §2).
fn trim(rest: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let end = rest.iter().position(|byte| !is_space(byte));
    &rest[end.unwrap_or(rest.len())..]
}

/// Reads the digits after `\u`, and the second half of a pair after them.
fn unicode(rest: &mut &[u8]) -> Option<char> {
    let mut units = [unit(rest)?, 0];
    let mut count = 1;
    if (0xd800..0xdc00).contains(&units[0]) {
        *rest = rest.strip_prefix(b"\\u")?;
        units[1] = unit(rest)?;
        count = 2;
    }
    let units = units.into_iter().take(count);
    char::decode_utf16(units).next()?.ok()
}

/// Reads four hexadecimal digits.
fn unit(rest: &mut &[u8]) -> Option<u16> {
    let (digits, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    let are_digits = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = str::from_utf8(digits).ok().filter(|_| are_digits)?;
    u16::from_str_radix(digits, 16).ok()
}

/// The maximum depth of a document: those of this program have at most 6 levels.
const MAX_DEPTH: usize = 32;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns whether a document is valid.
    fn is_valid(document: &[u8]) -> bool {
        let mut reader = Reader::new(document);
        reader.ignore().is_some() && reader.is_at_end()
    }

    #[test]
    fn documents_are_valid_as_serde_json_has_it() {
        for document in [
            "{}",
            " [ 1 , -2.5e3 , true , null , \"a\\u00e9\\ud83d\\ude00\\n\" ] ",
            "{\"a\":{\"b\":[[],{}]},\"c\":\"\"}",
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\n\"",
            "[1] 2",
            "tru",
            "+1",
            "[\u{b}1]",
            "\"\u{7f}é\"",
        ] {
            let expected = serde_json::from_str::<Value>(document).is_ok();
            assert_eq!(is_valid(document.as_bytes()), expected, "{document:?}");
        }
        assert!(!is_valid(b"\"\xff\""));
    }

    #[test]
    fn texts_are_read_as_they_were_meant() {
        let said = "größe \u{7f}\u{202e}\u{1f600}\n\t\"\\/";
        let mut written = Vec::new();
        crate::json::Writer(&mut written).text(said);
        assert_eq!(Reader::new(&written).text().as_deref(), Some(said));
        let by_serde = serde_json::to_vec(said).expect("it is text");
        assert_eq!(Reader::new(&by_serde).text().as_deref(), Some(said));
    }

    #[test]
    fn a_document_may_be_so_deep_and_no_deeper() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_valid(nested(MAX_DEPTH).as_bytes()));
        assert!(!is_valid(nested(MAX_DEPTH + 1).as_bytes()));
        assert!(
            is_valid(b"[[],[],[]]"),
            "a level that was left may be entered again"
        );
    }
}

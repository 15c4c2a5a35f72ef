//! JSON, read and shown.
//!
//! Pure. What the daemon sends is kept as it is, in its order: a missing key, and one of another
//! type, is the empty text or list. What is shown is plain ASCII, so that a terminal can show it.

use std::ops::Index;

use crate::escape;
use crate::json::Reader;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Json {
    /// The value `null`, and that of a missing key.
    #[default]
    Null,
    Text(String),
    /// A number, `true` or `false`, as it was written.
    Plain(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Returns the value of a key, or an empty one.
impl Index<&str> for Json {
    type Output = Self;

    fn index(&self, key: &str) -> &Self {
        let found = self.entries().iter().find(|(name, _)| name == key);
        found.map_or(&Self::Null, |(_, value)| value)
    }
}

impl Json {
    /// Parses a document, which may be surrounded by white space.
    pub(super) fn parse(document: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(document);
        let value = read(&mut reader)?;
        reader.is_at_end().then_some(value)
    }

    /// Returns the text of a key, or the empty text.
    pub(super) fn text(&self, key: &str) -> &str {
        match &self[key] {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// Returns the number of a key, or 0.
    pub(super) fn number(&self, key: &str) -> u64 {
        match &self[key] {
            Self::Plain(plain) => plain.parse().unwrap_or_default(),
            _ => 0,
        }
    }

    /// Returns the elements of a key's list, or none.
    pub(super) fn items(&self, key: &str) -> &[Self] {
        match &self[key] {
            Self::List(all) => all,
            _ => &[],
        }
    }

    /// Returns the keys and values of an object, or none.
    pub(super) fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Object(entries) => entries,
            _ => &[],
        }
    }

    /// Appends a key to an object.
    pub(super) fn push(&mut self, key: &str, value: Self) {
        if let Self::Object(entries) = self {
            entries.push((key.to_owned(), value));
        }
    }

    /// Returns the value of a key, to change it.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Object(entries) = self else {
            return None;
        };
        let found = entries.iter_mut().find(|(name, _)| name == key);
        found.map(|(_, value)| value)
    }

    /// Returns a text, number or list of these, as people read it; `absent` if it is missing or
    /// empty.
    pub(super) fn shown(&self, absent: &str) -> String {
        let mut shown = String::new();
        match self {
            Self::Null => {}
            Self::Text(text) => shown = escape::text(text).to_string(),
            Self::Plain(plain) => shown.push_str(plain),
            Self::List(all) => {
                for value in all {
                    if !shown.is_empty() {
                        shown.push(',');
                    }
                    shown.push_str(&value.shown(absent));
                }
            }
            Self::Object(entries) if entries.is_empty() => {}
            Self::Object(_) => shown = self.line(),
        }
        if shown.is_empty() {
            shown.push_str(absent);
        }
        shown
    }

    /// Returns the value in one line.
    pub(super) fn line(&self) -> String {
        self.written(None)
    }

    /// Returns the value in indented lines, with a line end.
    pub(super) fn document(&self) -> String {
        self.written(Some(0)) + "\n"
    }

    fn written(&self, indent: Option<usize>) -> String {
        let mut text = Vec::new();
        self.push_to(&mut text, indent);
        String::from_utf8(text).unwrap_or_default() // ASCII is UTF-8.
    }

    /// Appends the value; each of its parts has a line of its own if an indentation is given.
    fn push_to(&self, text: &mut Vec<u8>, indent: Option<usize>) {
        let (brackets, count) = match self {
            Self::Null => return text.extend_from_slice(b"null"),
            Self::Text(string) => return escape::json_string(string, text),
            Self::Plain(plain) => return text.extend_from_slice(plain.as_bytes()),
            Self::List(all) => (b"[]", all.len()),
            Self::Object(entries) => (b"{}", entries.len()),
        };
        let inner = indent.map(|indent| indent + 1);
        text.push(brackets[0]);
        for at in 0..count {
            if at > 0 {
                text.push(b',');
            }
            push_line(text, inner);
            if let Self::List(all) = self {
                all[at].push_to(text, inner);
                continue;
            }
            let (key, value) = &self.entries()[at];
            escape::json_string(key, text);
            text.push(b':');
            if indent.is_some() {
                text.push(b' ');
            }
            value.push_to(text, inner);
        }
        if count > 0 {
            push_line(text, indent);
        }
        text.push(brackets[1]);
    }
}

/// Begins a line if lines are indented.
fn push_line(text: &mut Vec<u8>, indent: Option<usize>) {
    if let Some(indent) = indent {
        text.push(b'\n');
        text.resize(text.len() + 2 * indent, b' ');
    }
}

/// Reads a value.
fn read(reader: &mut Reader<'_>) -> Option<Json> {
    Some(match reader.first()? {
        b'"' => Json::Text(reader.text()?),
        b'[' => {
            let mut list = Vec::new();
            reader.array(&mut |reader| {
                list.push(read(reader)?);
                Some(())
            })?;
            Json::List(list)
        }
        b'{' => {
            let mut entries = Vec::new();
            reader.object(&mut |reader, key| {
                entries.push((key.to_owned(), read(reader)?));
                Some(())
            })?;
            Json::Object(entries)
        }
        _ => match reader.plain()? {
            "null" => Json::Null,
            plain => Json::Plain(plain.to_owned()),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(value: &Value) -> Json {
        Json::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_is_read_is_what_serde_json_reads() {
        for document in [
            r#" { "a" : [ 1 , -2.5e+3 , true , false , null , "x" ] , "b" : { } , "c" : [ ] } "#,
            r#""\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude00 é 😀""#,
            "\"\\u001b[2J\\u009b \u{202e}\"",
            "[[[[[[[[]]]]]]]]",
            "18446744073709551615",
            "\n{\"a\":\"\"}\n",
        ] {
            let expected: Value = serde_json::from_str(document).unwrap();
            let json = Json::parse(document.as_bytes()).unwrap();
            for shown in [json.line(), json.document()] {
                assert!(
                    shown
                        .bytes()
                        .all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
                );
                let again: Value = serde_json::from_str(&shown).unwrap();
                assert_eq!(again, expected, "{shown}");
                assert_eq!(Json::parse(shown.as_bytes()), Some(json.clone()));
            }
            assert_eq!(json.line().lines().count(), 1);
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let whole = r#"{"a":["b\u00e9",{"c":null}],"d":-1.5}"#;
        for at in 0..whole.len() {
            assert_eq!(Json::parse(&whole.as_bytes()[..at]), None, "cut at {at}");
        }
        let deep = "[".repeat(100_000);
        for wrong in [
            "<html>",
            "{} {}",
            "[1,]",
            "{\"a\":}",
            "{\"a\" 1}",
            "{1:2}",
            "[1 2]",
            "nul",
            "NaN",
            "-",
            "+1",
            "1.",
            "0x1",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "\"",
            "]",
            ",",
            "\u{feff}{}",
            &deep,
        ] {
            assert_eq!(Json::parse(wrong.as_bytes()), None, "{wrong:.20}");
        }
        assert_eq!(Json::parse(b"\"\xff\""), None);
    }

    #[test]
    fn documents_are_indented_and_keep_their_order() {
        let json = Json::parse(br#"{"b":[1,{}],"a":{"c":"\u00e9"},"d":[]}"#).unwrap();
        let expected = "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": {\n    \"c\": \"\\u00e9\"\n  },\n  \"d\": []\n}\n";
        assert_eq!(json.document(), expected);
        assert_eq!(json.line(), r#"{"b":[1,{}],"a":{"c":"\u00e9"},"d":[]}"#);
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_empty() {
        let value = parse(&json!({"text": 1, "number": "1", "items": {}}));
        for value in [&value, &parse(&Value::Null), &parse(&json!([1]))] {
            assert_eq!(value.text("text"), "");
            assert_eq!(value.number("number"), 0);
            assert!(value.items("items").is_empty());
        }
        assert_eq!(parse(&json!({"a": -1, "b": 1.5})).number("a"), 0);
    }

    #[test]
    fn values_are_shown_for_people() {
        for (value, expected) in [
            (json!("a\u{1b}[2J"), "a\\u{1b}[2J"),
            (json!(["1.0.0", "b\n"]), "1.0.0,b\\n"),
            (json!(812), "812"),
            (json!(true), "true"),
            (json!({"a": "\u{9b}"}), "{\"a\":\"\\u009b\"}"),
            (json!(""), "<none>"),
            (json!([]), "<none>"),
            (Value::Null, "<none>"),
        ] {
            assert_eq!(parse(&value).shown("<none>"), expected);
        }
        assert_eq!(Json::Null.shown("<none>"), "<none>");
    }
}

//! What the daemon has sent, as people read it, and JSON in plain ASCII, which a terminal can show.
//!
//! Pure. A missing key, and one of another type, is the empty text or list.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::{NONE, UNKNOWN};
use crate::escape;

/// Returns a text, or the empty one.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the elements of a list, or none.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text, number or list of these, as people read it; `absent` if it is missing or empty.
fn shown(value: &Value, absent: &str) -> String {
    let shown = match value {
        Value::String(text) => escape::text(text).to_string(),
        Value::Array(all) => {
            let all: Vec<String> = all.iter().map(|value| shown(value, absent)).collect();
            all.join(",")
        }
        Value::Object(entries) if entries.is_empty() => String::new(),
        Value::Null => String::new(),
        other => line(other),
    };
    if shown.is_empty() {
        return absent.to_owned();
    }
    shown
}

/// Returns a value as people read it, or `<none>`.
pub(super) fn plain(value: &Value) -> String {
    shown(value, NONE)
}

/// Returns a value as people read it, or `<unknown>`.
pub(super) fn known(value: &Value) -> String {
    shown(value, UNKNOWN)
}

/// Returns what `show` makes of a text, or `<none>`.
pub(super) fn mapped(value: &Value, show: impl FnOnce(&str) -> String) -> String {
    match text(value) {
        "" => NONE.to_owned(),
        text => show(text),
    }
}

/// Returns a text in which the daemon has escaped what comes from plugins, or `<none>`.
pub(super) fn composed(value: &Value) -> String {
    mapped(value, |text| escape::composed(text.as_bytes()))
}

/// Returns JSON in one line.
pub(super) fn line(value: &impl Serialize) -> String {
    ascii(&serde_json::to_string(value).unwrap_or_default())
}

/// Returns JSON in indented lines, with a line end.
pub(super) fn document(value: &impl Serialize) -> String {
    ascii(&serde_json::to_string_pretty(value).unwrap_or_default()) + "\n"
}

/// Escapes everything but plain ASCII, which in JSON is in texts only.
fn ascii(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, ' '..='~' | '\n') {
            plain.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(plain, "\\u{unit:04x}");
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_plain_ascii_and_means_the_same() {
        for document in [
            r#" { "b" : [ 1 , -2.5e+3 , true , false , null , "x" ] , "a" : { } , "c" : [ ] } "#,
            r#""\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude00 é 😀""#,
            "\"\\u001b[2J\\u009b \u{7f}\u{202e}\"",
            "18446744073709551615",
        ] {
            let value: Value = serde_json::from_str(document).unwrap();
            for shown in [line(&value), super::document(&value)] {
                let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n');
                assert!(shown.bytes().all(is_plain), "{shown}");
                assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
            }
            assert_eq!(line(&value).lines().count(), 1);
        }
        let value: Value = serde_json::from_str(r#"{"a":[1,{}],"b":{"c":"é"},"d":[]}"#).unwrap();
        let expected = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": \"\\u00e9\"\n  },\n  \"d\": []\n}\n";
        assert_eq!(document(&value), expected);
        assert_eq!(line(&value), r#"{"a":[1,{}],"b":{"c":"\u00e9"},"d":[]}"#);
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
            (json!({}), "<none>"),
            (Value::Null, "<none>"),
        ] {
            assert_eq!(plain(&value), expected);
        }
        assert_eq!(known(&json!("")), "<unknown>");
    }

    #[test]
    fn what_the_daemon_has_escaped_is_not_escaped_again() {
        let error = json!("no \"a\\\\b\\u{1b}\": \u{1b}\t");
        let expected = "no \"a\\\\b\\u{1b}\": \\u{1b}\\t";
        assert_eq!(composed(&error), expected);
        assert_eq!(plain(&json!("a\\b\u{1b}")), "a\\\\b\\u{1b}");
        assert_eq!(composed(&Value::Null), "<none>");
    }
}

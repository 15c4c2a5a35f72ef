//! The daemon's data as text for the terminal, and as JSON in plain ASCII, which is also safe on a
//! terminal.
//!
//! Records and events are kept as JSON values. A field that the daemon has left out is null.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::{slice, str};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::{Value, json};

use super::failure::{Failure, FailureKind, Result};
use super::{NONE, UNKNOWN};
use crate::escape;

/// The type and the name of a plugin, and a socket; each is empty if the daemon has left it out.
pub(super) type Keys<'a> = [&'a str; 3];

/// An object of which text fields are read.
pub(super) trait Fields {
    /// Returns a text field, or an empty text if the field is missing.
    fn text(&self, key: &str) -> &str;
}

impl Fields for Value {
    fn text(&self, key: &str) -> &str {
        self[key].as_str().unwrap_or_default()
    }
}

/// Returns the type, the name and the socket of a record.
pub(super) fn record_keys(record: &impl Fields) -> Keys<'_> {
    ["type", "name", "socket"].map(|key| record.text(key))
}

/// Returns the type, the name and the socket of an event.
pub(super) fn event_keys(event: &Value) -> Keys<'_> {
    let plugin = &event["plugin"];
    let [kind, name] = ["type", "name"].map(|key| plugin.text(key));
    [kind, name, event.text("socket")]
}

/// Returns the items of a list, or an error if the response is not a list.
pub(super) fn items(list: &mut Value) -> Result<&mut Vec<Value>> {
    list["items"].as_array_mut().ok_or_else(unexpected_response)
}

/// Parses a JSON object, which every JSON response of the daemon is.
pub(super) fn parse_object(bytes: &[u8]) -> Result<Value> {
    parse(bytes).map(Value::Object)
}

/// Parses JSON with a known structure.
pub(super) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    // An empty text is not JSON either.
    let text = str::from_utf8(bytes).unwrap_or_default();
    serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => unexpected_response(),
        _ => Failure::new(FailureKind::Failed, "the response is not JSON"),
    })
}

fn unexpected_response() -> Failure {
    Failure::new(
        FailureKind::Failed,
        "the response has an unexpected structure",
    )
}

/// Returns the plugin as `TYPE/NAME`, or the socket if the type is empty; both escaped.
pub(super) fn format_object([kind, name, socket]: Keys<'_>) -> Cow<'_, str> {
    match kind {
        "" => escape_or_none(socket),
        _ => format!("{}/{}", escape::text(kind), escape::text(name)).into(),
    }
}

/// Escapes a text for the terminal; returns `<none>` if it is empty.
pub(super) fn escape_or_none(text: &str) -> Cow<'_, str> {
    map_or_none(text, escape::escaped)
}

/// Escapes a text field for the terminal; returns `<unknown>` if it is empty or missing.
pub(super) fn escape_or_unknown<'a>(object: &'a impl Fields, key: &str) -> Cow<'a, str> {
    match object.text(key) {
        "" => UNKNOWN.into(),
        text => escape_or_none(text),
    }
}

/// Returns a text, or several texts joined with semicolons, or `<none>`. The daemon has already
/// escaped the texts of plugins, so backslashes are not doubled again.
pub(super) fn join_or_none(value: &Value) -> Cow<'_, str> {
    let texts = match value {
        Value::Array(all) => &all[..],
        value => slice::from_ref(value),
    };
    let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
    match &*texts.join("; ") {
        "" => NONE.into(),
        text => escape::composed_text(text.as_bytes()).into(),
    }
}

/// Applies `show` to a text; returns `<none>` if it is empty.
pub(super) fn map_or_none<'a, T: Into<Cow<'a, str>>>(
    text: &'a str,
    show: impl FnOnce(&'a str) -> T,
) -> Cow<'a, str> {
    match text {
        "" => NONE.into(),
        text => show(text).into(),
    }
}

/// Formats a value for a table: a list is joined with commas, an object is a line of JSON, and null
/// or an empty value is `<none>`.
pub(super) fn format_value(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => escape_or_none(text),
        Value::Array(all) if !all.is_empty() => {
            let all: Vec<_> = all.iter().map(format_value).collect();
            all.join(",").into()
        }
        Value::Object(entries) if !entries.is_empty() => to_json_line(entries).into(),
        Value::Bool(_) | Value::Number(_) => value.to_string().into(),
        Value::Null | Value::Array(_) | Value::Object(_) => NONE.into(),
    }
}

/// Returns JSON in one line, with sorted keys.
pub(super) fn to_json_line(value: &impl Serialize) -> String {
    escape_non_ascii(&json!(value).to_string())
}

/// Returns JSON in indented lines, with sorted keys and a line end.
pub(super) fn to_json_document(value: &impl Serialize) -> String {
    escape_non_ascii(&format!("{:#}\n", json!(value)))
}

/// Escapes all characters but printable ASCII and line ends as in a JSON string. `json` was written
/// by `serde_json`, so that only its strings contain such characters.
pub(super) fn escape_non_ascii(json: &str) -> String {
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
            for shown in [to_json_line(&value), to_json_document(&value)] {
                let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n');
                assert!(shown.bytes().all(is_plain), "{shown}");
                assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
            }
            assert_eq!(to_json_line(&value).lines().count(), 1);
        }
        let value: Value = serde_json::from_str(r#"{"a":[1,{}],"b":{"c":"é"},"d":[]}"#).unwrap();
        let expected = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": \"\\u00e9\"\n  },\n  \"d\": []\n}\n";
        assert_eq!(to_json_document(&value), expected);
        assert_eq!(
            to_json_line(&value),
            r#"{"a":[1,{}],"b":{"c":"\u00e9"},"d":[]}"#
        );
    }

    #[test]
    fn values_are_formatted_for_the_terminal() {
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
            assert_eq!(format_value(&value), expected);
        }
        assert_eq!(escape_or_unknown(&json!({}), "a"), "<unknown>");
    }

    #[test]
    fn what_the_daemon_has_escaped_is_not_escaped_again() {
        let error = "no \"a\\\\b\\u{1b}\": \u{1b}\t";
        let expected = "no \"a\\\\b\\u{1b}\": \\u{1b}\\t";
        assert_eq!(join_or_none(&json!(error)), expected);
        assert_eq!(escape_or_none("a\\b\u{1b}"), "a\\\\b\\u{1b}");
        assert_eq!(join_or_none(&json!("")), "<none>");
        assert_eq!(join_or_none(&json!(["a", "b"])), "a; b");
    }
}

//! The daemon's data as text for the terminal, and as JSON in plain ASCII, which is safe there,
//! too.
//!
//! Records and events stay JSON. A fact that the daemon has left out is null.

use std::fmt::Write as _;
use std::slice;

use serde::Serialize;
use serde_json::{Value, json};

use super::failure::{Failure, Kind, Result};
use super::{NONE, UNKNOWN};
use crate::escape;

/// The type and the name of a plugin, which may be empty, and a socket.
pub(super) type Keys<'a> = [&'a str; 3];

/// Returns a text of an object, or an empty one if it is missing.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// Returns the plugin and the socket of a record.
pub(super) fn keys(record: &Value) -> Keys<'_> {
    ["type", "name", "socket"].map(|key| text(record, key))
}

/// Returns the plugin and the socket of an event.
pub(super) fn event_keys(event: &Value) -> Keys<'_> {
    let plugin = &event["plugin"];
    [
        text(plugin, "type"),
        text(plugin, "name"),
        text(event, "socket"),
    ]
}

/// Returns the items of a list.
pub(super) fn items(list: &mut Value) -> Result<&mut Vec<Value>> {
    list["items"].as_array_mut().ok_or_else(unexpected)
}

/// Parses JSON of the daemon, which always sends objects.
pub(super) fn parse(bytes: &[u8]) -> Result<Value> {
    match serde_json::from_slice(bytes) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(unexpected()),
        Err(_) => Err(Failure::new(Kind::Failed, "the response is not JSON")),
    }
}

fn unexpected() -> Failure {
    Failure::new(Kind::Failed, "the response is not what was asked for")
}

/// Returns the plugin as the commands accept it, or else the socket.
pub(super) fn object([kind, name, socket]: Keys<'_>) -> String {
    match kind {
        "" => or_none(socket),
        _ => format!("{}/{}", escape::text(kind), escape::text(name)),
    }
}

/// Escapes a text for the terminal; `<none>` if it is empty.
pub(super) fn or_none(text: &str) -> String {
    map_or_none(text, |text| escape::text(text).to_string())
}

/// Escapes a text for the terminal; `<unknown>` if it is empty.
pub(super) fn or_unknown(value: &Value) -> String {
    match value.as_str().unwrap_or_default() {
        "" => UNKNOWN.to_owned(),
        text => or_none(text),
    }
}

/// Returns a text, or several joined, or `<none>`. The daemon has escaped what comes from plugins,
/// so that is not escaped again.
pub(super) fn escaped_or_none(value: &Value) -> String {
    let texts = match value {
        Value::Array(all) => &all[..],
        value => slice::from_ref(value),
    };
    let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
    map_or_none(&texts.join("; "), |text| escape::composed(text.as_bytes()))
}

/// Applies `show` to a text; `<none>` if it is empty.
pub(super) fn map_or_none(text: &str, show: impl FnOnce(&str) -> String) -> String {
    match text {
        "" => NONE.to_owned(),
        text => show(text),
    }
}

/// Formats a value for a table: a list joined with commas, an object as a line of JSON; `<none>` if
/// it is null or empty.
pub(super) fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => or_none(text),
        Value::Array(all) if !all.is_empty() => {
            all.iter().map(format_value).collect::<Vec<_>>().join(",")
        }
        Value::Object(entries) if !entries.is_empty() => line(entries),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => NONE.to_owned(),
    }
}

/// Returns JSON in one line, with sorted keys.
pub(super) fn line(value: &impl Serialize) -> String {
    ascii(&json!(value).to_string())
}

/// Returns JSON in indented lines, with sorted keys and a line end.
pub(super) fn document(value: &impl Serialize) -> String {
    ascii(&format!("{:#}\n", json!(value)))
}

/// Escapes everything but plain ASCII; in JSON, only texts contain other characters.
pub(super) fn ascii(json: &str) -> String {
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
        assert_eq!(or_unknown(&json!("")), "<unknown>");
    }

    #[test]
    fn what_the_daemon_has_escaped_is_not_escaped_again() {
        let error = "no \"a\\\\b\\u{1b}\": \u{1b}\t";
        let expected = "no \"a\\\\b\\u{1b}\": \\u{1b}\\t";
        assert_eq!(escaped_or_none(&json!(error)), expected);
        assert_eq!(or_none("a\\b\u{1b}"), "a\\\\b\\u{1b}");
        assert_eq!(escaped_or_none(&json!("")), "<none>");
        assert_eq!(escaped_or_none(&json!(["a", "b"])), "a; b");
    }
}

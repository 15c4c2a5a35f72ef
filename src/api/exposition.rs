//! The text format of Prometheus, version 0.0.4.
//!
//! Pure.

use std::io::Write as _;
use std::time::Duration;

use super::histogram::Histogram;
use crate::escape;

/// A metric: its name, its type and what it means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
}

/// A label. One with an empty name is left out.
pub(super) type Label<'a> = (&'a str, &'a [u8]);

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Number(u64),
    Seconds(Duration),
}

/// The number of series of a histogram with one set of labels.
pub(super) const HISTOGRAM_SERIES: usize = Histogram::BUCKETS + 2;

/// Appends the lines that precede the samples of a metric.
pub(super) fn head(out: &mut Vec<u8>, family: &Family) {
    let Family { name, kind, help } = family;
    for part in [
        "# HELP ",
        name,
        " ",
        help,
        "\n# TYPE ",
        name,
        " ",
        kind,
        "\n",
    ] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends a sample of a metric without labels, with the lines that precede it.
pub(super) fn single(out: &mut Vec<u8>, family: &Family, value: Value) {
    head(out, family);
    sample(out, family, "", &[], value);
}

/// Appends a sample. `suffix` is appended to the name of the metric.
pub(super) fn sample(
    out: &mut Vec<u8>,
    family: &Family,
    suffix: &str,
    labels: &[Label<'_>],
    value: Value,
) {
    out.extend_from_slice(family.name.as_bytes());
    out.extend_from_slice(suffix.as_bytes());
    let mut separator = b'{';
    for (name, text) in labels.iter().filter(|(name, _)| !name.is_empty()) {
        out.push(separator);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"=\"");
        label_value(out, text);
        out.push(b'"');
        separator = b',';
    }
    out.extend_from_slice(if separator == b',' { b"} " } else { b" " });
    // Writing to a vector cannot fail.
    let _ = match value {
        Value::Number(number) => writeln!(out, "{number}"),
        Value::Seconds(time) => writeln!(out, "{}.{:09}", time.as_secs(), time.subsec_nanos()),
    };
}

/// Appends the samples of a histogram with at most two labels.
pub(super) fn histogram(
    out: &mut Vec<u8>,
    family: &Family,
    labels: [Label<'_>; 2],
    histogram: &Histogram,
) {
    let [first, second] = labels;
    for (bound, count) in histogram.buckets() {
        let labels = [first, second, ("le", bound.as_bytes())];
        sample(out, family, "_bucket", &labels, Value::Number(count));
    }
    let sum = Value::Seconds(histogram.sum());
    sample(out, family, "_sum", &labels, sum);
    let count = Value::Number(histogram.count());
    sample(out, family, "_count", &labels, count);
}

/// Appends the value of a label: "label_value can be any sequence of UTF-8 characters, but the
/// backslash (`\`), double-quote (`"`), and line feed (`\n`) characters have to be escaped".
///
/// A value that is not UTF-8, or that could mislead a terminal, is shown with these octets as
/// `\xNN`, and then with doubled backslashes, as is every value that contains `\x`. So no two
/// values are shown alike.
fn label_value(out: &mut Vec<u8>, value: &[u8]) {
    if escape::is_plain(value) {
        return out.extend_from_slice(value);
    }
    let is_exact = std::str::from_utf8(value).is_ok_and(|text| {
        let may_stay = |c: char| matches!(c, '\\' | '\n') || !escape::needs_escape(c);
        text.chars().all(may_stay) && !text.contains("\\x")
    });
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut octets = [0; 4];
            let octets = c.encode_utf8(&mut octets).as_bytes();
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' if is_exact => out.extend_from_slice(b"\\\\"),
                '\\' => out.extend_from_slice(b"\\\\\\\\"),
                '\n' if is_exact => out.extend_from_slice(b"\\n"),
                c if escape::needs_escape(c) => show_octets(out, octets),
                _ => out.extend_from_slice(octets),
            }
        }
        show_octets(out, chunk.invalid());
    }
}

fn show_octets(out: &mut Vec<u8>, octets: &[u8]) {
    for octet in octets {
        let _ = write!(out, "\\\\x{octet:02x}"); // Writing to a vector cannot fail.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &[u8]) -> String {
        let mut out = Vec::new();
        label_value(&mut out, value);
        String::from_utf8(out).expect("it is UTF-8 whatever the value is")
    }

    #[test]
    fn a_label_is_escaped_as_the_format_wants() {
        assert_eq!(shown(b"/r/a.sock"), "/r/a.sock");
        assert_eq!(shown("größe 大".as_bytes()), "größe 大");
        assert_eq!(shown(b"a\"b"), "a\\\"b");
        assert_eq!(shown(b"a\\b"), "a\\\\b");
        assert_eq!(shown(b"a\nb"), "a\\nb");
    }

    #[test]
    fn what_is_not_text_is_visible_and_no_two_values_are_shown_alike() {
        let rows: [(&[u8], &str); 8] = [
            (b"a\xff", "a\\\\xff"),
            (b"a\\xff", "a\\\\\\\\xff"),
            (b"\\a\xff", "\\\\\\\\a\\\\xff"),
            (b"a\x1b[2J", "a\\\\x1b[2J"),
            (b"a\\x1b[2J", "a\\\\\\\\x1b[2J"),
            (b"a\n\x1b", "a\\\\x0a\\\\x1b"),
            ("a\u{202e}".as_bytes(), "a\\\\xe2\\\\x80\\\\xae"),
            (b"a\\\"\xff", "a\\\\\\\\\\\"\\\\xff"),
        ];
        for (value, text) in rows {
            assert_eq!(shown(value), text);
        }
    }

    #[test]
    fn a_sample_has_its_labels_and_its_value() {
        let family = Family {
            name: "a_seconds",
            kind: "gauge",
            help: "A.",
        };
        let mut out = Vec::new();
        single(&mut out, &family, Value::Number(u64::MAX));
        let labels: [Label<'_>; 3] = [("b", b"1"), ("", b"2"), ("c", b"")];
        let value = Value::Seconds(Duration::from_micros(1_000_100));
        sample(&mut out, &family, "_sum", &labels, value);
        let text = String::from_utf8(out).expect("it is text");
        assert_eq!(
            text,
            "# HELP a_seconds A.\n# TYPE a_seconds gauge\na_seconds 18446744073709551615\n\
             a_seconds_sum{b=\"1\",c=\"\"} 1.000100000\n"
        );
    }
}

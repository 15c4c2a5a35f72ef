//! The text format of Prometheus, version 0.0.4.

use std::fmt::{self, Display};
use std::io::Write as _;
use std::time::Duration;

use super::counters::Histogram;
use crate::escape;

/// A label: its name and its value.
pub(super) type Label<'a> = (&'a str, &'a [u8]);

/// The samples of metrics, as text.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) text: Vec<u8>,
    /// The name of the current metric.
    name: &'static str,
}

/// A duration as the value of a sample.
pub(super) struct Seconds(pub(super) Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0.as_secs(), self.0.subsec_nanos())
    }
}

impl Samples {
    /// Appends the HELP and TYPE lines of a metric, whose samples follow.
    pub(super) fn begin_metric(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Appends a sample of the current metric.
    pub(super) fn add(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.add_with_suffix("", labels, value);
    }

    /// Appends the samples of a histogram with these labels.
    pub(super) fn add_histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram) {
        for (bound, count) in histogram.buckets() {
            let labels = [labels, &[("le", bound.as_bytes())]].concat();
            self.add_with_suffix("_bucket", &labels, count);
        }
        self.add_with_suffix("_sum", labels, Seconds(histogram.sum()));
        self.add_with_suffix("_count", labels, histogram.count());
    }

    /// Appends a sample whose name is that of the current metric, followed by `suffix`.
    fn add_with_suffix(&mut self, suffix: &str, labels: &[Label<'_>], value: impl Display) {
        for part in [self.name, suffix] {
            self.text.extend_from_slice(part.as_bytes());
        }
        let mut separator = b'{';
        for (name, text) in labels {
            self.text.push(separator);
            self.text.extend_from_slice(name.as_bytes());
            self.text.extend_from_slice(b"=\"");
            write_label_value(&mut self.text, text);
            self.text.push(b'"');
            separator = b',';
        }
        if !labels.is_empty() {
            self.text.push(b'}');
        }
        self.write(format_args!(" {value}\n"));
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(text); // Writing to a vector cannot fail.
    }
}

/// Appends the value of a label: "label_value can be any sequence of UTF-8 characters, but the
/// backslash (`\`), double-quote (`"`), and line feed (`\n`) characters have to be escaped".
///
/// Octets that are not UTF-8, or could mislead a terminal, are first escaped as in the log, and the
/// backslashes of these escapes are doubled. So two different values never look the same.
fn write_label_value(out: &mut Vec<u8>, value: &[u8]) {
    if escape::is_plain(value) {
        return out.extend_from_slice(value);
    }
    let shown = escape::bytes(value).at_most(usize::MAX).to_string();
    let shown = shown.replace('\\', r"\\").replace('"', "\\\"");
    out.extend_from_slice(shown.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escape_label(value: &[u8]) -> String {
        let mut out = Vec::new();
        write_label_value(&mut out, value);
        String::from_utf8(out).expect("UTF-8, whatever the value is")
    }

    #[test]
    fn a_label_is_escaped_as_the_format_requires() {
        assert_eq!(escape_label(b"/r/a.sock"), "/r/a.sock");
        assert_eq!(escape_label("größe 大".as_bytes()), "größe 大");
        assert_eq!(escape_label(b"a\"b"), "a\\\"b");
    }

    #[test]
    fn a_label_that_is_not_text_is_escaped_visibly() {
        let rows: [(&[u8], &str); 8] = [
            (b"a\xff", "a\\\\xff"),
            (b"a\\xff", "a\\\\\\\\xff"),
            (b"\\a\xff", "\\\\\\\\a\\\\xff"),
            (b"a\x1b[2J", "a\\\\u{1b}[2J"),
            (b"a\\x1b[2J", "a\\\\\\\\x1b[2J"),
            (b"a\n\x1b", "a\\\\n\\\\u{1b}"),
            ("a\u{202e}".as_bytes(), "a\\\\u{202e}"),
            (b"a\\\"\xff", "a\\\\\\\\\\\"\\\\xff"),
        ];
        for (value, text) in rows {
            assert_eq!(escape_label(value), text);
        }
    }

    #[test]
    fn a_sample_has_its_labels_and_its_value() {
        let mut samples = Samples::default();
        samples.begin_metric("a_seconds", "gauge", "A.");
        samples.add(&[], u64::MAX);
        let value = Seconds(Duration::from_micros(1_000_100));
        samples.add(&[("b", b"1"), ("c", b"")], value);
        let text = String::from_utf8(samples.text).expect("the samples are text");
        assert_eq!(
            text,
            "# HELP a_seconds A.\n# TYPE a_seconds gauge\na_seconds 18446744073709551615\n\
             a_seconds{b=\"1\",c=\"\"} 1.000100000\n"
        );
    }
}

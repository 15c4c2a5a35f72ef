//! A strict parser of the text format of Prometheus, version 0.0.4.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What was scraped: the samples by name and labels, and the type of each metric.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    /// In billionths, so that they are compared exactly.
    samples: BTreeMap<(String, Labels), u128>,
    types: BTreeMap<String, String>,
}

type Labels = BTreeMap<String, String>;

impl Exposition {
    /// Parses a response, and checks all that the format demands.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = std::str::from_utf8(text).expect("it is UTF-8");
        assert!(text.ends_with('\n'), "the last line is complete");
        let mut parsed = Self::default();
        let mut helped = BTreeSet::new();
        let mut current = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect(line);
                assert!(is_metric_name(name) && !help.is_empty(), "{line}");
                assert!(helped.insert(name.to_owned()), "{line}: again");
                name.clone_into(&mut current);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect(line);
                assert_eq!(name, current, "its help precedes it");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let before = parsed.types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(before, None, "{line}: again");
            } else {
                parsed.sample(line, &current);
            }
        }
        assert!(parsed.types.keys().eq(&helped), "each has help and a type");
        parsed
    }

    fn sample(&mut self, line: &str, family: &str) {
        let name_end = line.find(['{', ' ']).expect(line);
        let (name, rest) = line.split_at(name_end);
        assert!(is_metric_name(name), "{line}");
        let kind = self.types.get(family).map(String::as_str).expect(line);
        let suffix = name.strip_prefix(family).expect(line);
        match kind {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            "counter" => assert!(suffix.is_empty() && name.ends_with("_total"), "{line}"),
            _ => assert!(suffix.is_empty() && !name.ends_with("_total"), "{line}"),
        }
        let (labels, value) = labels(rest, line);
        assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{line}");
        let value = value.strip_prefix(' ').expect(line);
        let value = billionths(value).expect(line);
        let before = self.samples.insert((name.to_owned(), labels), value);
        assert_eq!(before, None, "{line}: again");
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Labels, u128)> {
        let samples = self.samples.iter().filter(move |((it, _), _)| it == name);
        samples.map(|((_, labels), value)| (labels, *value))
    }

    /// Returns the labels of all samples of that name.
    pub(crate) fn labels<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Labels> {
        self.all(name).map(|(labels, _)| labels)
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<u128> {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let key = (name.to_owned(), labels.collect());
        self.samples.get(&key).copied()
    }

    /// Returns the value of the sample with exactly these labels, which is a whole number.
    pub(crate) fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        self.value(name, labels).map(whole)
    }

    /// Returns the value of the sample with exactly these labels, in seconds.
    pub(crate) fn seconds(&self, name: &str, labels: &[(&str, &str)]) -> Option<Duration> {
        let nanos = u64::try_from(self.value(name, labels)?);
        Some(Duration::from_nanos(nanos.expect("it is not too long")))
    }

    /// Returns the sum of the samples of that name that have these labels among others.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let has = |all: &Labels| labels.iter().all(|(name, value)| all[*name] == *value);
        let all = self.all(name).filter(|(labels, _)| has(labels));
        all.map(|(_, value)| whole(value)).sum()
    }

    /// Returns the number of series.
    pub(crate) fn series(&self) -> usize {
        self.samples.len()
    }

    /// Returns the type of a metric.
    pub(crate) fn kind(&self, name: &str) -> &str {
        &self.types[name]
    }

    /// Returns the names of all metrics.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }
}

/// Parses the labels at the beginning of `text`. Returns them, and what follows.
fn labels<'a>(text: &'a str, line: &str) -> (Labels, &'a str) {
    let mut labels = Labels::new();
    let Some(mut text) = text.strip_prefix('{') else {
        return (labels, text);
    };
    loop {
        let (name, rest) = text.split_once("=\"").expect(line);
        assert!(is_label_name(name), "{line}");
        let mut value = String::new();
        let mut chars = rest.chars();
        loop {
            match chars.next().expect(line) {
                '"' => break,
                '\\' => value.push(match chars.next() {
                    Some('n') => '\n',
                    Some(c @ ('\\' | '"')) => c,
                    other => panic!("{line}: \\{other:?}"),
                }),
                c => value.push(c),
            }
        }
        let before = labels.insert(name.to_owned(), value);
        assert_eq!(before, None, "{line}: {name} occurs twice");
        let rest = chars.as_str();
        match rest.strip_prefix(',') {
            Some(rest) => text = rest,
            None => return (labels, rest.strip_prefix('}').expect(line)),
        }
    }
}

/// Returns the billionths of a decimal number that is not negative.
fn billionths(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let fits = is_number(whole) && is_number(fraction) && fraction.len() <= 9;
    let fraction: u128 = format!("{fraction:0<9}").parse().ok()?;
    let whole: u128 = whole.parse().ok()?;
    fits.then_some(whole * BILLION + fraction)
}

fn whole(billionths: u128) -> u64 {
    assert_eq!(billionths % BILLION, 0, "it is a whole number");
    u64::try_from(billionths / BILLION).expect("it is not too large")
}

const BILLION: u128 = 1_000_000_000;

fn is_metric_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.chars().all(is_part) && name.starts_with(|c: char| is_part(c) && !c.is_ascii_digit())
}

fn is_label_name(name: &str) -> bool {
    is_metric_name(name) && !name.contains(':') && !name.starts_with("__")
}

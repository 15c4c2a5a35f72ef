//! The log and its catalogue agree: every line at level info and above, and every event, has an
//! entry in the guide, and every entry is a line that exists.

use std::path::Path;

use super::assert_none;
use super::manual::catalogue::{Item, items};
use super::source::{Source, literals};

/// A line of the log, or a part of one that operators see.
struct Line {
    /// Where it is in the source: `src/daemon/service/run.rs:77`.
    place: String,
    /// The words, with `{}` for each value.
    words: String,
    /// The level, and the reason of an event, if the source has them beside the words.
    note: Option<String>,
}

#[test]
fn every_line_of_the_log_is_in_the_catalogue() {
    let entries = entries();
    let mut found = Vec::new();
    for Line { place, words, note } in lines() {
        let same = entries.iter().filter(|entry| entry.0 == words);
        let notes: Vec<&String> = same.map(|(_, note)| note).collect();
        if notes.is_empty() {
            found.push(format!("{place}: no entry in {CATALOGUE}: `{words}`"));
        } else if let Some(note) = note.filter(|note| !notes.contains(&note)) {
            found.push(format!(
                "{place}: {notes:?} in {CATALOGUE}, not ({note}): `{words}`"
            ));
        }
    }
    assert_none("a line of the log and its catalogue differ", &found);
}

#[test]
fn every_entry_of_the_catalogue_is_a_line_of_the_log() {
    let lines = lines();
    assert!(lines.len() > 80, "{} lines were found", lines.len());
    let mut found = Vec::new();
    for (words, _) in entries() {
        if !lines.iter().any(|line| line.words == words) {
            found.push(format!("{CATALOGUE}: `{words}` is not logged anywhere"));
        }
    }
    assert_none(
        "the catalogue has an entry without a line of the log",
        &found,
    );
}

#[test]
fn every_kind_of_event_is_named_in_the_catalogue() {
    let entries = entries();
    let mut found = Vec::new();
    for path in REASONS {
        let text = source(path).text;
        let begin = if path == EVENT {
            "fn reason_and_level("
        } else {
            "fn reason("
        };
        let reasons = between(&text, begin, "\n    }\n").expect("the reasons");
        for (_, reason) in literals(reasons) {
            let mut words = entries.iter().flat_map(|(_, note)| note.split([' ', ',']));
            if !words.any(|word| word == reason) {
                found.push(format!("{path}: {reason}"));
            }
        }
    }
    assert_none("the reason of an event is not in the catalogue", &found);
}

#[test]
fn a_computed_level_is_logged_only_where_the_catalogue_looks() {
    let mut found = Vec::new();
    for file in logging() {
        let is_known = TEXTS.iter().any(|(path, ..)| file.path == *path);
        if file.shipped().contains("log::log!(") && !is_known && file.path != REPORT {
            found.push(file.path);
        }
    }
    assert_none("a line is logged that the catalogue cannot find", &found);
}

/// Returns the entries of the catalogue: the words, and the note behind them.
fn entries() -> Vec<(String, String)> {
    let entries = items().into_iter().filter_map(|item| match item {
        Item::Line { words, note, .. } => Some((normal(&words), note)),
        _ => None,
    });
    entries.collect()
}

/// Returns all lines that the catalogue has to explain.
fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for file in logging() {
        let code = file.shipped();
        for (number, words, level) in macros(&file.text, &code) {
            lines.push(Line {
                place: format!("{}:{number}", file.path),
                words,
                note: Some(level.to_owned()),
            });
        }
        if file.layer() == "handler" {
            lines.extend(reported(&file));
        }
    }
    for (path, begin, end) in TEXTS {
        let file = source(path);
        let region = between(&file.text, begin, end);
        let region = region.unwrap_or_else(|| panic!("{path}: {begin:?} to {end:?} is not in it"));
        let start = file.text.find(region).expect("a part of the file");
        for (at, literal) in literals(region) {
            let words = normal(plain(literal).trim());
            let is_beginning = words.starts_with(|c: char| c == '{' || c.is_ascii_alphabetic());
            let is_sentence = words.contains(' ') && words.contains(char::is_alphabetic);
            if is_beginning && is_sentence {
                lines.push(Line {
                    place: format!("{path}:{}", line_of(&file.text, start + at)),
                    words,
                    note: None,
                });
            }
        }
    }
    lines
}

/// Returns the files that log lines or report events.
fn logging() -> impl Iterator<Item = Source> {
    let logs = |file: &Source| {
        let mut signs = ["log::", ".emit(", UNUSABLE].iter();
        signs.any(|sign| file.code.contains(sign))
    };
    Source::all_shipped().into_iter().filter(logs)
}

/// Returns the lines that a file logs by macros at these levels, and those with which a start
/// fails: the number of the line in the file, the words, and the level.
fn macros(text: &str, code: &str) -> impl Iterator<Item = (usize, String, &'static str)> {
    let mut found = Vec::new();
    let levels = ["info", "warn", "error"].map(|level| (format!("log::{level}!("), level));
    let fatal = [(UNUSABLE.to_owned(), "exit status 1")];
    for (sign, level) in levels.into_iter().chain(fatal) {
        for (at, name) in code.match_indices(&sign) {
            let words = literals(&text[at + name.len()..]).next();
            let words = words.map_or_else(String::new, |(_, words)| normal(&plain(words)));
            found.push((line_of(text, at), words, level));
        }
    }
    found.sort_unstable();
    found.into_iter()
}

/// The beginning of the text of a start that fails.
const UNUSABLE: &str = "Unusable(format!(";

/// Returns the events that a handler reports. Each has its words in the variable `message`, which
/// is set before.
fn reported(file: &Source) -> Vec<Line> {
    let code = file.shipped();
    let mut lines = Vec::new();
    for (at, _) in code.match_indices(".emit(") {
        let call = &code[at..at + code[at..].find(')').unwrap_or_default()];
        let level = match (call.contains("::Normal"), call.contains("::Warning")) {
            (true, false) => "info",
            (false, true) => "warn",
            _ => continue,
        };
        let reason = literals(&file.text[at..at + call.len()]).next();
        let reason = reason.map_or("", |(_, reason)| reason);
        let before = code[..at].rmatch_indices("let message =");
        let mut literal = before.filter_map(|(before, _)| literals(&file.text[before..at]).next());
        let words = literal
            .next()
            .map_or_else(String::new, |(_, words)| normal(&plain(words)));
        lines.push(Line {
            place: format!("{}:{}", file.path, line_of(&file.text, at)),
            words,
            note: Some(format!("{level}, {reason}")),
        });
    }
    lines
}

/// Returns the text of a literal.
fn plain(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let first = parts.next().unwrap_or_default();
    let text = parts.fold(first.to_owned(), |text, part| text + part.trim_start());
    text.replace("\\\"", "\"")
        .replace("{{", "{")
        .replace("}}", "}")
}

/// Returns words with `{}` for each value, whatever its name.
fn normal(words: &str) -> String {
    let mut parts = words.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("{}");
        text.push_str(part.split_once('}').map_or(part, |(_, rest)| rest));
    }
    text
}

/// Returns the part of a text between two others.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(end).map(|(part, _)| part)
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn source(path: &str) -> Source {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Source::read(root, &root.join(path))
}

/// The module that explains the lines.
const CATALOGUE: &str = "src/guide/log.rs";

const EVENT: &str = "src/manager/event.rs";

/// The modules that give events their reasons.
const REASONS: [&str; 3] = [EVENT, "src/manager/failure.rs", "src/watch/output.rs"];

const RELOAD: &str = "src/daemon/service/reload.rs";

/// The module that logs the reports of the watch.
const REPORT: &str = "src/daemon/event_loop/report.rs";

/// Texts that are logged as values: the file, and what is before and behind them.
const TEXTS: [(&str, &str, &str); 10] = [
    (RELOAD, "nothing has changed\");", "let event"),
    (RELOAD, "const REJECTED: &str", "\n\n"),
    ("src/daemon/mod.rs", "pub enum SetupError {", "\n}\n"),
    (EVENT, "const MISSING: &str", "\n\n"),
    (EVENT, "impl fmt::Display for Message", "\n}\n"),
    ("src/manager/failure.rs", "pub enum Failure {", "\n}\n"),
    ("src/manager/failure.rs", "fn driver_failure", "\n}\n"),
    ("src/watch/output.rs", "pub fn message(&self)", "\n}\n"),
    ("src/watch/problem.rs", "pub enum Problem {", "\n}\n"),
    (
        "src/daemon/log/mod.rs",
        "    fn report_suppressed(",
        "\n}\n",
    ),
];

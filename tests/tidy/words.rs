//! Comments are in plain words: what may not come back of those that were replaced.

use super::source::Source;
use super::{all, assert_none, is_generated};

#[test]
fn comments_name_roles_and_negate_verbs() {
    let mut found = Vec::new();
    for file in checked() {
        for (number, comment) in comments(&file) {
            for words in foreign(comment) {
                found.push(format!("{}:{number}: {words}", file.path));
            }
        }
    }
    assert_none("a comment names people, or negates a noun", &found);
}

#[test]
fn the_documentation_of_a_function_opens_with_a_verb() {
    let mut found = Vec::new();
    for file in checked() {
        for doc in openings(&file.text).filter(|doc| !opens_with_verb(doc)) {
            found.push(format!("{}: {doc}", file.path));
        }
    }
    assert_none(
        "the documentation of a function does not open with a verb",
        &found,
    );
}

/// Returns the files whose comments are checked.
fn checked() -> impl Iterator<Item = Source> {
    all().into_iter().filter(|file| !is_generated(file))
}

/// Returns the comments of a file, with their line numbers.
fn comments(file: &Source) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(file.text.lines());
    lines.filter_map(|(number, line)| Some((number, line.split_once("//")?.1)))
}

/// Returns the words of a comment that may not return.
fn foreign(comment: &str) -> Vec<String> {
    let words: Vec<String> = comment
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let people = words.iter().filter(|word| PEOPLE.contains(&&***word));
    let mut found: Vec<String> = people.cloned().collect();
    for (at, pair) in words.windows(2).enumerate() {
        let is_after_there = at > 0 && words[at - 1] == "there";
        let is_foreign = match [&*pair[0], &*pair[1]] {
            ["is" | "are", "no"] => !is_after_there,
            ["no" | "any", "longer"] => true,
            _ => false,
        };
        if is_foreign {
            found.push(pair.join(" "));
        }
    }
    found
}

/// Returns the first line of each function's documentation, except those of tests.
fn openings(text: &str) -> impl Iterator<Item = &str> {
    let mut first = None;
    let mut is_test = false;
    text.lines().map(str::trim_start).filter_map(move |line| {
        if let Some(doc) = line.strip_prefix("/// ") {
            first = first.or(Some(doc));
            return None;
        }
        if line.starts_with("#[") {
            is_test |= line.ends_with("test]");
            return None;
        }
        if line.starts_with("///") {
            return None;
        }
        let doc = first.take().filter(|_| is_function(line) && !is_test);
        is_test = false;
        doc
    })
}

/// Returns whether a line is the beginning of a function, whatever its visibility.
fn is_function(line: &str) -> bool {
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|c: char| c != ' ').trim_start(),
        None => line,
    };
    ["fn ", "const fn ", "unsafe fn ", "async fn "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Returns whether a function's documentation opens with a verb, or with a quoted specification.
fn opens_with_verb(doc: &str) -> bool {
    let word = doc.split([' ', ',', '.']).next().unwrap_or_default();
    word == "RFC" || word.ends_with('s') && !NOT_VERBS.contains(&word)
}

/// Words for people: comments name the plugin, the server, the peer, the caller, the handler.
const PEOPLE: [&str; 6] = [
    "somebody", "nobody", "whoever", "anybody", "anyone", "someone",
];

/// Words that end like a verb, but open a clause.
const NOT_VERBS: [&str; 5] = ["This", "Whether", "Its", "Always", "As"];

//! Comments are in plain words: what may not come back of those that were replaced.

use super::source::Source;
use super::{all, assert_none, is_generated};

#[test]
fn comments_name_roles_and_negate_verbs() {
    let mut found = Vec::new();
    for file in all().iter().filter(|file| file.path.starts_with("src/")) {
        for (number, comment) in comments(file) {
            let words: Vec<String> = comment.split(is_between_words).map(lower).collect();
            let people = words.iter().filter(|word| PEOPLE.contains(&&***word));
            found.extend(people.map(|word| format!("{}:{number}: {word}", file.path)));
            let words = [vec![String::new()], words].concat();
            if words.windows(3).any(is_negated_noun) {
                found.push(format!("{}:{number}: {comment}", file.path));
            }
        }
    }
    assert_none(
        "a comment names people, or has `is no` for `is not`",
        &found,
    );
}

#[test]
fn the_documentation_of_a_public_function_opens_with_a_verb() {
    let mut found = Vec::new();
    for file in Source::all_shipped() {
        if is_generated(&file) {
            continue;
        }
        let mut first: Option<&str> = None;
        for line in file.text.lines().map(str::trim_start) {
            if let Some(doc) = line.strip_prefix("/// ") {
                first = first.or(Some(doc));
            } else if is_public_function(line) {
                let verb = first.take().and_then(|doc| doc.split(' ').next());
                if verb.is_some_and(|verb| !verb.ends_with('s') || NOT_VERBS.contains(&verb)) {
                    found.push(format!("{}: {line}", file.path));
                }
            } else if !line.starts_with("#[") && !line.starts_with("///") {
                first = None;
            }
        }
    }
    assert_none(
        "the documentation of a function does not open with a verb",
        &found,
    );
}

/// Returns the comments of a file, with their line numbers.
fn comments(file: &Source) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(file.text.lines());
    lines.filter_map(|(number, line)| Some((number, line.split_once("//")?.1)))
}

fn is_between_words(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}

fn lower(word: &str) -> String {
    word.to_lowercase()
}

/// Returns whether these words are `is no` or `are no`, unless `there` precedes them.
fn is_negated_noun(words: &[String]) -> bool {
    matches!(words, [before, verb, no] if before != "there"
        && (verb == "is" || verb == "are") && no == "no")
}

fn is_public_function(line: &str) -> bool {
    let line = line.strip_prefix("pub ").unwrap_or("");
    ["fn ", "const fn ", "unsafe fn ", "async fn "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Words for people: comments name the plugin, the server, the peer, the caller, the handler.
const PEOPLE: [&str; 6] = [
    "somebody", "nobody", "whoever", "anybody", "anyone", "someone",
];

/// Words that end like a verb, but open a clause.
const NOT_VERBS: [&str; 5] = ["This", "Whether", "Its", "Always", "As"];

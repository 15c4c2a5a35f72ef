//! Comments are in plain words: what may not come back of those that were replaced.

use super::{all, assert_none, is_generated};

#[test]
fn comments_name_roles_and_negate_verbs() {
    let found = super::lines_with(|line| {
        let comment = line.split_once("//");
        comment.is_some_and(|(_, comment)| is_foreign(comment))
    });
    assert_none("a comment names people, or negates a noun", &found);
}

#[test]
fn the_documentation_of_a_function_opens_with_a_verb() {
    let mut found = Vec::new();
    for file in all().iter().filter(|file| !is_generated(file)) {
        let docs = openings(&file.text).filter(|doc| !opens_with_verb(doc));
        found.extend(docs.map(|doc| format!("{}: {doc}", file.path)));
    }
    let what = "the documentation of a function does not open with a verb";
    assert_none(what, &found);
}

/// Returns whether a comment has words that may not return.
fn is_foreign(comment: &str) -> bool {
    let comment = comment.to_lowercase();
    let words = comment.split(|c: char| !c.is_alphanumeric() && c != '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let negates = |at: usize, pair: &[&str]| match pair {
        ["is" | "are", "no"] => at == 0 || words[at - 1] != "there",
        ["no" | "any", "longer"] => true,
        _ => false,
    };
    let mut pairs = words.windows(2).enumerate();
    words.iter().any(|word| PEOPLE.contains(word)) || pairs.any(|(at, pair)| negates(at, pair))
}

/// Returns the first line of each function's documentation, except those of tests.
fn openings(text: &str) -> impl Iterator<Item = &str> {
    let mut first = None;
    text.lines().map(str::trim_start).filter_map(move |line| {
        if let Some(doc) = line.strip_prefix("///") {
            first = first.or_else(|| Some(doc.trim_start()));
            return None;
        }
        if line.starts_with("#[") && !line.ends_with("test]") {
            return None;
        }
        // The line behind it, or the attribute of a test.
        first.take().filter(|_| is_function(line))
    })
}

/// Returns whether a line is the beginning of a function, whatever its visibility.
fn is_function(line: &str) -> bool {
    let mut words = line.split(' ').skip_while(|word| word.starts_with("pub"));
    let first = words.find(|word| !["const", "unsafe", "async"].contains(word));
    first == Some("fn")
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

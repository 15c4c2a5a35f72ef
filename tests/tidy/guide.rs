//! The guide and the source agree: the rows of kubelet's rules, the tests that hold them, and the
//! comments that quote them.

use std::collections::BTreeSet;
use std::path::Path;

use super::assert_none;
use super::source::Source;

/// A row of the guide's lists and tables about kubelet.
struct Row {
    id: String,
    text: String,
}

#[test]
fn the_name_of_a_test_fits_in_a_line() {
    let long: Vec<String> = tests().into_iter().filter(|it| it.len() > 60).collect();
    assert_none("the name of a test has more than 60 characters", &long);
}

#[test]
fn every_test_that_is_named_after_a_row_has_that_row() {
    let rows = rows();
    let mut found = Vec::new();
    for name in tests() {
        for id in row_ids(&name) {
            if !rows.iter().any(|row| row.id == id) {
                found.push(format!("{name}: {GUIDE} has no row {id}"));
            }
        }
    }
    assert_none("a test is named after a row that does not exist", &found);
}

#[test]
fn every_row_is_held_by_a_test() {
    let tests = tests();
    let is_held = |row: &Row| {
        if row.is_of(&NAMED_AFTER) {
            return tests.iter().any(|name| row_ids(name).contains(&row.id));
        }
        row.is_of(&HELD_BY_DOC_TEST) || row.tests().next().is_some()
    };
    let rows = rows().into_iter().filter(|row| !is_held(row));
    let found: Vec<String> = rows.map(|row| row.id).collect();
    assert_none("a row of the guide is not held by a test", &found);
}

#[test]
fn every_test_that_the_guide_names_exists() {
    let tests = tests();
    let mut found = Vec::new();
    for row in rows() {
        let missing = row.tests().filter(|name| !tests.contains(*name));
        found.extend(missing.map(|name| format!("{}: {name}", row.id)));
    }
    for file in Source::all_in("src/guide") {
        let names = file.text.split('`').skip(1).step_by(2);
        let missing = names.filter(|name| looks_like_a_test(name) && !tests.contains(*name));
        found.extend(missing.map(|name| format!("{}: {name}", file.path)));
    }
    assert_none("the guide names a test that does not exist", &found);
}

#[test]
fn the_map_names_files_that_exist() {
    let map = std::fs::read_to_string("src/lib.rs").unwrap();
    let rows = map.lines().filter(|line| line.starts_with("//! | "));
    let paths = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let is_rust = |path: &str| Path::new(path).extension().is_some_and(|it| it == "rs");
    let is_path = |path: &&str| is_rust(path) || path.ends_with('/');
    let exists = |path: &str| Path::new("src").join(path).exists() || Path::new(path).exists();
    let missing = paths.filter(is_path).filter(|path| !exists(path));
    let found: Vec<String> = missing.map(str::to_owned).collect();
    assert_none("the map in src/lib.rs names a file that is gone", &found);
}

#[test]
fn a_row_has_a_number_of_its_own() {
    let mut seen = BTreeSet::new();
    let rows = rows();
    assert!(rows.len() > 100, "{} rows were read", rows.len());
    let twice = rows.iter().filter(|row| !seen.insert(&row.id));
    let found: Vec<String> = twice.map(|row| row.id.clone()).collect();
    assert_none("two rows have the same number", &found);
}

#[test]
fn a_comment_that_quotes_kubelet_s_rules_links_to_the_row() {
    let rows = rows();
    let mut found = Vec::new();
    for file in Source::all_in("src") {
        if file.path.starts_with("src/guide/") {
            continue;
        }
        for comment in comments(&file.text) {
            let wrong = wrong_quotations(&comment, file.layer(), &rows);
            found.extend(wrong.iter().map(|why| format!("{}: {why}", file.path)));
        }
    }
    assert_none("a quotation and the guide differ", &found);
}

impl Row {
    /// Returns the names of the tests that the row's last sentence lists.
    fn tests(&self) -> impl Iterator<Item = &str> {
        let listed = self.text.split_once("Test: ");
        let listed = listed.or_else(|| self.text.split_once("Tests: "));
        let (_, listed) = listed.unwrap_or_default();
        listed.split('`').skip(1).step_by(2)
    }

    fn is_of(&self, families: &[&str]) -> bool {
        let family = self.id.trim_end_matches(|c: char| c.is_ascii_digit());
        families.contains(&family)
    }
}

/// Returns the rows of the guide about kubelet.
fn rows() -> Vec<Row> {
    let guide = Source::all_in("src/guide")
        .into_iter()
        .find(|file| file.path == GUIDE);
    parse(&guide.expect("the guide has a module about kubelet").text)
}

fn parse(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut is_in_row = false;
    for line in text.lines() {
        let line = line.trim_start_matches("//!").trim();
        let begun = line.strip_prefix("- **");
        let begun = begun.or_else(|| line.strip_prefix("| **"));
        if let Some((id, text)) = begun.and_then(|line| line.split_once("**")) {
            let (id, text) = (id.to_owned(), text.trim().to_owned());
            rows.push(Row { id, text });
            is_in_row = true;
        } else if line.is_empty() || line.starts_with('#') {
            is_in_row = false;
        } else if let Some(row) = rows.last_mut().filter(|_| is_in_row) {
            row.text.push(' ');
            row.text.push_str(line);
        }
    }
    rows
}

/// Returns the names of all tests.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in super::all() {
        for item in file.code.split("#[test]").skip(1) {
            let Some((_, rest)) = item.split_once("fn ") else {
                continue;
            };
            names.insert(super::identifier(rest));
        }
    }
    names
}

/// Returns whether a name can only be that of a test: at least five words of lower case.
fn looks_like_a_test(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(is_word) && name.split('_').count() >= 5
}

/// Returns the rows after which a test is named: DM4 and DM5 for `dm4_dm5_a_resource`.
fn row_ids(test: &str) -> Vec<String> {
    let is_id = |part: &&str| {
        let family = part.trim_end_matches(|c: char| c.is_ascii_digit());
        family != *part && NAMED_AFTER.contains(&&*family.to_uppercase())
    };
    let ids = test.split('_').take_while(is_id);
    ids.map(str::to_uppercase).collect()
}

/// Returns each block of comment lines as one line of text.
fn comments(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let blocks = lines.split(|line| !line.starts_with("//"));
    let words = |line: &&str| line.trim_start_matches(['/', '!']).trim().to_owned();
    let joined = blocks.map(|block| block.iter().map(words).collect::<Vec<_>>().join(" "));
    joined.collect()
}

/// Returns what is wrong with the references and quotations of a comment.
fn wrong_quotations(comment: &str, layer: &str, rows: &[Row]) -> Vec<String> {
    let links = comment.match_indices("](crate::guide::kubelet)");
    let ids = links.filter_map(|(at, _)| comment[..at].rsplit_once('['));
    let ids: Vec<&str> = ids.map(|(_, id)| id).collect();
    let linked = |id: &&str| rows.iter().find(|row| row.id == *id);
    let quotable: String = ids
        .iter()
        .filter_map(linked)
        .map(|row| &*row.text)
        .collect();
    let missing = ids.iter().filter(|id| linked(id).is_none());
    let mut wrong: Vec<String> = missing
        .map(|id| format!("{GUIDE} has no row {id}"))
        .collect();
    if !ids.is_empty() || OBEYING.contains(&layer) {
        let mut quotations = quotations(comment);
        quotations.retain(|it| !quotable.contains(it));
        let differs = quotations
            .iter()
            .map(|it| format!("{it:?} is not in a linked row"));
        wrong.extend(differs);
    }
    wrong
}

/// Returns the sentences that a comment quotes: more than three words between quotation marks,
/// outside of code.
fn quotations(comment: &str) -> Vec<String> {
    let prose = comment.split("```").step_by(2).collect::<String>();
    let parts = prose.split('`').enumerate();
    let marked = parts.map(|(at, part)| part.replace('"', if at % 2 == 0 { "\"" } else { "'" }));
    let marked = marked.collect::<Vec<_>>().join("`");
    let quoted = marked.split('"').skip(1).step_by(2);
    let is_sentence = |text: &&str| text.split(' ').count() > 3;
    quoted.filter(is_sentence).map(str::to_owned).collect()
}

/// The file with the rows.
const GUIDE: &str = "src/guide/kubelet.rs";

/// The families of rows after which tests are named.
const NAMED_AFTER: [&str; 6] = ["PM", "GM", "CSI", "DM", "DRA", "RS"];

/// The family of rows that the guide's own doc test holds.
const HELD_BY_DOC_TEST: [&str; 1] = ["C"];

/// The layers in which a quoted sentence can only be one of kubelet's rules.
const OBEYING: [&str; 3] = ["handler", "manager", "watch"];

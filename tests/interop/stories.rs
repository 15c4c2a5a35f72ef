//! Recorded header blocks of other encoders: a directory of HPACK stories in the format of
//! `hpack-test-case`, which `TEST_HPACK_STORIES` names.

use std::env;
use std::fs;
use std::path::Path;

use plugind::hpack::Decoder;
use serde_json::Value;

use crate::support::skip::skip;

#[test]
fn blocks_of_other_encoders_decode_to_their_fields() {
    let Some(dir) = env::var_os("TEST_HPACK_STORIES") else {
        return skip("hpack-test-case is not installed");
    };
    let (mut stories, mut blocks) = (0, 0);
    for encoder in fs::read_dir(&dir).expect("a directory of encoders") {
        let Ok(entries) = fs::read_dir(encoder.expect("an entry").path()) else {
            continue;
        };
        let paths = entries.map(|entry| entry.expect("an entry").path());
        for path in paths.filter(|path| path.extension().is_some_and(|it| it == "json")) {
            blocks += decode_story(&path);
            stories += 1;
        }
    }
    println!("hpack stories: {stories}, blocks: {blocks}");
    assert!(blocks > 0, "no stories in {dir:?}");
}

/// Decodes the blocks of a story, one connection. Returns how many it has.
fn decode_story(path: &Path) -> usize {
    let story = fs::read(path).expect("a story");
    let story: Value = serde_json::from_slice(&story).expect("a story in JSON");
    let cases = story["cases"].as_array().expect("cases");
    let size = |case: &Value| case["header_table_size"].as_u64().unwrap_or(4096);
    let table = cases.iter().map(size).max().unwrap_or(4096);
    let mut decoder = Decoder::new(usize::try_from(table).expect("a size"));
    let cases = cases.iter().filter(|case| case["wire"].is_string());
    let decoded = cases.map(|case| {
        let mut fields = Vec::new();
        let block = octets(case["wire"].as_str().expect("it was looked at"));
        let result = decoder.decode(&block, &mut |name, value| {
            let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
            fields.push((text(name), text(value)));
        });
        let name = format!("{} {}", path.display(), case["seqno"]);
        assert_eq!((result, fields), (Ok(()), expected(case)), "{name}");
    });
    decoded.count()
}

/// Returns the fields that a case lists: objects of one entry.
fn expected(case: &Value) -> Vec<(String, String)> {
    let fields = case["headers"].as_array().expect("headers").iter();
    let fields = fields.flat_map(|field| field.as_object().expect("a field"));
    fields
        .map(|(name, value)| (name.clone(), value.as_str().expect("text").to_owned()))
        .collect()
}

/// Returns the octets of hexadecimal digits.
fn octets(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits"))
        .collect()
}

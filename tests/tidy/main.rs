//! The rules of the source that neither the compiler nor a lint checks.
//!
//! Pure code does not name clocks, descriptors and threads; layers name only the layers below them;
//! files stay readable; nothing is left unfinished; and what the guide says about tests is true.

#[path = "../support/binary.rs"]
mod binary;
mod circles;
mod guide;
mod log;
mod manual;
#[path = "../tools/mistakes/list.rs"]
mod mistakes;
mod proto;
#[path = "../support/skip.rs"]
mod skip;
mod source;
mod words;

use std::path::Path;
use std::process::Command;

use source::Source;

#[test]
fn what_has_its_place_is_named_only_there() {
    let shipped = Source::all_shipped();
    let all = all();
    let sleeps = ["thread::sleep", "time::sleep", "sleep_until", "sleep("];
    let unfinished = ["todo!(", "unimplemented!(", "dbg!(", "#[ignore]"];
    let time_of_day = ["SystemTime", "UNIX_EPOCH", "REALTIME"];
    for (what, texts, files, place) in [
        ("the system", &SYSTEM[..], &shipped, "src/daemon/"),
        ("the time of day", &time_of_day, &shipped, TIME_OF_DAY),
        ("what is unfinished", &unfinished, &all, "nowhere"),
        ("a sleep", &sleeps, &all, "nowhere"),
    ] {
        let elsewhere = files.iter().filter(|it| !it.path.starts_with(place));
        let found: Vec<String> = elsewhere.flat_map(|it| mentions(it, texts)).collect();
        assert_none(&format!("{what} is named outside of {place}"), &found);
    }
}

#[test]
fn a_layer_names_only_layers_below_it() {
    let mut found = Vec::new();
    for file in Source::all_shipped() {
        for (line, named) in layers_named(&file) {
            let mut allowed = may_name(file.layer()).chain(EVERYWHERE);
            if named != file.layer() && !allowed.any(|layer| layer == named) {
                found.push(format!("{}:{line}: {named}", file.path));
            }
        }
    }
    assert_none("a layer is named from below or from beside it", &found);
}

#[test]
fn every_mistake_has_its_mark_and_every_mark_its_mistake() {
    let sources = Source::all_in("src");
    let mut found = Vec::new();
    for mistake in &mistakes::MISTAKES {
        let places = sources.iter().filter_map(|it| mistake.planted_in(&it.text));
        if places.count() != 1 {
            found.push(mistake.what.to_owned());
        }
    }
    let lines = sources.iter().flat_map(|it| it.text.lines());
    let marks = lines.filter(|line| line.trim_start().starts_with("// mutation: "));
    assert_eq!(marks.count(), mistakes::MISTAKES.len(), "marks");
    assert_none("a mistake has no place of its own", &found);
}

#[test]
fn unsafe_code_is_where_the_list_says() {
    let mut found = Vec::new();
    for file in Source::all_in("src") {
        let allows = file.code.contains("unsafe_code,") || file.code.contains("allow(unsafe_code)");
        if allows && !UNSAFE.contains(&&*file.path) {
            found.push(file.path);
        }
    }
    assert_none("a module allows unsafe code", &found);
}

#[test]
fn a_file_can_be_read_in_one_sitting() {
    let long = |file: &Source| file.lines_of_code() >= MAX_LINES_OF_CODE;
    let show = |file: Source| format!("{}: {}", file.path, file.lines_of_code());
    let found: Vec<String> = Source::all_shipped()
        .into_iter()
        .filter(long)
        .map(show)
        .collect();
    assert_none("too many lines of code in one file", &found);
}

#[test]
fn every_module_opens_with_what_it_does() {
    let mut found = Vec::new();
    for file in all() {
        if !file.text.starts_with("//! ") && !is_generated(&file) {
            found.push(file.path);
        }
    }
    assert_none("a module has no documentation", &found);
}

#[test]
fn a_comment_fits_in_a_hundred_columns() {
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let found = lines_with(|line| is_comment(line) && line.chars().count() > COLUMNS);
    assert_none("a comment is too wide", &found);
}

/// Returns where the lines are for which this is true, in what is not generated.
fn lines_with(is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in all().iter().filter(|file| !is_generated(file)) {
        let lines = (1..).zip(file.text.lines());
        let wrong = lines.filter(|(_, line)| is_wrong(line));
        found.extend(wrong.map(|(number, _)| format!("{}:{number}", file.path)));
    }
    found
}

#[test]
fn the_source_knows_no_one_s_machine() {
    let found = lines_with(|line| HOMES.iter().any(|home| line.contains(home)));
    assert_none("the source contains a path of one machine", &found);
}

#[test]
fn no_async_runtime_ships() {
    let tree = Command::new(env!("CARGO"))
        .args("tree --edges normal --prefix none --locked --offline".split(' '))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains("plugind "), "cargo tree failed");
    let is_runtime = |line: &&str| RUNTIMES.iter().any(|name| line.starts_with(name));
    let found: Vec<String> = tree.lines().filter(is_runtime).map(str::to_owned).collect();
    assert_none("the daemon depends on an async runtime", &found);
}

/// Returns every Rust file of the project.
fn all() -> Vec<Source> {
    let mut files = Source::all_in("src");
    files.extend(Source::all_in("tests"));
    if Path::new(env!("CARGO_MANIFEST_DIR")).join(FUZZ).exists() {
        files.extend(Source::all_in(FUZZ));
    }
    files
}

/// Returns the lines in which the code of a file contains one of the texts.
fn mentions(file: &Source, texts: &[&str]) -> Vec<String> {
    let code = if file.path.starts_with("src/") {
        file.shipped()
    } else {
        file.code.clone()
    };
    let mut found = Vec::new();
    for text in texts {
        for (at, _) in code.match_indices(text) {
            if !code[..at].ends_with(is_identifier) || !text.starts_with(is_identifier) {
                let line = code[..at].matches('\n').count() + 1;
                found.push(format!("{}:{line}: {text}", file.path));
            }
        }
    }
    found
}

/// Returns the modules directly below the crate's root that a file names, each with its line.
fn layers_named(file: &Source) -> Vec<(usize, String)> {
    let code = file.shipped();
    let to_root = "super::".repeat(file.depth());
    named_behind(&code, &["crate::", "plugind::", &to_root])
}

/// Returns the names that follow one of these prefixes of a path, each with its line.
fn named_behind(code: &str, prefixes: &[&str]) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    for prefix in prefixes {
        for (at, _) in code.match_indices(prefix) {
            let before = &code[..at];
            if !before.ends_with("super::") && !before.ends_with(is_identifier) {
                let line = before.matches('\n').count() + 1;
                let names = first_segments(&code[at + prefix.len()..]);
                named.extend(names.into_iter().map(|name| (line, name)));
            }
        }
    }
    named
}

/// Returns the first names of a path, or of every path in a group: `a`, `b` and `c` of `{a, b::{x,
/// y}, c}`.
fn first_segments(path: &str) -> Vec<String> {
    if !path.starts_with('{') {
        return vec![identifier(path)];
    }
    let mut depth = 0;
    let mut names = Vec::new();
    for (at, c) in path.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(c, '{' | ',') {
            names.push(identifier(path[at + 1..].trim_start()));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the identifier at the start of the text.
fn identifier(text: &str) -> String {
    text.chars().take_while(|&c| is_identifier(c)).collect()
}

/// Returns whether the character can be part of an identifier.
fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns whether the file was generated.
fn is_generated(file: &Source) -> bool {
    file.text.starts_with("// This file is @generated")
}

/// Fails with a line for every finding, if there are any.
fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

/// Returns what a layer may name beside itself and [`EVERYWHERE`]. Other layers may not name any.
fn may_name(layer: &str) -> impl Iterator<Item = &'static str> {
    let names = match layer {
        "http2" => "hpack",
        "grpc" => "http2",
        "handler" => "proto grpc",
        "manager" => "handler watch proto grpc http2",
        "api" => "manager handler watch proto grpc",
        "registration" => "manager handler proto grpc http2",
        "simulate" => "proto grpc http2",
        SHELL => "simulate api registration manager handler watch proto grpc http2",
        "cli" => "daemon simulate api registration manager handler watch proto grpc http2",
        "main" => "cli daemon",
        _ => "",
    };
    names.split_whitespace()
}

/// The only layer that uses the system.
const SHELL: &str = "daemon";

/// The folder of the fuzzer's own code, which the published package does not have.
const FUZZ: &str = "fuzz/fuzz_targets";

/// The only module that reads the time of day, which can be set back at any moment: for the log.
const TIME_OF_DAY: &str = "src/daemon/clock.rs";

/// The modules that every layer may name.
const EVERYWHERE: [&str; 6] = ["backoff", "budget", "config", "escape", "octets", "time"];

/// The names of the system: files, descriptors, clocks, threads, and the packages that wrap them.
const SYSTEM: [&str; 14] = [
    "std::fs",
    "std::net",
    "std::os::fd",
    "std::os::unix::net",
    "std::process::Command",
    "std::thread",
    "thread::",
    "Instant",
    "SystemTime",
    "libc::",
    "mio::",
    "nix::",
    "inotify::",
    "unsafe",
];

/// The modules that allow unsafe code: each block in them states why it is sound.
const UNSAFE: [&str; 4] = [
    "src/daemon/api/command.rs",
    "src/daemon/process/child.rs",
    "src/daemon/process/passed.rs",
    "src/daemon/process/peer_groups.rs",
];

/// The most lines of code in one file, without tests.
const MAX_LINES_OF_CODE: usize = 500;

/// The folders in which users and machines keep files; in two parts, so that they are not found
/// here.
const HOMES: [&str; 4] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
];

/// The maximum width of a comment, which the formatter does not wrap.
const COLUMNS: usize = 100;

/// The prefixes of the names of async runtimes.
const RUNTIMES: [&str; 3] = ["tokio", "futures", "async-std"];

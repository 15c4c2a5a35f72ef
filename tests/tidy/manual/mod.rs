//! The manual pages and the completions match the help texts, the log and the guide.
//!
//! All of `src/dist/man/` and `src/dist/completions/` that comes from elsewhere is checked in, so
//! that packages need no generator. These tests generate the files again and compare. If
//! `TEST_GENERATE` is set, as `make generate` does, the files are written first.

#![allow(
    clippy::format_push_string,
    reason = "a page is written once, so it may allocate"
)]

pub(crate) mod catalogue;
mod checked;
mod completions;
mod configuration;
mod help;
mod mdoc;
mod pages;
mod tried;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::binary::binary;
use crate::skip::skip;

#[test]
fn the_generated_files_are_current() {
    let mut generated: Vec<(PathBuf, String)> = Vec::new();
    for template in files_in(MAN, "in") {
        let text = fs::read_to_string(&template).expect("a template");
        generated.push((template.with_extension(""), pages::fill(&text)));
    }
    for (name, script) in completions::all() {
        generated.push((in_crate(COMPLETIONS).join(name), script));
    }
    generated.push((in_crate(CONFIGURATION), configuration::file()));
    let mut differing = Vec::new();
    for (path, text) in generated {
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &text).expect("a file that can be written");
        }
        if fs::read_to_string(&path).unwrap_or_default() != text {
            differing.push(path);
        }
    }
    assert!(
        differing.is_empty(),
        "run `make generate`, these differ: {differing:?}"
    );
}

#[test]
fn the_configuration_of_packages_is_valid_and_sets_what_it_says() {
    let checked = Command::new(binary())
        .args(["check-config", CONFIGURATION])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .output()
        .expect("plugind runs");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{checked:?}");
    let set = said.lines().filter(|line| line.contains(CONFIGURATION));
    let set: Vec<_> = set.filter_map(|line| line.split("  # ").next()).collect();
    assert_eq!(set, ["state-file /run/plugind/state.json"]);
}

#[test]
fn mandoc_finds_nothing_in_the_pages() {
    if !is_installed("mandoc") {
        return skip("mandoc is not installed");
    }
    let pages = ["5", "7", "8"]
        .iter()
        .flat_map(|section| files_in(MAN, section));
    let output = Command::new("mandoc").arg("-Tlint").args(pages).output();
    let findings = output.expect("mandoc runs").stdout;
    let findings = String::from_utf8_lossy(&findings);
    // Only the pages that are installed are known to it.
    let is_own = |line: &&str| !line.contains("referenced manual not found");
    let found: Vec<&str> = findings.lines().filter(is_own).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_page_about_programs_names_all_that_they_get() {
    let source = fs::read_to_string(in_crate("src/handler/exec.rs")).expect("the handler");
    let page = fs::read_to_string(in_crate(MAN).join("plugind-exec.7")).expect("the page");
    let quoted = source.split('"').skip(1).step_by(2);
    let variables = quoted.filter(|it| it.starts_with("PLUGIND_"));
    let input = source.split("struct Registration<'a> {\n").nth(1);
    let fields = input
        .and_then(|rest| rest.split('}').next())
        .expect("fields");
    let names = fields.lines().filter_map(|line| line.split_once(": "));
    let keys = names.map(|(name, _)| name.trim().trim_start_matches("r#"));
    let (variables, keys): (Vec<&str>, Vec<&str>) = (variables.collect(), keys.collect());
    assert!(variables.len() > 5 && keys.len() > 5);
    for variable in variables {
        assert!(page.contains(&format!(".It Ev {variable}\n")), "{variable}");
    }
    for key in keys {
        assert!(page.contains(&format!("\"{key}\":")), "{key}");
    }
}

#[test]
fn the_example_program_of_the_manual_can_run_twice() {
    let page = fs::read_to_string(in_crate(MAN).join("plugind-exec.7")).expect("the page");
    let example = page.split(".Sh EXAMPLES").nth(1).expect("examples");
    let script = example.split_once("-offset indent\n").expect("a program").1;
    let script = script
        .split("\n.Ed")
        .next()
        .expect("its end")
        .replace("\\-", "-");
    let dir = tempfile::tempdir().expect("a directory");
    let kept = dir.path().join("toasters");
    let script = script.replace("/run/toasters", kept.to_str().expect("a path in UTF-8"));
    let actions = [
        ("add", 1),
        ("re-add", 1),
        ("add", 1),
        ("del", 0),
        ("del", 0),
        ("later", 0),
    ];
    for (action, count) in actions {
        let mut sh = Command::new("sh");
        sh.args(["-c", &script]).env("PLUGIND_ACTION", action);
        sh.env("PLUGIND_SOCKET", "/a b.sock").stdin(Stdio::null());
        assert!(sh.status().expect("sh runs").success(), "{action}");
        let files = fs::read_dir(&kept).expect("its directory");
        assert_eq!(files.count(), count, "{action}");
    }
}

/// Returns the files with this extension in a folder of the crate, sorted.
pub(crate) fn files_in(folder: impl AsRef<Path>, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(in_crate(folder)).expect("a folder of the crate");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let is_wanted = |path: &PathBuf| path.extension().is_some_and(|it| it == extension);
    let mut files: Vec<PathBuf> = files.filter(is_wanted).collect();
    files.sort();
    files
}

/// Returns whether a program can be run.
fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", program])
        .output();
    found.is_ok_and(|output| output.status.success())
}

/// Returns the absolute path of a path in this crate.
pub(crate) fn in_crate(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder of the manual pages and their templates.
const MAN: &str = "src/dist/man";

/// The folder of the completions.
const COMPLETIONS: &str = "src/dist/completions";

/// The configuration file of packages.
const CONFIGURATION: &str = "src/dist/plugind.conf";

/// The environment variable that makes the tests write the files before they are compared.
pub(crate) const WRITE: &str = "TEST_GENERATE";

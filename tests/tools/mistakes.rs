//! Checks that the simulation and the fuzz targets find mistakes: `make full ONLY=mistakes`. Plants
//! one mistake at a time in a copy of the source, and runs the tests that should find it.
//!
//! Each mistake for the simulation is listed with the seed that found it when it was planted first.

#[path = "mistakes/list.rs"]
mod list;
#[path = "../tidy/source.rs"]
#[allow(dead_code)] // The tidy tests use more of it.
mod source;

use std::fs;
use std::process::{Command, ExitCode, Stdio};

use list::{Finder, MISTAKES, Mistake};
use source::Source;

/// The folder in which the copy is made and built.
const COPY: &str = "target/mistakes/tree";
const BUILD: &str = "target/mistakes/build";

fn main() -> ExitCode {
    copy();
    if simulation(None).is_some() || fuzz_targets().is_some() {
        eprintln!("the tests fail on the source as it is");
        return ExitCode::FAILURE;
    }
    let mut missed = 0;
    for mistake in &MISTAKES {
        let (copy, source, wrong) = planted(mistake);
        fs::write(&copy, wrong).expect("the file can be written");
        let found = match mistake.finder {
            Finder::Simulation { seed } => simulation(Some(seed)).or_else(|| simulation(None)),
            Finder::FuzzTargets => fuzz_targets(),
        };
        fs::write(&copy, source).expect("the file can be written");
        if let Some(by) = found {
            println!("found by {by}: {}", mistake.what);
        } else {
            println!("MISSED: {}", mistake.what);
            missed += 1;
        }
    }
    println!("{} passed, {missed} failed", MISTAKES.len() - missed);
    if missed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the file of the copy that has the mark of a mistake: its path, its content, and that
/// with the mistake.
fn planted(mistake: &Mistake) -> (String, String, String) {
    let files = Source::all_in(&format!("{COPY}/src"));
    let mut planted = files.into_iter().filter_map(|file| {
        let wrong = mistake.planted_in(&file.text)?;
        Some((file.path, file.text, wrong))
    });
    planted.next().expect("a place for the mistake")
}

/// Copies what the simulation is built from.
fn copy() {
    let _ = fs::remove_dir_all(COPY);
    fs::create_dir_all(COPY).expect("the folder can be created");
    let copied = Command::new("cp")
        .args([
            "-r",
            "Cargo.toml",
            "Cargo.lock",
            "src",
            "tests",
            "fuzz",
            COPY,
        ])
        .status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "the source can be copied"
    );
}

/// Runs the simulation on the copy, with this seed or with all. Returns the seed that finds a
/// mistake.
fn simulation(seed: Option<u64>) -> Option<String> {
    let variable = seed.map(|seed| ("SEED", seed.to_string()));
    let said = failure(&["--test", "manager", "simulation"], variable)?;
    let named = said.split("SEED=").nth(1);
    let named = named.and_then(|rest| rest.split(' ').next()?.parse().ok());
    let seed: Option<u64> = named.or(seed);
    seed.map(|seed| format!("seed {seed}"))
}

/// Runs the fuzz targets on the copy. Returns the target that finds a mistake.
fn fuzz_targets() -> Option<String> {
    let said = failure(&["--test", "fuzz_replay"], None)?;
    let target = said.lines().find_map(|line| {
        let (before, _) = line.split_once(" fails on ")?;
        before.split_whitespace().last()
    });
    Some(target.unwrap_or("a fuzz target").to_owned())
}

/// Runs tests on the copy. Returns their output if they fail.
fn failure(tests: &[&str], variable: Option<(&str, String)>) -> Option<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["test", "--locked", "--quiet"])
        .args(tests)
        .current_dir(COPY)
        .env("RUST_BACKTRACE", "0")
        .env_remove("SEED")
        .envs(variable)
        .stdin(Stdio::null());
    cargo.env("CARGO_TARGET_DIR", fs::canonicalize(".").ok()?.join(BUILD));
    let output = cargo.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("test result:"),
        "the copy does not build:\n{said}"
    );
    (!output.status.success()).then_some(said)
}

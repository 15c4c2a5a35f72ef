//! Measures which lines of the protocol folders the tests run: `make full ONLY=coverage`.
//!
//! The compiler's own instrumentation counts, in the tests that drive the protocol: those in the
//! library, and the replay of the fuzzing corpus. Only
//! lines of shipped code count: lines of tests always run.
//!
//! LLVM's tools must have the compiler's version: rustup's component `llvm-tools`, which is
//! installed here if rustup can, or else Debian's package `llvm-22` for an LLVM 22.

#[path = "../tidy/source.rs"]
#[allow(dead_code)] // The tidy tests use more of it.
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use source::Source;

/// The folders that are measured.
const FOLDERS: [&str; 3] = ["hpack", "http2", "grpc"];

/// The part of each folder that has to run (percent).
const WANTED: f64 = 95.0;

/// The tests that are run, beside those in the library.
const TESTS: [&str; 1] = ["fuzz_replay"];

/// How often each line of each file has run, for lines with code.
type Counts = BTreeMap<String, BTreeMap<usize, u64>>;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/coverage");
    let tools = Tools::find();
    let programs = build(&folder);
    let profile = run(&programs, &folder, &tools);
    let counts = tools.counts(&programs, &profile);
    let mut is_enough = true;
    for folder in FOLDERS {
        is_enough &= report(folder, &counts);
    }
    if is_enough {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Builds the tests with instrumentation. Returns their paths.
fn build(folder: &Path) -> Vec<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--locked", "--no-run", "--message-format=json"]);
    command.arg("--lib");
    command.args(TESTS.iter().flat_map(|test| ["--test", test]));
    command.arg("--target-dir").arg(folder);
    command.env("RUSTFLAGS", "-C instrument-coverage");
    // Code that runs during the build is counted as well, and needs a place for its counts.
    command.env("LLVM_PROFILE_FILE", folder.join("build/%m.profraw"));
    let messages = output(&mut command);
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"] == true;
        let executable = message["executable"].as_str().filter(|_| is_test);
        executable.map(PathBuf::from)
    };
    messages.lines().filter_map(executable).collect()
}

/// Runs the tests. Returns the path of the merged counts.
fn run(programs: &[PathBuf], folder: &Path, tools: &Tools) -> PathBuf {
    let (counts, sum) = (folder.join("counts"), folder.join("sum.profdata"));
    let _there_may_be_none = fs::remove_dir_all(&counts);
    for program in programs {
        let mut test = Command::new(program);
        test.arg("--quiet").current_dir(env!("CARGO_MANIFEST_DIR"));
        output(test.env("LLVM_PROFILE_FILE", counts.join("%m-%p.profraw")));
    }
    let mut merge = Command::new(&tools.profdata);
    merge.args(["merge", "-sparse"]).arg(&counts);
    output(merge.arg("-o").arg(&sum));
    sum
}

/// The paths of LLVM's tools.
struct Tools {
    profdata: PathBuf,
    cov: PathBuf,
}

impl Tools {
    fn find() -> Self {
        let lib = output(Command::new("rustc").args(["--print", "target-libdir"]));
        let bin = Path::new(lib.trim()).with_file_name("bin");
        if !bin.join("llvm-cov").exists() {
            let mut rustup = Command::new("rustup");
            let _may_fail = rustup.args(["component", "add", "llvm-tools"]).status();
        }
        let version = output(Command::new("rustc").arg("-vV"));
        let version = version
            .lines()
            .find_map(|line| line.strip_prefix("LLVM version: "));
        let version = version
            .and_then(|it| it.split('.').next())
            .unwrap_or_default();
        let tool = |name: &str| {
            let own = bin.join(name);
            if own.exists() {
                own
            } else {
                PathBuf::from(format!("{name}-{version}"))
            }
        };
        Self {
            profdata: tool("llvm-profdata"),
            cov: tool("llvm-cov"),
        }
    }

    /// Reads how often each line has run.
    fn counts(&self, programs: &[PathBuf], profile: &Path) -> Counts {
        let mut export = Command::new(&self.cov);
        export.args(["export", "--format=lcov", "--instr-profile"]);
        export.arg(profile);
        let objects = programs.iter();
        export.args(objects.flat_map(|program| [Path::new("--object"), program]));
        let mut counts = Counts::new();
        let mut file = String::new();
        for line in output(&mut export).lines() {
            match line.split_once(':') {
                Some(("SF", path)) => {
                    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
                    path.trim_start_matches(root).clone_into(&mut file);
                }
                Some(("DA", count)) => {
                    let (line, count) = count.split_once(',').expect("a line and its count");
                    let (line, count) = (line.parse().expect("a line"), count.parse());
                    let counts = counts.entry(file.clone()).or_default();
                    counts.insert(line, count.expect("a count"));
                }
                _ => {}
            }
        }
        counts
    }
}

/// Prints how much of a folder has run, and what has not. Returns whether it is enough.
#[allow(clippy::cast_precision_loss)] // No folder has so many lines.
fn report(folder: &str, counts: &Counts) -> bool {
    let (mut all, mut missed) = (0, Vec::new());
    for file in Source::all_shipped()
        .iter()
        .filter(|it| it.layer() == folder)
    {
        let code = file.shipped();
        let ships = |line: usize| {
            code.lines()
                .nth(line - 1)
                .is_some_and(|it| !it.trim().is_empty())
        };
        let counts = counts.get(&file.path).into_iter().flatten();
        for (&line, &count) in counts.filter(|&(&line, _)| ships(line)) {
            all += 1;
            if count == 0 {
                missed.push(format!("{}:{line}", file.path));
            }
        }
    }
    let percent = 100.0 * (all - missed.len()) as f64 / all as f64;
    println!("src/{folder}: {percent:.2} % of {all} lines");
    for line in missed {
        println!("  not run: {line}");
    }
    percent > WANTED
}

/// Runs a program, which must succeed. Returns its output.
fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

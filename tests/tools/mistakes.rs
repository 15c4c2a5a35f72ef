//! Are the simulation and the fuzz targets worth anything? Plants one mistake after the other in a
//! copy of the source, and sees whether the tests that are meant to find it do: `make mistakes`.
//!
//! Each mistake is a replacement in one file, which must fit exactly once: a list that no longer
//! fits the source fails. With each that the simulation is to find stands the seed that found it
//! when it was planted first.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

struct Mistake {
    what: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    finder: Finder,
}

/// The tests that are meant to find a mistake.
#[derive(Clone, Copy)]
enum Finder {
    /// The simulation: this seed did.
    Simulation { seed: u64 },
    /// The fuzz targets, on their corpus and its mutations.
    FuzzTargets,
}

const MISTAKES: [Mistake; 20] = [
    Mistake {
        what: "two operations speak to a handler about one name",
        file: "src/manager/turns.rs",
        right: "line.is_empty()",
        wrong: "true",
        finder: Finder::Simulation { seed: 6 },
    },
    Mistake {
        what: "a turn is never given back",
        file: "src/manager/turns.rs",
        right: "self.waiting.remove(line.start + place);",
        wrong: "let _ = place;",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "a plugin does not leave the actual state before it is deregistered",
        file: "src/manager/execute.rs",
        right: "let Some(left) = self.actual.remove(&attempt.path) else {",
        wrong: "let Some(left) = self.actual.get(&attempt.path).cloned() else {",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "a plugin enters the actual state too late for a removal in between",
        file: "src/manager/operation/steps.rs",
        right: "self.commands.push(Command::EnterActual(plugin.clone()));",
        wrong: "",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "a handler is not told that nobody waits for its answer",
        file: "src/manager/operation/steps.rs",
        right: ".extend([abandon, Command::Hangup, Command::LeaveActual]);",
        wrong: ".extend([Command::Hangup, Command::LeaveActual]);",
        finder: Finder::Simulation { seed: 39 },
    },
    Mistake {
        what: "a plugin that could not be registered stays in the actual state",
        file: "src/manager/operation/steps.rs",
        right: "self.commands.push(Command::LeaveActual);",
        wrong: "",
        finder: Finder::Simulation { seed: 6 },
    },
    Mistake {
        what: "a failed registration is tried again at once",
        file: "src/manager/pass.rs",
        right: "            socket.backoff.fail(now);",
        wrong: "            socket.backoff.succeed();",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "a socket in the place of another one is taken for the same",
        file: "src/manager/desired.rs",
        right: "if known.identity == identity {",
        wrong: "if known.identity.device == identity.device {",
        finder: Finder::Simulation { seed: 19 },
    },
    Mistake {
        what: "the end of a backoff is forgotten",
        file: "src/manager/mod.rs",
        right: "Wake::Retry(path) => self.touch(path),",
        wrong: "Wake::Retry(_) => {}",
        finder: Finder::Simulation { seed: 6 },
    },
    Mistake {
        what: "a socket whose name starts with a dot counts",
        file: "src/watch/mod.rs",
        right: "    name.as_bytes().starts_with(b\".\")",
        wrong: "    name.as_bytes().starts_with(b\"..\")",
        finder: Finder::Simulation { seed: 6 },
    },
    Mistake {
        what: "the guard of a plugin that has gone is kept",
        file: "src/manager/execute.rs",
        right: "        self.unguard(&left, now);\n",
        wrong: "        let _ = now;\n",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "a plugin that is down is not asked again",
        file: "src/manager/mod.rs",
        right: "Wake::Check(path) => self.check(path, now),",
        wrong: "Wake::Check(_) => {}",
        finder: Finder::Simulation { seed: 796 },
    },
    Mistake {
        what: "an overflow of the queue is ignored",
        file: "src/watch/mod.rs",
        right: "Event::Overflowed => self.rescan_all(),",
        wrong: "Event::Overflowed => {}",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "a directory that is moved leaves its sockets behind",
        file: "src/watch/mod.rs",
        right: "        let removed = self.tree.remove_child(dir, name);\n        self.announce(removed);",
        wrong: "        drop(self.tree.remove_child(dir, name));",
        finder: Finder::Simulation { seed: 3 },
    },
    Mistake {
        what: "a stream takes more content than its window allows",
        file: "src/http2/stream.rs",
        right: ".map_err(|_| StreamError::WindowExceeded)?;",
        wrong: ".unwrap_or_default();",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may have one frame too many",
        file: "src/http2/block.rs",
        right: "if self.continuations > config::MAX_CONTINUATIONS {",
        wrong: "if self.continuations > config::MAX_CONTINUATIONS + 1 {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may be longer than its limit",
        file: "src/http2/block.rs",
        right: "if size > config::MAX_HEADER_BLOCK {",
        wrong: "if size > 2 * config::MAX_HEADER_BLOCK {",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "a header block may decode to anything",
        file: "src/http2/fields.rs",
        right: "self.size > config::MAX_DECODED_HEADERS",
        wrong: "self.size == usize::MAX",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "calls wait for streams that a GOAWAY has refused",
        file: "src/grpc/client.rs",
        right: "http2::Event::GoAway { last_stream, .. } => self.refuse_above(last_stream, now),",
        wrong: "http2::Event::GoAway { .. } => {}",
        finder: Finder::FuzzTargets,
    },
    Mistake {
        what: "an entry of the dynamic table is evicted too early",
        file: "src/hpack/table.rs",
        right: "while self.size > size {",
        wrong: "while self.size >= size {",
        finder: Finder::FuzzTargets,
    },
];

/// Where the copy is made, and built.
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
        let copy = Path::new(COPY).join(mistake.file);
        let source = fs::read_to_string(&copy).expect("the file is there");
        let places = source.matches(mistake.right).count();
        assert_eq!(
            places, 1,
            "{}: {:?} is not there once",
            mistake.file, mistake.right
        );
        fs::write(&copy, source.replace(mistake.right, mistake.wrong)).expect("it can be written");
        let found = match mistake.finder {
            Finder::Simulation { seed } => simulation(Some(seed)).or_else(|| simulation(None)),
            Finder::FuzzTargets => fuzz_targets(),
        };
        fs::write(&copy, source).expect("it can be written");
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

/// Copies what the simulation is built from.
fn copy() {
    let _ = fs::remove_dir_all(COPY);
    fs::create_dir_all(COPY).expect("a folder can be made");
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

/// What finds a mistake in the copy: a seed of the simulation, among all or this one alone.
fn simulation(seed: Option<u64>) -> Option<String> {
    let variable = seed.map(|seed| ("SEED", seed.to_string()));
    let said = failure(&["--test", "manager", "simulation"], variable)?;
    let named = said.split("SEED=").nth(1);
    let named = named.and_then(|rest| rest.split(' ').next()?.parse().ok());
    let seed: Option<u64> = named.or(seed);
    seed.map(|seed| format!("seed {seed}"))
}

/// What finds a mistake in the copy: a fuzz target.
fn fuzz_targets() -> Option<String> {
    let said = failure(&["--test", "fuzz_replay"], None)?;
    let target = said.lines().find_map(|line| {
        let (before, _) = line.split_once(" fails on ")?;
        before.split_whitespace().last()
    });
    Some(target.unwrap_or("a fuzz target").to_owned())
}

/// Runs tests on the copy. Returns what they said if they failed.
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
    assert!(said.contains("test result:"), "it does not build:\n{said}");
    (!output.status.success()).then_some(said)
}

//! Is the simulation worth anything? Plants one mistake after the other in a copy of the source,
//! and sees whether the simulation finds it: `make mistakes`.
//!
//! Each mistake is a replacement in one file, which must fit exactly once: a list that no longer
//! fits the source fails. With each stands the seed that found it when it was planted first.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

struct Mistake {
    what: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    seed: u64,
}

const MISTAKES: [Mistake; 14] = [
    Mistake {
        what: "two operations speak to a handler about one name",
        file: "src/manager/turns.rs",
        right: "line.is_empty()",
        wrong: "true",
        seed: 6,
    },
    Mistake {
        what: "a turn is never given back",
        file: "src/manager/turns.rs",
        right: "self.waiting.remove(line.start + place);",
        wrong: "let _ = place;",
        seed: 3,
    },
    Mistake {
        what: "a plugin does not leave the actual state before it is deregistered",
        file: "src/manager/execute.rs",
        right: "let Some(left) = self.actual.remove(&attempt.path) else {",
        wrong: "let Some(left) = self.actual.get(&attempt.path).cloned() else {",
        seed: 3,
    },
    Mistake {
        what: "a plugin enters the actual state too late for a removal in between",
        file: "src/manager/operation/steps.rs",
        right: "self.commands.push(Command::EnterActual(plugin.clone()));",
        wrong: "",
        seed: 3,
    },
    Mistake {
        what: "a handler is not told that nobody waits for its answer",
        file: "src/manager/operation/steps.rs",
        right: ".extend([abandon, Command::Hangup, Command::LeaveActual]);",
        wrong: ".extend([Command::Hangup, Command::LeaveActual]);",
        seed: 39,
    },
    Mistake {
        what: "a plugin that could not be registered stays in the actual state",
        file: "src/manager/operation/steps.rs",
        right: "self.commands.push(Command::LeaveActual);",
        wrong: "",
        seed: 6,
    },
    Mistake {
        what: "a failed registration is tried again at once",
        file: "src/manager/pass.rs",
        right: "            socket.backoff.fail(now);",
        wrong: "            socket.backoff.succeed();",
        seed: 3,
    },
    Mistake {
        what: "a socket in the place of another one is taken for the same",
        file: "src/manager/desired.rs",
        right: "if known.identity == identity {",
        wrong: "if known.identity.device == identity.device {",
        seed: 19,
    },
    Mistake {
        what: "the end of a backoff is forgotten",
        file: "src/manager/mod.rs",
        right: "Wake::Retry(path) => self.touch(path),",
        wrong: "Wake::Retry(_) => {}",
        seed: 6,
    },
    Mistake {
        what: "a socket whose name starts with a dot counts",
        file: "src/watch/mod.rs",
        right: "    name.as_bytes().starts_with(b\".\")",
        wrong: "    name.as_bytes().starts_with(b\"..\")",
        seed: 6,
    },
    Mistake {
        what: "the guard of a plugin that has gone is kept",
        file: "src/manager/execute.rs",
        right: "        self.unguard(&left, now);\n",
        wrong: "        let _ = now;\n",
        seed: 3,
    },
    Mistake {
        what: "a plugin that is down is not asked again",
        file: "src/manager/mod.rs",
        right: "Wake::Check(path) => self.check(path, now),",
        wrong: "Wake::Check(_) => {}",
        seed: 796,
    },
    Mistake {
        what: "an overflow of the queue is ignored",
        file: "src/watch/mod.rs",
        right: "Event::Overflowed => self.rescan_all(),",
        wrong: "Event::Overflowed => {}",
        seed: 3,
    },
    Mistake {
        what: "a directory that is moved leaves its sockets behind",
        file: "src/watch/mod.rs",
        right: "        let removed = self.tree.remove_child(dir, name);\n        self.announce(removed);",
        wrong: "        drop(self.tree.remove_child(dir, name));",
        seed: 3,
    },
];

/// Where the copy is made, and built.
const COPY: &str = "target/mistakes/tree";
const BUILD: &str = "target/mistakes/build";

fn main() -> ExitCode {
    copy();
    if found(None).is_some() {
        eprintln!("the simulation fails on the source as it is");
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
        let seed = found(Some(mistake.seed)).or_else(|| found(None));
        fs::write(&copy, source).expect("it can be written");
        if let Some(seed) = seed {
            println!("found by seed {seed}: {}", mistake.what);
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
        .args(["-r", "Cargo.toml", "Cargo.lock", "src", "tests", COPY])
        .status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "the source can be copied"
    );
}

/// The seed that fails on the copy, among all or this one alone.
fn found(seed: Option<u64>) -> Option<u64> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "test",
        "--locked",
        "--quiet",
        "--test",
        "manager",
        "simulation",
    ]);
    cargo
        .current_dir(COPY)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    cargo.env("CARGO_TARGET_DIR", fs::canonicalize(".").ok()?.join(BUILD));
    match seed {
        Some(seed) => cargo.env("SEED", seed.to_string()),
        None => cargo.env_remove("SEED"),
    };
    let output = cargo.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("test result:"), "it does not build:\n{said}");
    if output.status.success() {
        return None;
    }
    let named = said
        .split("SEED=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next()?.parse().ok());
    named.or(seed)
}

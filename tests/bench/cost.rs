//! The figures that do not depend on how busy the machine is, each with its limit:
//! `make full ONLY=cost`.
//!
//! All are counted in a running daemon, whose plugins are another process, and without the kernel.
//!
//! - **Functions** are those of this crate that a debug build runs between a moment without
//!   plugins and one with a registered plugin, the daemon being at rest at both. Its start is over,
//!   in which the links to plugins are compared once. A function counts if the debug information
//!   places it in a file under `src/`: one that `derive` generates counts, one of a dependency does
//!   not. All instances of a generic function count as one, and all closures of a function as one
//!   more.
//! - **Instructions of a registration** are what a plugin adds where plugins appear at once: the
//!   difference between a run with 120 of them and one with 20, each from start to end. **System
//!   calls** are counted likewise, as the lowest of several counts. A busy machine only adds to
//!   them: more turns for the same plugins, and plugins that are found before they listen.
//! - **Instructions of a plugin that comes and goes** are the average of 100, one after the
//!   other. The daemon comes to rest before each appears and before it goes.
//!
//! The limits are 3 % above what was reached with the static binary, to be lowered with it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::field::Field;
use super::instructions::{Counted, FEW, MORE, registering};
use super::report::Table;
use super::subject::{Subject, plugind};

/// Counts everything and prints a table. Fails if a figure exceeds its limit.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let functions = functions()?;
    let files: BTreeSet<_> = functions.iter().map(|(file, _)| file).collect();
    let in_manager = |(file, _): &&(String, String)| file.starts_with("manager/");
    let in_manager = functions.iter().filter(in_manager).count();
    let instructions = difference(|plugins| registering(Subject::Plugind, plugins))? / MORE;
    let calls = difference(|plugins| lowest(|| system_calls(plugins)))? * 100 / MORE;
    let alone = coming_and_going(0)?;
    let beside = coming_and_going(MANY)? * 100 / alone;
    let alone = alone / MORE;
    let figures = [
        ("functions of a registration", 612, functions.len()),
        ("files with one of them", 100, files.len()),
        ("functions of them in manager/", 164, in_manager),
        ("instructions of a registration", 67_900, instructions),
        ("system calls of 100 registrations", 1_920, calls),
        ("instructions of one that comes and goes", 106_000, alone),
        ("the same beside 2,000, in % of that", 108, beside),
    ];
    let row = |&(what, limit, counted): &(&str, usize, usize)| {
        vec![json!(what), json!(limit), json!(counted)]
    };
    let table = Table {
        title: "Counted in the daemon".to_owned(),
        columns: "what, at most, counted",
        rows: figures.iter().map(row).collect(),
    };
    table.print();
    let is_wrong = |(_, limit, counted): &&(_, usize, usize)| *counted == 0 || counted > limit;
    match figures.iter().find(is_wrong) {
        Some((what, ..)) => Err(format!("too much, or nothing counted: {what}").into()),
        None => Ok(()),
    }
}

/// Returns what the additional plugins of the larger run add.
fn difference(
    count: impl Fn(usize) -> Result<usize, Box<dyn Error>>,
) -> Result<usize, Box<dyn Error>> {
    Ok(count(FEW + MORE)? - count(FEW)?)
}

/// Returns the lowest of several counts.
fn lowest(count: impl Fn() -> Result<usize, Box<dyn Error>>) -> Result<usize, Box<dyn Error>> {
    let counts = (0..RUNS).map(|_| count());
    let counts = counts.collect::<Result<Vec<_>, _>>()?;
    Ok(counts.into_iter().min().unwrap_or_default())
}

/// Returns the functions of one registration, each with its file.
fn functions() -> Result<BTreeSet<(String, String)>, Box<dyn Error>> {
    let mut counted = Counted::start(env!("CARGO_BIN_EXE_plugind").as_ref())?;
    counted.field.farm.one_by_one(vec![SETTLED])?;
    counted.dump()?;
    counted.field.farm.at_once(1)?;
    Ok(functions_in(&counted.dump()?))
}

/// Returns the functions of this crate in callgrind's output.
///
/// Its names of functions lack the hashes that distinguish instances and closures.
///
/// `fl=(1) PATH` and `fn=(2) NAME` begin what was counted for a file and a function. Only the first
/// mention of an id has the name, be it as that of a called function: `cfn=(2) NAME`.
fn functions_in(output: &str) -> BTreeSet<(String, String)> {
    let mut names = BTreeMap::new();
    let mut file = None;
    let mut found = BTreeSet::new();
    for line in output.lines() {
        let Some((word, rest)) = line.split_once("=(") else {
            continue;
        };
        let Some((id, name)) = rest.split_once(')') else {
            continue;
        };
        let key = (word.ends_with('n'), id);
        if !name.is_empty() {
            names.insert(key, name.trim());
        }
        let name = names.get(&key).copied().unwrap_or_default();
        match (word, file) {
            ("fl", _) => file = name.strip_prefix(SOURCE),
            ("fn", Some(file)) => {
                found.insert((file.to_owned(), name.to_owned()));
            }
            _ => {}
        }
    }
    found
}

/// Returns the instructions for plugins that come and go one after the other, beside others.
fn coming_and_going(others: usize) -> Result<usize, Box<dyn Error>> {
    let mut counted = Counted::start(&plugind())?;
    counted.field.farm.at_once(others)?;
    counted.field.farm.one_by_one(vec![SETTLED])?;
    counted.dump()?;
    counted.field.farm.one_by_one(vec![PAUSE; MORE])?;
    let output = counted.dump()?;
    let mut lines = output.lines();
    let summary = lines.find_map(|line| line.strip_prefix("summary: "));
    Ok(summary.ok_or("callgrind did not count")?.parse()?)
}

/// Returns the system calls of a daemon that registers this many plugins, from its start to its
/// end.
fn system_calls(plugins: usize) -> Result<usize, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let output = dir.path().join("calls");
    let mut field = Field::new(Subject::Plugind)?;
    let mut command = Command::new("strace");
    // It forwards the signal that ends the daemon.
    command.args(["--interruptible=waiting", "--output"]);
    command.arg(&output);
    let process = field.start_under(command, None)?;
    field.farm.at_once(plugins)?;
    process.until_quiet()?;
    process.end()?;
    Ok(fs::read_to_string(output)?.lines().count())
}

/// The number of counts of which the lowest is taken.
const RUNS: usize = 5;

/// The path of this crate's sources.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");

/// The number of plugins beside which others come and go: nearly as many as there may be.
const MANY: usize = 2_000;

/// The pause before and after each registration: long enough for the daemon to come to rest.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause before counting: the start is over after it, and the links to all those plugins are
/// set, once per second.
const SETTLED: Duration = Duration::from_secs(3);

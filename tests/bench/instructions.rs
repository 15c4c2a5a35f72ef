//! The cost of a registration in instructions, which do not depend on how busy the machine is.
//!
//! `valgrind --tool=callgrind` counts those of the program without the kernel, because most virtual
//! machines do not offer the counters of the processor. All that a process does is counted; the
//! difference between two runs, one with more plugins, is the cost of those plugins.

use std::env;
use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::field::Field;
use super::report::Table;
use super::subject::Subject;

/// The numbers of instructions; empty without valgrind.
pub(crate) struct Instructions {
    registrations: Vec<(Subject, u64)>,
    /// GetInfo in memory, without a socket: as the first call of a connection, which is created for
    /// it, and as a further one.
    calls: Option<(u64, u64)>,
}

pub(crate) fn measure(subjects: &[Subject]) -> Result<Instructions, Box<dyn Error>> {
    let mut registrations = Vec::new();
    let mut calls = None;
    if has_valgrind()? {
        // kubelet's runtime does not work with valgrind.
        for &subject in subjects.iter().filter(|&&it| it != Subject::Kubelet) {
            let more = registering(subject, FEW + MORE)? - registering(subject, FEW)?;
            registrations.push((subject, more / u64::try_from(MORE)?));
        }
        if let Some(program) = env::var_os(CALL_COST) {
            let program = Path::new(&program);
            let first = calling(program, 1)?;
            calls = Some((first, calling(program, 2)? - first));
        }
    }
    Ok(Instructions {
        registrations,
        calls,
    })
}

fn has_valgrind() -> Result<bool, Box<dyn Error>> {
    match Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
    {
        Ok(status) => Ok(status.success()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the instructions of a subject that registers this many plugins, from its start to its
/// end.
fn registering(subject: Subject, plugins: usize) -> Result<u64, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("log");
    let mut field = Field::new(subject)?;
    let process = field.start_under(counting(&log))?;
    field.farm.at_once(plugins)?;
    process.until_quiet()?;
    process.end()?;
    collected(&log)
}

/// Returns the instructions of one connection with this many calls, in memory.
fn calling(program: &Path, calls: usize) -> Result<u64, Box<dyn Error>> {
    let of = |connections: usize| {
        let dir = tempfile::tempdir()?;
        let log = dir.path().join("log");
        let mut command = counting(&log);
        let numbers = [connections, calls].map(|number| number.to_string());
        let status = command.arg(program).args(numbers).status()?;
        if !status.success() {
            return Err(format!("{}: {status}", program.display()).into());
        }
        collected(&log)
    };
    Ok((of(FEW + MORE)? - of(FEW)?) / u64::try_from(MORE)?)
}

/// Returns a command that counts the instructions of the program behind it.
fn counting(log: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("--log-file={}", log.display()));
    command
}

/// Returns the number of counted instructions.
fn collected(log: &Path) -> Result<u64, Box<dyn Error>> {
    let log = fs::read_to_string(log)?;
    let count = log.lines().find_map(|line| line.split_once("Collected :"));
    Ok(count.ok_or("valgrind did not count")?.1.trim().parse()?)
}

impl Instructions {
    /// Returns the cost of encoding GetInfo's request and decoding its reply, with everything else
    /// that belongs to the first call of a connection.
    pub(crate) fn get_info(&self) -> Option<u64> {
        self.calls.map(|(first, _)| first)
    }

    pub(crate) fn table(&self) -> Table {
        let row = |(subject, count): &(Subject, u64)| {
            vec![
                json!(format!("one registration, {}", subject.name())),
                json!(count),
            ]
        };
        let mut rows: Vec<_> = self.registrations.iter().map(row).collect();
        if let Some((first, further)) = self.calls {
            rows.push(vec![
                json!("GetInfo in memory, with the set-up"),
                json!(first),
            ]);
            rows.push(vec![json!("GetInfo in memory, once more"), json!(further)]);
        }
        Table {
            title: "Instructions, without the kernel's (callgrind)".to_owned(),
            name: "instructions",
            columns: vec!["what", "instructions"],
            rows,
        }
    }
}

/// The number of plugins or connections in the smaller run, in which one-time work is done as well.
const FEW: usize = 20;

/// The number of additional ones in the other run.
const MORE: usize = 100;

/// The environment variable that names the program `call-cost`.
const CALL_COST: &str = "PLUGIND_BENCH_CALL_COST";

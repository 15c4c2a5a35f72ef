//! What a registration costs in instructions, which do not depend on how busy the machine is.
//!
//! `valgrind --tool=callgrind` counts them, of the program without the kernel, because the counters
//! of the processor are not there in most virtual machines. Everything is counted that a process
//! does; the difference between two runs, one with more plugins, is what those plugins cost.

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

/// How many instructions things take; none where there is no valgrind.
pub(crate) struct Instructions {
    registrations: Vec<(Subject, u64)>,
    /// One GetInfo in memory, without any socket.
    pub(crate) call: Option<u64>,
}

pub(crate) fn measure(subjects: &[Subject]) -> Result<Instructions, Box<dyn Error>> {
    let mut registrations = Vec::new();
    let mut call = None;
    if has_valgrind()? {
        // kubelet's runtime is not for valgrind.
        for &subject in subjects.iter().filter(|&&it| it != Subject::Kubelet) {
            let more = registering(subject, FEW + MORE)? - registering(subject, FEW)?;
            registrations.push((subject, more / u64::try_from(MORE)?));
        }
        if let Some(program) = env::var_os(CALL_COST) {
            let program = Path::new(&program);
            let more = calling(program, FEW + MORE)? - calling(program, FEW)?;
            call = Some(more / u64::try_from(MORE)?);
        }
    }
    Ok(Instructions {
        registrations,
        call,
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

/// The instructions of a subject that registers so many plugins, from its start to its end.
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

/// The instructions of the program that makes so many calls in memory.
fn calling(program: &Path, calls: usize) -> Result<u64, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("log");
    let status = counting(&log)
        .arg(program)
        .arg(calls.to_string())
        .status()?;
    if !status.success() {
        return Err(format!("{}: {status}", program.display()).into());
    }
    collected(&log)
}

/// What counts the instructions of the program behind it.
fn counting(log: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("--log-file={}", log.display()));
    command
}

/// What was counted.
fn collected(log: &Path) -> Result<u64, Box<dyn Error>> {
    let log = fs::read_to_string(log)?;
    let count = log.lines().find_map(|line| line.split_once("Collected :"));
    Ok(count.ok_or("valgrind did not count")?.1.trim().parse()?)
}

impl Instructions {
    pub(crate) fn table(&self) -> Table {
        let row = |(subject, count): &(Subject, u64)| {
            vec![
                json!(format!("one registration, {}", subject.name())),
                json!(count),
            ]
        };
        let mut rows: Vec<_> = self.registrations.iter().map(row).collect();
        if let Some(call) = self.call {
            rows.push(vec![
                json!("GetInfo's request and reply in memory, plugind"),
                json!(call),
            ]);
        }
        Table {
            title: "Instructions, without the kernel's (callgrind)".to_owned(),
            name: "instructions",
            columns: vec!["what", "instructions"],
            rows,
        }
    }
}

/// How many plugins, or calls, a run has at least: what is done once is done then.
const FEW: usize = 20;

/// How many more the other run has.
const MORE: usize = 100;

/// The environment variable that names the program `call-cost`.
const CALL_COST: &str = "PLUGIND_BENCH_CALL_COST";

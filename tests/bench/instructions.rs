//! The cost of a registration in instructions, which do not depend on how busy the machine is.
//!
//! `valgrind --tool=callgrind` counts those of the program without the kernel, because most virtual
//! machines do not offer the counters of the processor. All that a process does is counted; the
//! difference between two runs, one with more plugins, is the cost of those plugins.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use tempfile::TempDir;

use super::field::Field;
use super::process::Process;
use super::report::Table;
use super::subject::Subject;

/// The numbers of instructions; empty without valgrind.
pub(crate) struct Instructions {
    registrations: Vec<(Subject, usize)>,
    /// GetInfo in memory, without a socket: as the first call of a connection, which is created for
    /// it, and as a further one.
    calls: Option<(usize, usize)>,
}

pub(crate) fn measure(subjects: &[Subject]) -> Result<Instructions, Box<dyn Error>> {
    let mut registrations = Vec::new();
    let mut calls = None;
    if has_valgrind()? {
        // kubelet's runtime does not work with valgrind.
        for &subject in subjects.iter().filter(|&&it| it != Subject::Kubelet) {
            let more = registering(subject, FEW + MORE)? - registering(subject, FEW)?;
            registrations.push((subject, more / MORE));
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
pub(crate) fn registering(subject: Subject, plugins: usize) -> Result<usize, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("log");
    let mut field = Field::new(subject)?;
    let process = field.start_under(counting(&log), None)?;
    field.farm.at_once(plugins)?;
    process.until_quiet()?;
    process.end()?;
    collected(&log)
}

/// A daemon whose instructions are counted from one moment to the next.
pub(crate) struct Counted {
    pub(crate) field: Field,
    process: Process,
    dumps: usize,
    dir: TempDir,
}

impl Counted {
    pub(crate) fn start(program: &OsStr) -> Result<Self, Box<dyn Error>> {
        let dir = tempfile::tempdir()?;
        let mut field = Field::new(Subject::Plugind)?;
        let mut command = Command::new("valgrind");
        let output = dir.path().join("output");
        command.args(["--tool=callgrind", "--quiet"]);
        command.arg(format!("--callgrind-out-file={}", output.display()));
        Ok(Self {
            process: field.start_under(command, Some(program))?,
            field,
            dumps: 0,
            dir,
        })
    }

    /// Waits until the daemon is at rest. Returns callgrind's output about everything since the
    /// last call.
    pub(crate) fn dump(&mut self) -> Result<String, Box<dyn Error>> {
        self.process.until_quiet()?;
        let pid = self.process.id().to_string();
        let status = Command::new("callgrind_control")
            .args(["--dump", &pid])
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            return Err(format!("callgrind_control: {status}").into());
        }
        self.dumps += 1;
        Ok(fs::read_to_string(
            self.dir.path().join(format!("output.{}", self.dumps)),
        )?)
    }
}

/// Returns the instructions of one connection with this many calls, in memory.
fn calling(program: &Path, calls: usize) -> Result<usize, Box<dyn Error>> {
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
    Ok((of(FEW + MORE)? - of(FEW)?) / MORE)
}

/// Returns a command that counts the instructions of the program behind it.
fn counting(log: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("--log-file={}", log.display()));
    command
}

/// Returns the number of counted instructions.
fn collected(log: &Path) -> Result<usize, Box<dyn Error>> {
    let log = fs::read_to_string(log)?;
    let count = log.lines().find_map(|line| line.split_once("Collected :"));
    Ok(count.ok_or("valgrind did not count")?.1.trim().parse()?)
}

impl Instructions {
    /// Returns the cost of encoding GetInfo's request and decoding its reply, with everything else
    /// that belongs to the first call of a connection.
    pub(crate) fn get_info(&self) -> Option<u64> {
        u64::try_from(self.calls?.0).ok()
    }

    pub(crate) fn table(&self) -> Table {
        let row = |(subject, count): &(Subject, usize)| {
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
pub(crate) const FEW: usize = 20;

/// The number of additional ones in the other run.
pub(crate) const MORE: usize = 100;

/// The environment variable that names the program `call-cost`.
const CALL_COST: &str = "TEST_BENCH_CALL_COST";

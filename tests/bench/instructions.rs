//! The cost of a registration in instructions, which do not depend on how busy the machine is.
//!
//! `valgrind --tool=callgrind` counts those of the program without the kernel, because most virtual
//! machines do not offer the counters of the processor. All that a process does is counted; the
//! difference between two runs, one with more plugins, is the cost of those plugins.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::field::Field;
use super::process::Process;
use super::subject::Subject;

/// Returns the instructions of a subject that registers this many plugins, from its start to its
/// end.
pub(crate) fn registering(subject: Subject, plugins: usize) -> Result<usize, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("log");
    let mut field = Field::new(subject)?;
    let mut counting = Command::new("valgrind");
    counting.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    counting.arg(format!("--log-file={}", log.display()));
    let process = field.start_under(counting, None)?;
    field.farm.at_once(plugins)?;
    process.until_quiet()?;
    process.end()?;
    let log = fs::read_to_string(log)?;
    let count = log.lines().find_map(|line| line.split_once("Collected :"));
    Ok(count.ok_or("valgrind did not count")?.1.trim().parse()?)
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

/// The number of plugins in the smaller run, in which one-time work is done as well.
pub(crate) const FEW: usize = 20;

/// The number of additional ones in the other run.
pub(crate) const MORE: usize = 100;

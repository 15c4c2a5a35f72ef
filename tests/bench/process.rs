//! The kernel's figures of a process.

use std::error::Error;
use std::fs;
use std::io;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A measured process, which ends when this is dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the CPU time of its threads so far.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        let mut sum = 0;
        for text in self.of_threads("schedstat")? {
            let ran = text.split(' ').next().and_then(|ran| ran.parse().ok());
            sum += ran.unwrap_or(0);
        }
        Ok(Duration::from_nanos(sum))
    }

    /// Returns how often its threads have stopped running so far, voluntarily or not: in a process
    /// at rest, how often it was woken.
    pub(crate) fn switches(&self) -> io::Result<u64> {
        let mut sum = 0;
        for text in self.of_threads("status")? {
            sum += number(&text, "voluntary_ctxt_switches:");
            sum += number(&text, "nonvoluntary_ctxt_switches:");
        }
        Ok(sum)
    }

    /// Returns the peak of its resident memory so far (KiB).
    pub(crate) fn peak(&self) -> io::Result<u64> {
        Ok(number(&self.file("status")?, "VmHWM:"))
    }

    /// Returns its memory now.
    pub(crate) fn memory(&self) -> io::Result<Memory> {
        let text = self.file("smaps_rollup")?;
        Ok(Memory {
            resident: number(&text, "Rss:"),
            private_dirty: number(&text, "Private_Dirty:"),
        })
    }

    /// Returns the number of descriptors that it has open.
    pub(crate) fn descriptors(&self) -> io::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.0.id()))?.count())
    }

    /// Waits until it has nothing more to do, for a limited time.
    pub(crate) fn until_quiet(&self) -> io::Result<()> {
        let start = Instant::now();
        let mut before = None;
        while start.elapsed() < MOST_UNREST {
            let now = (self.switches()?, self.cpu()?);
            if before == Some(now) && now.1 > Duration::ZERO {
                break;
            }
            before = Some(now);
            thread::park_timeout(REST);
        }
        Ok(())
    }

    /// Ends the process with SIGTERM, and waits for the end.
    pub(crate) fn end(mut self) -> Result<(), Box<dyn Error>> {
        kill(Pid::from_raw(i32::try_from(self.0.id())?), Signal::SIGTERM)?;
        self.0.wait()?;
        Ok(())
    }

    fn file(&self, name: &str) -> io::Result<String> {
        fs::read_to_string(format!("/proc/{}/{name}", self.0.id()))
    }

    /// Returns this file of each of its threads.
    fn of_threads(&self, name: &str) -> io::Result<Vec<String>> {
        let mut files = Vec::new();
        for thread in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            files.push(fs::read_to_string(thread?.path().join(name))?);
        }
        Ok(files)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The memory of a process (KiB).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// All resident memory: its own, and mapped files.
    pub(crate) resident: u64,
    /// The memory that is not shared, and would have to be written somewhere to be freed.
    pub(crate) private_dirty: u64,
}

/// Returns the number behind `word` at the start of a line, or 0 without such a line.
fn number(text: &str, word: &str) -> u64 {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(word));
    let digits = line.map(|line| line.trim().trim_end_matches(" kB"));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The time for which a process must do nothing to be at rest.
const REST: Duration = Duration::from_millis(100);

/// The longest wait until a process is at rest.
const MOST_UNREST: Duration = Duration::from_secs(3);

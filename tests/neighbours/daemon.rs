//! The built binary as a daemon whose log is read, and measurements of it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use rustix::process::setpriority_process;
use tempfile::TempDir;

use crate::support::daemon;
use crate::support::process::Process;

/// A running daemon, which does not outlive the test.
pub(crate) struct Daemon {
    process: Process,
    root: TempDir,
    /// The length of the log (octets).
    log_len: Arc<AtomicU64>,
}

/// A log whose octets are counted as they are read.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Daemon {
    /// Starts a daemon with these options, which watches a directory of its own when this returns.
    pub(crate) fn start(options: &[OsString]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut command = Process::command();
        command.arg("run").arg("--plugins-dir").arg(root.path());
        command.args(options).stdin(Stdio::null());
        let log_len = Arc::new(AtomicU64::new(0));
        let octets = Arc::clone(&log_len);
        let process = Process::start(command.stderr(Stdio::piped()), |child| {
            Some(Counted(child.stderr.take()?, octets))
        });
        let daemon = Self {
            process,
            root,
            log_len,
        };
        if let Some([first, _]) = processors() {
            sched_setaffinity(daemon.pid(), &first).unwrap();
        }
        daemon.until_logged("watching ");
        daemon
    }

    /// Returns the watched directory.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Returns the length of the log (octets).
    pub(crate) fn log_len(&self) -> u64 {
        self.log_len.load(Ordering::Relaxed)
    }

    /// Drops the lines that were logged before.
    pub(crate) fn forget_lines(&self) {
        while self.process.lines.try_recv().is_ok() {}
    }

    /// Removes the lines of the log, and returns those with these words.
    pub(crate) fn lines_with(&self, words: &str) -> Vec<String> {
        let lines = self.process.lines.try_iter();
        lines.filter(|line| line.contains(words)).collect()
    }

    /// Waits for a line of the log with these words, and returns it.
    #[track_caller]
    pub(crate) fn until_logged(&self, words: &str) -> String {
        self.process.until_line(words)
    }

    /// Returns the longest turn since the last call, which the daemon logs on a signal.
    #[track_caller]
    pub(crate) fn longest_turn(&self) -> Duration {
        self.forget_lines();
        self.signal(Signal::SIGUSR1);
        let line = self.until_logged(LONGEST_TURN);
        let (_, time) = line.split_once(LONGEST_TURN).unwrap();
        Duration::from_micros(time.trim().parse().unwrap())
    }

    /// Returns how long the daemon was kept from running so far: it waited for its processor, or
    /// this virtual machine waited for a processor of its host.
    pub(crate) fn delay(&self) -> Duration {
        let path = format!("/proc/{}/schedstat", self.process.id());
        // A kernel may be built without it.
        let stat = fs::read_to_string(path).unwrap_or_default();
        let delay = stat.split_whitespace().nth(1).unwrap_or("0");
        Duration::from_nanos(delay.parse().unwrap()) + stolen()
    }

    /// Gives the daemon priority over all other processes on its processor, if that is allowed: a
    /// measurement of its turns should not include what else the machine does.
    pub(crate) fn run_before_all_others(&self) {
        let mut command = Command::new("chrt");
        command.args(["--reset-on-fork", "--fifo", "--pid", "1"]);
        let _ = command
            .arg(self.pid().to_string())
            .stderr(Stdio::null())
            .status();
    }

    /// Does nearly the same without real-time priority, if that is allowed.
    pub(crate) fn run_before_most_others(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid().as_raw());
        let _ = setpriority_process(pid, -20);
    }

    /// Returns the resident memory of the daemon (KiB).
    pub(crate) fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Returns the most resident memory that the daemon has had (KiB).
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> u64 {
        daemon::status(&self.process.id().to_string(), name)
    }

    /// Sends a signal that ends the daemon. Returns how long it took until the log mentioned the
    /// signal and until the process had ended, and the directory: the attack continues in it.
    #[track_caller]
    pub(crate) fn end_with(self, signal: Signal) -> (Duration, Duration, TempDir) {
        self.forget_lines();
        let start = Instant::now();
        self.signal(signal);
        self.until_logged(&format!("received {signal}"));
        let heard = start.elapsed();
        let (status, _) = self.process.end();
        assert!(status.success(), "{status}");
        (heard, start.elapsed(), self.root)
    }
}

/// Leaves the first processor to the daemon, if there are two: measurements of the daemon should
/// not include its waits for the attacker and for the honest plugin.
pub(crate) fn share_processors() {
    if let Some([_, others]) = processors() {
        sched_setaffinity(Pid::from_raw(0), &others).unwrap();
    }
}

/// Makes this thread use every processor that this process may use.
pub(crate) fn use_all_processors() {
    sched_setaffinity(Pid::from_raw(0), &allowed()).unwrap();
}

fn allowed() -> CpuSet {
    sched_getaffinity(Pid::from_raw(i32::try_from(std::process::id()).unwrap())).unwrap()
}

/// Returns how long the first processor was given to other guests of its host.
fn stolen() -> Duration {
    let allowed = allowed();
    let first = (0..CpuSet::count()).find(|&n| allowed.is_set(n).unwrap());
    let name = format!("cpu{} ", first.unwrap());
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let times = stat.lines().find_map(|line| line.strip_prefix(&name));
    // proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
    let steal = times.and_then(|times| times.split_whitespace().nth(7));
    TICK * steal.map_or(0, |steal| steal.parse().unwrap())
}

/// Returns the first of the processors that this process may use, and the others.
fn processors() -> Option<[CpuSet; 2]> {
    let allowed = allowed();
    let mut numbers = (0..CpuSet::count()).filter(|&n| allowed.is_set(n).unwrap());
    let mut first = CpuSet::new();
    first.set(numbers.next()?).unwrap();
    let mut others = CpuSet::new();
    others.set(numbers.next()?).unwrap();
    numbers.for_each(|n| others.set(n).unwrap());
    Some([first, others])
}

/// The text before the longest turn (µs) in the line that is logged on SIGUSR1.
const LONGEST_TURN: &str = "longest_turn_us=";

/// The unit of `/proc/stat`: USER_HZ is 100 on all architectures that Rust supports.
const TICK: Duration = Duration::from_millis(10);

//! The built binary as a daemon that runs, and its log.

#![allow(dead_code, reason = "each test needs a part of it")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::binary::binary;

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running daemon and its log.
pub(crate) struct Daemon {
    child: Running,
    pub(crate) log: Receiver<String>,
}

impl Daemon {
    /// A daemon on `dir`, which it watches when this returns.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(&["--plugins-dir".as_ref(), dir.as_os_str()])
    }

    /// A daemon with these options, which watches when this returns.
    pub(crate) fn start_with(options: &[&OsStr]) -> Self {
        let mut child = Command::new(binary())
            .arg("run")
            .args(options)
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (lines, log) = mpsc::channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        let mut daemon = Self {
            child: Running(child),
            log,
        };
        daemon.until_logged("watching ");
        daemon
    }

    /// Waits for a line of the log that holds `words`, and returns it.
    #[track_caller]
    pub(crate) fn until_logged(&mut self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.recv_timeout(left) else {
                panic!("no line with {words:?}, but {seen:#?}");
            };
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
    }

    /// How often the daemon has gone to sleep so far, and so has been woken.
    pub(crate) fn wakeups(&self) -> u64 {
        status(&self.child.0.id().to_string(), "voluntary_ctxt_switches:")
    }

    /// Sends a signal and waits for the end: its status, and how long it took.
    pub(crate) fn end_with(mut self, signal: Signal) -> (ExitStatus, Duration) {
        let pid = Pid::from_raw(i32::try_from(self.child.0.id()).unwrap());
        let start = Instant::now();
        kill(pid, signal).unwrap();
        let (ended, end) = mpsc::channel();
        let waiter =
            thread::spawn(move || ended.send((self.child.0.wait().unwrap(), start.elapsed())));
        let end = end.recv_timeout(PATIENCE).expect("the daemon ends");
        waiter.join().unwrap().unwrap();
        end
    }
}

/// The number behind this word in the status of a process.
pub(crate) fn status(process: &str, word: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(word)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// How long anything may take here: a hundred times what it does, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);

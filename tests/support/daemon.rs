//! The built binary as a running daemon, and its log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use nix::sys::signal::Signal;
use plugind::config::READY_GRACE;

use super::process::Process;
use super::until::until;

/// A running daemon and its log.
pub(crate) struct Daemon {
    process: Process,
    /// The lines that were logged before the daemon watched its directories.
    seen: Vec<String>,
}

impl Daemon {
    /// Starts a daemon that watches `dir` when this returns.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(dir, &[])
    }

    /// Does the same with further options.
    pub(crate) fn start_with(dir: &Path, options: &[&str]) -> Self {
        let mut command = Process::command();
        command.args(["run", "--plugins-dir"]).arg(dir);
        Self::start_command(command.args(options))
    }

    /// Starts a daemon in strict mode, with a run directory in `dir` and with these options and
    /// their values.
    pub(crate) fn start_strict(dir: &Path, options: &[(&str, PathBuf)]) -> Self {
        let mut command = Process::command();
        command.args(["run", "--trust=strict", "--run-dir"]);
        command.arg(dir.join("run"));
        for (option, value) in options {
            command.arg(option).arg(value);
        }
        Self::start_command(&mut command)
    }

    /// Starts a daemon with this command, which watches its directories when this returns.
    ///
    /// The daemon does not inherit the output of the test. A panic that aborts a test leaves its
    /// daemon behind (`make static`), and the test runner reads that output until it is closed.
    pub(crate) fn start_command(command: &mut Command) -> Self {
        Self::start_plainly(command.stdin(Stdio::null()).stdout(Stdio::null()))
    }

    /// Does the same with the input and the output that the command has.
    pub(crate) fn start_plainly(command: &mut Command) -> Self {
        let process = Process::logging(command);
        let seen = process.lines_until("watching ");
        Self { process, seen }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the lines that hold `words` and were logged before the daemon watched.
    pub(crate) fn seen_with(&self, words: &str) -> Vec<String> {
        let lines = self.seen.iter().filter(|line| line.contains(words));
        lines.cloned().collect()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for a line of the log that holds `words`, and returns it.
    #[track_caller]
    pub(crate) fn until_logged(&mut self, words: &str) -> String {
        self.process.until_line(words)
    }

    /// Waits for a line of the log that holds `words`, and returns all lines up to it.
    #[track_caller]
    pub(crate) fn lines_until(&mut self, words: &str) -> Vec<String> {
        self.process.lines_until(words)
    }

    /// Returns the next line that the daemon logs within `time`.
    pub(crate) fn line_within(&self, time: Duration) -> Option<String> {
        self.process.lines.recv_timeout(time).ok()
    }

    /// Returns whether the daemon logs nothing for `time`.
    pub(crate) fn is_silent_for(&self, time: Duration) -> bool {
        self.process.lines.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }

    /// Waits until the daemon is at rest, and returns how often it was woken.
    #[track_caller]
    pub(crate) fn until_at_rest(&self) -> u64 {
        // Links to plugins from before are compared once, and the last connection is closed a
        // moment after the last line is written.
        assert_eq!(self.line_within(READY_GRACE), None);
        let mut wakeups = self.wakeups();
        until("the daemon rests", || {
            assert!(self.is_silent_for(Duration::from_millis(300)));
            let before = std::mem::replace(&mut wakeups, self.wakeups());
            (before == wakeups).then_some(wakeups)
        })
    }

    /// Returns how often the daemon has gone to sleep so far, which is how often it was woken.
    pub(crate) fn wakeups(&self) -> u64 {
        status(&self.process.id().to_string(), "voluntary_ctxt_switches:")
    }

    /// Returns the number of descriptors that the daemon has open.
    pub(crate) fn descriptors(&self) -> usize {
        let open = format!("/proc/{}/fd", self.process.id());
        fs::read_dir(open).unwrap().count()
    }

    /// Returns the resident memory of the daemon (KiB).
    pub(crate) fn resident(&self) -> u64 {
        status(&self.process.id().to_string(), "VmRSS:")
    }

    /// Sends a signal and waits for the end. Returns the exit status, and how long it took.
    pub(crate) fn end_with(self, signal: Signal) -> (ExitStatus, Duration) {
        self.process.signal(signal);
        self.process.end()
    }
}

/// Returns the number behind `word` in the status of a process.
pub(crate) fn status(process: &str, word: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(word)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

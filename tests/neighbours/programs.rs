//! Programs of `--exec`: one that is missing for a moment, one that runs when the daemon is killed,
//! and the arguments that hostile plugins would cause.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::row::alone;
use crate::support::plugin::Plugin;
use crate::support::skip::programs_can_be_trusted_or_skip;

/// A program for a type, in a directory of its own.
pub(crate) struct Hook(TempDir);

impl Hook {
    /// Installs this script, in which `$OUT` is its directory, as the program.
    pub(crate) fn new(script: &str) -> Self {
        let hook = Self(tempfile::tempdir().unwrap());
        let script = format!("#!/bin/sh\nOUT={}\n{script}\n", hook.0.path().display());
        // Through another process: while this process has it open, it cannot be run.
        let written = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"])
            .args([script.as_ref(), hook.program().as_os_str()])
            .status();
        assert!(written.unwrap().success());
        hook
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("hook")
    }

    /// Returns the options that make it the program of the type `Hooked`.
    pub(crate) fn options(&self) -> [OsString; 2] {
        self.options_for("Hooked")
    }

    pub(crate) fn options_for(&self, kind: &str) -> [OsString; 2] {
        let value = format!("{kind}={}", self.program().display());
        ["--exec".into(), value.into()]
    }

    /// Returns what the program has written to the file with this name.
    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
    }
}

#[test]
fn a_program_does_not_outlive_a_daemon_that_is_killed() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    let _alone = alone();
    let hook = Hook::new(r"echo $$ > $OUT/started; mv $OUT/started $OUT/pid; exec sleep 1000");
    let daemon = Daemon::start(&hook.options());
    let _plugin = Plugin::serve_type(&daemon.root().join("hook.sock"), "Hooked", "disk");
    let end = Instant::now() + PATIENCE;
    while hook.written("pid").is_empty() {
        assert!(Instant::now() < end, "the program was not started");
        std::thread::yield_now();
    }
    let program = Pid::from_raw(hook.written("pid").trim().parse().unwrap());
    daemon.signal(Signal::SIGKILL);
    while !is_gone(program) {
        assert!(Instant::now() < end, "the program still runs");
        std::thread::yield_now();
    }
}

/// Returns whether the process does not exist, or has ended and was not waited for yet.
fn is_gone(pid: Pid) -> bool {
    let stat = Path::new("/proc").join(pid.to_string()).join("stat");
    let stat = fs::read_to_string(stat).unwrap_or_default();
    kill(pid, None) == Err(Errno::ESRCH) || stat.contains(") Z ")
}

/// The time limit for a program's start and end.
const PATIENCE: Duration = Duration::from_secs(60);

//! Programs of `--exec`: one that is missing for a moment, one that runs when the daemon is killed,
//! and the arguments that hostile plugins would cause.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::row::alone;
use crate::support::plugin::Plugin;
use crate::support::program::{install, is_gone};
use crate::support::skip::programs_can_be_trusted_or_skip;
use crate::support::until::until;

/// A program for a type, in a directory of its own.
pub(crate) struct Hook(TempDir);

impl Hook {
    /// Installs this script, in which `$OUT` is its directory, as the program.
    pub(crate) fn new(script: &str) -> Self {
        let hook = Self(tempfile::tempdir().unwrap());
        let script = format!("#!/bin/sh\nOUT={}\n{script}\n", hook.0.path().display());
        install(&hook.program(), &script);
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
    let program = until("the program is started", || {
        hook.written("pid").trim().parse().ok()
    });
    daemon.signal(Signal::SIGKILL);
    until("the program has gone", || {
        is_gone(Pid::from_raw(program)).then_some(())
    });
}

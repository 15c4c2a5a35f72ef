//! The built binary as a plugin that runs, and what it says.

#![allow(dead_code, reason = "each test needs a part of it")]

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::Signal;

use crate::daemon::process::Process;

/// A simulated plugin that runs.
pub(crate) struct Simulated {
    process: Process,
    socket: PathBuf,
}

impl Simulated {
    /// A plugin in `dir` that is called `name`, with these options, which listens when this
    /// returns.
    pub(crate) fn start(dir: &Path, kind: &str, name: &str, options: &[&str]) -> Self {
        let mut command = Process::command();
        command.arg("simulate").arg("--dir").arg(dir);
        command.args(["--type", kind, "--name", name]).args(options);
        command.stdout(Stdio::piped());
        let process = Process::start(&mut command, |child| child.stdout.take());
        let file = format!("{}-reg.sock", name.replace('/', "_"));
        let plugin = Self {
            process,
            socket: dir.join(file),
        };
        let socket = plugin.socket.display().to_string();
        plugin.until_said(&format!("{name}: listening on {socket}"));
        plugin
    }

    /// Its registration socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Waits for a line that holds `words`, and returns it.
    #[track_caller]
    pub(crate) fn until_said(&self, words: &str) -> String {
        self.process.until_line(words)
    }

    /// The next line, if there is one already.
    pub(crate) fn try_said(&self) -> Option<String> {
        self.process.lines.try_recv().ok()
    }

    /// Breaks a device, or repairs it.
    pub(crate) fn hit(&self) {
        self.process.signal(Signal::SIGUSR1);
    }

    /// Kills it, so that it leaves its socket behind.
    pub(crate) fn kill(&self) {
        self.process.signal(Signal::SIGKILL);
    }

    /// Asks it to end, and waits until it has, with these as its last words.
    #[track_caller]
    pub(crate) fn end_saying(self, words: &str) -> ExitStatus {
        self.process.signal(Signal::SIGTERM);
        self.until_said(words);
        self.until_ended()
    }

    /// Waits until it has ended.
    #[track_caller]
    pub(crate) fn until_ended(self) -> ExitStatus {
        self.process.end().0
    }
}

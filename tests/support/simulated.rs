//! The built binary as a simulated plugin, and the lines that it prints.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use nix::sys::signal::Signal;

use super::process::Process;

/// A simulated plugin that runs.
pub(crate) struct Simulated {
    process: Process,
    socket: PathBuf,
}

impl Simulated {
    /// Starts a plugin with these options and this name in `dir`, which listens when this returns.
    pub(crate) fn start(dir: &Path, kind: &str, name: &str, options: &[&str]) -> Self {
        Self::start_command(Process::command(), dir, (kind, name), options)
    }

    /// Does the same with a command that runs the binary.
    pub(crate) fn start_command(
        mut command: Command,
        dir: &Path,
        (kind, name): (&str, &str),
        options: &[&str],
    ) -> Self {
        command.arg("simulate").arg("--dir").arg(dir);
        command.args(["--type", kind, "--name", name]).args(options);
        let process = Process::printing(&mut command);
        let is_legacy = options.contains(&"--legacy");
        let suffix = if is_legacy { "plugin" } else { "reg" };
        let file = format!("{}-{suffix}.sock", name.replace('/', "_"));
        let plugin = Self {
            process,
            socket: dir.join(file),
        };
        let socket = plugin.socket.display().to_string();
        plugin.until_said(&format!("{name}: listening on {socket}"));
        plugin
    }

    /// Returns the path of its registration socket, or of its only socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Waits for a line that holds `words`, and returns it.
    #[track_caller]
    pub(crate) fn until_said(&self, words: &str) -> String {
        self.process.until_line(words)
    }

    /// Returns the next line, or `None` if there is none yet.
    pub(crate) fn try_said(&self) -> Option<String> {
        self.process.lines.try_recv().ok()
    }

    /// Makes a device unhealthy, or healthy again.
    pub(crate) fn hit(&self) {
        self.process.signal(Signal::SIGUSR1);
    }

    /// Kills the plugin, so that it leaves its socket behind.
    pub(crate) fn kill(&self) {
        self.process.signal(Signal::SIGKILL);
    }

    /// Ends the plugin with SIGTERM and waits for a line that holds `words` and for the exit.
    #[track_caller]
    pub(crate) fn end_saying(self, words: &str) -> ExitStatus {
        self.process.signal(Signal::SIGTERM);
        self.until_said(words);
        self.until_ended()
    }

    /// Waits until the plugin has ended.
    #[track_caller]
    pub(crate) fn until_ended(self) -> ExitStatus {
        self.process.end().0
    }
}

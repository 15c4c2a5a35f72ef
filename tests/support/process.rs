//! The built binary as a running process, and the lines that it writes.

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::binary::binary;

/// A child that does not outlive the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The exit code of a command, and what it has printed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Returns the output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the exit code, and that the errors contain these words.
    #[track_caller]
    pub(crate) fn assert_fails(&self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains(words), "no {words:?} in {self:?}");
    }
}

/// A running process, and the lines it has written that were not read yet.
pub(crate) struct Process {
    child: Running,
    pub(crate) lines: Receiver<String>,
}

impl Process {
    /// Returns a command that runs the binary, without the machine's configuration and without an
    /// API: daemons of other tests have the same run directory.
    pub(crate) fn command() -> Command {
        Self::undisturbed(Command::new(binary()))
    }

    /// Returns a command with which a shell runs the binary, behind this script.
    pub(crate) fn command_behind(script: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{script} exec \"$0\" \"$@\""));
        command.arg(binary());
        Self::undisturbed(command)
    }

    fn undisturbed(mut command: Command) -> Command {
        command
            .env_remove("RUST_LOG")
            .env("PLUGIND_API_SOCKET", "none")
            .env("PLUGIND_CONFIG", "none");
        command
    }

    /// Returns a command that asks the daemon at this socket.
    pub(crate) fn asking(socket: &Path, arguments: &[&str]) -> Command {
        let mut command = Self::command();
        command.args(arguments).env("PLUGIND_API_SOCKET", socket);
        command
    }

    /// Runs such a command.
    #[track_caller]
    pub(crate) fn ask(socket: &Path, arguments: &[&str]) -> Ran {
        Self::run(&mut Self::asking(socket, arguments))
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(command: &mut Command) -> Ran {
        let output = command.output().unwrap();
        let text = |octets| String::from_utf8(octets).unwrap();
        Ran {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Starts the command, and reads its standard output.
    pub(crate) fn printing(command: &mut Command) -> Self {
        Self::start(command.stdout(Stdio::piped()), |child| child.stdout.take())
    }

    /// Starts the command, and reads its standard error.
    pub(crate) fn logging(command: &mut Command) -> Self {
        Self::start(command.stderr(Stdio::piped()), |child| child.stderr.take())
    }

    /// Starts the command, and reads the output that `output` takes from the child.
    pub(crate) fn start<R: Read + Send + 'static>(
        command: &mut Command,
        output: impl FnOnce(&mut Child) -> Option<R>,
    ) -> Self {
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(output(&mut child).unwrap());
        let (writer, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = writer.send(line);
            }
        });
        let child = Running(child);
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Waits for a line that holds `words`, and returns it.
    #[track_caller]
    pub(crate) fn until_line(&self, words: &str) -> String {
        let mut lines = self.lines_until(words);
        lines.pop().expect("the line is the last of them")
    }

    /// Waits for a line that holds `words`, and returns all lines up to it.
    #[track_caller]
    pub(crate) fn lines_until(&self, words: &str) -> Vec<String> {
        let end = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line with {words:?}, but {seen:#?}");
            };
            let is_it = line.contains(words);
            seen.push(line);
            if is_it {
                return seen;
            }
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.id()).unwrap());
        kill(pid, signal).unwrap();
    }

    /// Waits for the end. Returns the exit status, and how long it took.
    pub(crate) fn end(mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let (ended, end) = mpsc::channel();
        let waiter =
            thread::spawn(move || ended.send((self.child.0.wait().unwrap(), start.elapsed())));
        let end = end.recv_timeout(PATIENCE).expect("the process ends");
        waiter.join().unwrap().unwrap();
        end
    }
}

/// The time limit for every wait here, a hundred times what it takes, for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

//! The stacks, and how a plugin on each is started.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};

use nix::sys::signal::Signal;

use crate::support::binary::binary;
use crate::support::process::Process;
use crate::support::until::until;

/// A gRPC stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    name: &'static str,
    /// What a machine without its program lacks.
    pub(crate) missing: &'static str,
}

/// The stack of the plugin that the binary itself simulates.
const SIMULATE: &str = "simulate";

const fn stack(name: &'static str, missing: &'static str) -> Stack {
    Stack { name, missing }
}

impl Stack {
    pub(crate) const ALL: [Self; 8] = [
        stack("grpc-go", "Go is not installed"),
        stack("connect-go", "Go is not installed"),
        stack("grpcio", "grpcio for Python is not installed"),
        stack("grpc.aio", "grpcio for Python is not installed"),
        stack("grpc-js", "Node with npm is not installed"),
        stack("grpc-java", "Java with Maven is not installed"),
        stack("tonic", "tonic is not installed"),
        stack(SIMULATE, ""),
    ];

    /// Returns what runs a plugin on the stack, if `tests/tools/stacks.sh` could build it.
    pub(crate) fn runner(self) -> Option<Runner> {
        let is_simulated = self.name == SIMULATE;
        let program = if is_simulated {
            PathBuf::from(binary())
        } else {
            PathBuf::from(env::var_os("TEST_STACKS")?).join(self.name)
        };
        program.exists().then_some(Runner {
            is_simulated,
            program,
        })
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The program of a stack.
#[derive(Debug)]
pub(crate) struct Runner {
    is_simulated: bool,
    program: PathBuf,
}

/// A plugin or a client that runs.
pub(crate) struct Plugin {
    process: Process,
    /// Where it is told what to do; a simulated plugin gets signals.
    input: Option<ChildStdin>,
}

impl Runner {
    /// Starts a plugin on a socket, which exists when this returns. `None`: the stack cannot do
    /// what the case asks for.
    pub(crate) fn serve(&self, socket: &Path, case: &str) -> Option<Plugin> {
        let mut command = Command::new(&self.program);
        if self.is_simulated {
            simulate(&mut command, socket.parent()?, case)?;
        } else {
            command.arg("serve").arg(socket).arg(case);
        }
        let plugin = self.start(command);
        let dir = socket.parent()?;
        let listens = until("the plugin listens", || {
            let is_there = |name: OsString| name.to_string_lossy().contains("peer");
            let mut entries = fs::read_dir(dir).ok()?.flatten();
            let listens = entries.any(|entry| is_there(entry.file_name()));
            let has_ended = fs::read_link(format!("/proc/{}/exe", plugin.process.id())).is_err();
            (listens || has_ended).then_some(listens)
        });
        if !listens {
            assert_eq!(plugin.end().code(), Some(NOT_SUPPORTED));
            return None;
        }
        Some(plugin)
    }

    /// Starts a client, which calls the plugin on a socket; `None` if it is the daemon's own.
    pub(crate) fn call(&self, socket: &Path) -> Option<Plugin> {
        if self.is_simulated {
            return None;
        }
        let mut command = Command::new(&self.program);
        command.arg("call").arg(socket).arg("plain");
        Some(self.start(command))
    }

    fn start(&self, mut command: Command) -> Plugin {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut input = None;
        let process = Process::start(&mut command, |child| {
            input = child.stdin.take();
            child.stdout.take()
        });
        Plugin {
            process,
            input: input.filter(|_| !self.is_simulated),
        }
    }
}

/// Adds the options of a simulated plugin for a case; `None` if there are none.
fn simulate(command: &mut Command, dir: &Path, case: &str) -> Option<()> {
    let (kind, options): (_, &[&str]) = match case {
        "device" | "restart" | "kill" => ("DevicePlugin", &[]),
        "csi" => ("CSIPlugin", &[]),
        "dra" => ("DRAPlugin", &[]),
        "announce" => ("DevicePlugin", &["--legacy"]),
        "details" => ("DevicePlugin", &["--fail-getinfo", "1"]),
        _ => return None,
    };
    let name = match kind {
        "DevicePlugin" => "example.com/peer",
        _ => "peer.example.com",
    };
    command.arg("simulate").arg("--dir").arg(dir);
    command.args(["--type", kind, "--name", name]).args(options);
    Some(())
}

impl Plugin {
    /// Tells the plugin what to do. It may have ended.
    pub(crate) fn tell(&mut self, word: &str) {
        match &mut self.input {
            Some(input) => drop(writeln!(input, "{word}")),
            None if word == "change" => self.process.signal(Signal::SIGUSR1),
            None => self.process.signal(Signal::SIGTERM),
        }
    }

    /// Waits until the plugin is notified that it is registered.
    #[track_caller]
    pub(crate) fn until_notified(&self) {
        let is_simulated = self.input.is_none();
        let simulated = "received NotifyRegistrationStatus: registered";
        let words = if is_simulated {
            simulated
        } else {
            "notified true"
        };
        self.process.until_line(words);
    }

    /// Waits for a line that the plugin prints.
    #[track_caller]
    pub(crate) fn until_said(&self, words: &str) {
        self.process.until_line(words);
    }

    /// Counts the lines that the plugin has printed and that were not read.
    pub(crate) fn count_said(&self, words: &str) -> usize {
        let lines = self.process.lines.try_iter();
        lines.filter(|line| line.contains(words)).count()
    }

    pub(crate) fn kill(&self) {
        self.process.signal(Signal::SIGKILL);
    }

    /// Waits for the end of the plugin.
    pub(crate) fn end(self) -> ExitStatus {
        self.process.end().0
    }
}

/// The exit status of a plugin whose stack cannot do what the case asks for.
const NOT_SUPPORTED: i32 = 64;

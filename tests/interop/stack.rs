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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    GrpcGo,
    ConnectGo,
    Grpcio,
    GrpcAio,
    GrpcJs,
    GrpcJava,
    Tonic,
    /// The plugin that the binary itself simulates.
    Simulate,
}

impl Stack {
    pub(crate) const ALL: [Self; 8] = [
        Self::GrpcGo,
        Self::ConnectGo,
        Self::Grpcio,
        Self::GrpcAio,
        Self::GrpcJs,
        Self::GrpcJava,
        Self::Tonic,
        Self::Simulate,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::GrpcGo => "grpc-go",
            Self::ConnectGo => "connect-go",
            Self::Grpcio => "grpcio",
            Self::GrpcAio => "grpc.aio",
            Self::GrpcJs => "grpc-js",
            Self::GrpcJava => "grpc-java",
            Self::Tonic => "tonic",
            Self::Simulate => "simulate",
        }
    }

    /// Returns what runs a plugin on the stack, if `tests/tools/stacks.sh` could build it.
    pub(crate) fn runner(self) -> Option<Runner> {
        if self == Self::Simulate {
            return Some(Runner {
                stack: self,
                program: PathBuf::from(binary()),
            });
        }
        let program = PathBuf::from(env::var_os("TEST_STACKS")?).join(self.name());
        program.exists().then_some(Runner {
            stack: self,
            program,
        })
    }

    /// Returns what the machine lacks for the stack.
    pub(crate) fn what_is_missing(self) -> &'static str {
        match self {
            Self::GrpcGo | Self::ConnectGo => "Go is not installed",
            Self::Grpcio | Self::GrpcAio => "grpcio for Python is not installed",
            Self::GrpcJs => "Node with npm is not installed",
            Self::GrpcJava => "Java with Maven is not installed",
            Self::Tonic => "tonic is not installed",
            Self::Simulate => unreachable!("the binary is always there"),
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The program of a stack.
#[derive(Debug)]
pub(crate) struct Runner {
    stack: Stack,
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
        if self.stack == Stack::Simulate {
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
        if self.stack == Stack::Simulate {
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
            input: input.filter(|_| self.stack != Stack::Simulate),
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

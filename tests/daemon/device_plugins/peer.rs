//! The device plugins, which are programs in other languages.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::support::process::Process;

/// A program that is a device plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The plugin of kubelet's own tests, which registers 10 s after kubelet.sock is created.
    Stub,
    /// A plugin that looks for its own socket, and serves on another one if it is gone.
    Generic,
    /// A plugin that watches for kubelet.sock, and serves on its socket anew when that is created.
    Nvidia,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Stub, Self::Generic, Self::Nvidia];

    /// Returns whether the machine has what runs the program.
    pub(crate) fn is_installed(self) -> bool {
        match self {
            Self::Stub => go_program(STUB).is_some(),
            Self::Generic | Self::Nvidia => {
                let mut python = Command::new(python());
                python.args(["-c", "import grpc"]).stderr(Stdio::null());
                python.status().is_ok_and(|status| status.success())
            }
        }
    }

    /// Returns what the machine needs for the program.
    pub(crate) fn what_runs_it(self) -> &'static str {
        match self {
            Self::Stub => "kubelet's device plugin",
            Self::Generic | Self::Nvidia => "grpcio for Python",
        }
    }

    /// Returns a line that the program writes when it has registered.
    fn registered(self) -> &'static str {
        match self {
            Self::Stub => "Device Plugin registered with the Kubelet",
            Self::Generic | Self::Nvidia => "registered ",
        }
    }
}

/// A device plugin that runs.
pub(crate) struct Peer {
    kind: Kind,
    process: Process,
}

impl Peer {
    /// Starts a plugin with these devices and a socket in `dir`.
    pub(crate) fn start(kind: Kind, dir: &Path, devices: &[&str]) -> Self {
        let mut command = match kind {
            Kind::Stub => {
                let mut command = Command::new(go_program(STUB).expect("it was found"));
                command.arg(dir).args([RESOURCE, "stub.sock"]);
                command
            }
            Kind::Generic => python_plugin("generic", dir),
            Kind::Nvidia => python_plugin("nvidia", dir),
        };
        command.args(devices).stdin(Stdio::null());
        let process = if kind == Kind::Stub {
            Process::logging(command.stdout(Stdio::null()))
        } else {
            Process::printing(command.stderr(Stdio::null()))
        };
        Self { kind, process }
    }

    /// Waits until the plugin has registered, once more than before.
    #[track_caller]
    pub(crate) fn until_registered(&self) {
        self.process.until_line(self.kind.registered());
    }

    /// Kills the plugin, which leaves its socket behind.
    pub(crate) fn kill(&self) {
        self.process.signal(Signal::SIGKILL);
    }

    /// Ends the plugin, which removes its socket.
    #[track_caller]
    pub(crate) fn end(self) {
        self.process.signal(Signal::SIGTERM);
        let (status, _) = self.process.end();
        assert!(status.success(), "{status}");
    }
}

/// Returns a command for one of the plugins in Python.
fn python_plugin(kind: &str, dir: &Path) -> Command {
    let mut command = Command::new(python());
    command.arg(PROGRAM).arg(kind).arg(dir).arg(RESOURCE);
    command
}

/// Returns the Python interpreter: the one that TEST_PYTHON names, or the machine's.
fn python() -> OsString {
    env::var_os("TEST_PYTHON").unwrap_or_else(|| "python3".into())
}

/// Returns the path of a Go program, which is in the folder of the one that TEST_KUBELET names.
pub(crate) fn go_program(name: &str) -> Option<PathBuf> {
    let kubelet = PathBuf::from(env::var_os("TEST_KUBELET")?);
    Some(kubelet.with_file_name(name)).filter(|program| program.exists())
}

/// The resource of all plugins.
pub(crate) const RESOURCE: &str = "example.com/gpu";

const STUB: &str = "device-plugin";

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/peers/python/device_plugin.py"
);

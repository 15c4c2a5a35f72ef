//! The subjects that are measured.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;

/// A program that registers plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The daemon of this project.
    Plugind,
    /// A client on the `h2` crate that is told the paths: the least that a program can do.
    H2,
    /// The same client on `tonic`.
    Tonic,
    /// kubelet's own plugin manager in a program around it.
    Kubelet,
}

impl Subject {
    /// Returns all available subjects.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Plugind, Self::H2, Self::Tonic];
        if env::var_os(KUBELET).is_some() {
            all.push(Self::Kubelet);
        }
        all
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plugind => "plugind",
            Self::H2 => "h2 client",
            Self::Tonic => "tonic client",
            Self::Kubelet => "kubelet",
        }
    }

    /// Returns whether it finds the sockets itself. Otherwise it reads each path from standard
    /// input.
    pub(crate) fn watches(self) -> bool {
        matches!(self, Self::Plugind | Self::Kubelet)
    }

    /// Returns the command of the program, for plugins in `dir`.
    pub(crate) fn command(self, dir: &Path) -> io::Result<Command> {
        let mut command = match self {
            Self::Plugind => Command::new(plugind()),
            Self::Kubelet => Command::new(env::var_os(KUBELET).unwrap_or_default()),
            Self::H2 | Self::Tonic => Command::new(env::current_exe()?),
        };
        match self {
            Self::Plugind => command
                .args(["run", "--type", TYPE, "--plugins-dir"])
                .arg(dir)
                .arg("--run-dir")
                .arg(dir.with_file_name("run"))
                .arg("--socket")
                .arg(dir.with_file_name(API)),
            // The path that the program is given has to begin with the directory's own name.
            Self::Kubelet => command
                .current_dir(dir.parent().unwrap_or(dir))
                .args(dir.file_name())
                .arg(TYPE),
            Self::H2 => command.args(["client", "h2"]),
            Self::Tonic => command.args(["client", "tonic"]),
        };
        command.env_remove("RUST_LOG");
        Ok(command)
    }
}

/// Returns the measured binary: the static one under `make bench`, otherwise cargo's.
pub(crate) fn plugind() -> OsString {
    let named = env::var_os("TEST_BINARY");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_plugind").into())
}

/// The name of the API socket, beside the directory with the sockets.
pub(crate) const API: &str = "api.sock";

/// The type of the plugins: one whose registration is two calls and nothing else.
pub(crate) const TYPE: &str = "SamplePlugin";

/// The environment variable that names the program around kubelet's plugin manager.
const KUBELET: &str = "TEST_BENCH_KUBELET";

//! Who is measured.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;

/// Something that registers plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// What this project is about.
    Plugind,
    /// A client on the `h2` crate that is told the path: the least that anybody can do.
    H2,
    /// The same on `tonic`.
    Tonic,
    /// kubelet's own plugin manager in a program around it.
    Kubelet,
}

impl Subject {
    /// Everybody who is there.
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

    /// Whether it finds the sockets itself. Who does not is told each path, by standard input.
    pub(crate) fn watches(self) -> bool {
        matches!(self, Self::Plugind | Self::Kubelet)
    }

    /// The program, for plugins in `dir`.
    pub(crate) fn command(self, dir: &Path) -> io::Result<Command> {
        let mut command = match self {
            Self::Plugind => Command::new(plugind()),
            Self::Kubelet => Command::new(env::var_os(KUBELET).unwrap_or_default()),
            Self::H2 | Self::Tonic => Command::new(env::current_exe()?),
        };
        match self {
            Self::Plugind => command
                .args(["run", "--type", TYPE, "--plugins-dir"])
                .arg(dir),
            // It is to see a path that begins with the directory's own name.
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

/// The binary that is measured: the static one under `make bench`, else cargo's.
pub(crate) fn plugind() -> OsString {
    let named = env::var_os("PLUGIND_BINARY");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_plugind").into())
}

/// The type of the plugins: one for which a registration is two calls, and nothing else is asked.
pub(crate) const TYPE: &str = "SamplePlugin";

/// The environment variable that names the program around kubelet's plugin manager.
const KUBELET: &str = "PLUGIND_BENCH_KUBELET";

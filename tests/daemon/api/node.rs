//! A daemon with an API, in a directory of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::client::{Response, ask};
use crate::support::daemon::Daemon;
use crate::support::plugin::Plugin;
use crate::support::process::Process;
use crate::support::until::until;

/// A daemon, its directories and its socket.
pub(crate) struct Node {
    pub(crate) dir: TempDir,
    pub(crate) daemon: Daemon,
    pub(crate) socket: PathBuf,
}

impl Node {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a daemon with these options, and its run directory and the watched one in a directory
    /// of their own.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let line = line(dir.path(), options);
        Self::start_line(dir, &line)
    }

    /// Starts a daemon whose run directory is below `dir` with this command line.
    pub(crate) fn start_line(dir: TempDir, line: &[OsString]) -> Self {
        let daemon = Daemon::start_command(Process::command().arg("run").args(line));
        let socket = dir.path().join("run/plugind.sock");
        Self {
            dir,
            daemon,
            socket,
        }
    }

    pub(crate) fn registry(&self, name: &str) -> PathBuf {
        self.dir.path().join("registry").join(name)
    }

    pub(crate) fn serve(&self, socket: &str, name: &str) -> Plugin {
        Plugin::serve(&self.registry(socket), name)
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: &str) -> Response {
        ask(&self.socket, method, target)
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Value {
        let response = self.ask("GET", target);
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// Waits until the list of plugins satisfies the condition.
    #[track_caller]
    pub(crate) fn until_listed(&self, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        until("the list", || {
            let list = self.get("/v1/plugins");
            let items = list["items"].as_array().unwrap().clone();
            is_so(&items).then_some(items)
        })
    }
}

/// Returns the arguments of `run` for a daemon whose directories are below `dir`.
pub(crate) fn line(dir: &Path, options: &[&str]) -> Vec<OsString> {
    let mut line: Vec<OsString> = vec!["--plugins-dir".into(), dir.join("registry").into()];
    line.extend(["--run-dir".into(), dir.join("run").into()]);
    if !options.iter().any(|it| it.starts_with("--socket=")) {
        let mut socket = OsString::from("--socket=");
        socket.push(dir.join("run/plugind.sock"));
        std::fs::create_dir_all(dir.join("run")).unwrap();
        line.push(socket);
    }
    line.extend(options.iter().map(Into::into));
    line
}

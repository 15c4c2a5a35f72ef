//! The path of the socket, the users that may open it, and its removal.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid};

use crate::api::node::Node;
use crate::support::client::ask;
use crate::support::daemon::Daemon;
use crate::support::process::Process;
use crate::support::program::copy_binary;
use crate::support::skip::skip;

#[test]
fn the_default_socket_is_in_the_run_directory_and_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("run/plugind.sock");
    for _ in 0..2 {
        let daemon = default_in(dir.path(), "registry");
        let found = fs::symlink_metadata(&socket).unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.mode() & 0o7777, 0o660);
        assert_eq!(found.gid(), Gid::effective().as_raw());
        assert_eq!(ask(&socket, "GET", "/livez").body, "ok\n");
        assert!(daemon.end_with(Signal::SIGTERM).0.success());
        assert!(!socket.exists() && !dir.path().join("run/plugind.sock.lock").exists());
    }
}

/// Starts a daemon on such a directory, without an option for its socket.
fn default_in(dir: &Path, registry: &str) -> Daemon {
    Daemon::start_command(&mut command_in(dir, registry))
}

/// Returns the command of a daemon with a run directory below `dir`, and without an option for its
/// socket.
fn command_in(dir: &Path, registry: &str) -> Command {
    let mut command = Process::command();
    command.env_remove("PLUGIND_API_SOCKET");
    command
        .args(["run", "--plugins-dir"])
        .arg(dir.join(registry));
    command.arg("--run-dir").arg(dir.join("run"));
    command
}

#[test]
fn a_socket_that_was_named_and_cannot_be_used_is_one_line() {
    let node = Node::start();
    let dir = node.dir.path();
    let at = |name: &str| dir.join(name);
    let option = |name: &str| format!("--socket={}", at(name).display());
    fs::write(at("file"), "data").unwrap();
    fs::create_dir(at("shared")).unwrap();
    fs::set_permissions(at("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    let in_use = "listens on it; stop that process";
    let is_shared = "is writable by its group or others";
    for (option, expected) in [
        (option("run/plugind.sock"), in_use),
        (option("file"), "it is not a socket; remove it"),
        (option("shared/sock"), is_shared),
    ] {
        let ran = Process::run(command_in(dir, "other-registry").arg(option));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let error = ran.err.lines().nth(1).unwrap_or_default();
        assert!(
            error.starts_with("plugind: cannot serve the API on "),
            "{ran:?}"
        );
        assert!(error.contains(expected), "{error}");
        assert_eq!(ran.err.lines().count(), 2, "{ran:?}");
    }
    assert_eq!(fs::read(at("file")).unwrap(), b"data");
    assert_eq!(node.ask("GET", "/livez").status, 200);
}

#[test]
fn a_default_socket_in_use_is_a_warning_and_none_can_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let first = default_in(dir.path(), "registry");
    let second = default_in(dir.path(), "other");
    let [warning] = &second.seen_with("cannot serve the API")[..] else {
        panic!("{:?}", second.seen_with(""));
    };
    assert!(
        warning.contains(" WARN ") && warning.contains("listens on it"),
        "{warning}"
    );
    assert!(second.end_with(Signal::SIGTERM).0.success());
    let socket = dir.path().join("run/plugind.sock");
    assert_eq!(
        ask(&socket, "GET", "/livez").status,
        200,
        "the first has it still"
    );
    assert!(first.end_with(Signal::SIGTERM).0.success());

    let mut command = command_in(dir.path(), "registry");
    let daemon = Daemon::start_command(command.arg("--socket=none"));
    assert!(!socket.exists() && daemon.seen_with("API").is_empty());
}

#[test]
fn a_dry_run_has_a_socket_only_if_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command_in(dir.path(), "registry");
    let _daemon = Daemon::start_command(command.arg("--observe"));
    assert!(!dir.path().join("run").exists());
    let node = Node::start_with(&["--observe"]);
    assert_eq!(node.get("/v1/status")["mode"], "observe");
}

#[test]
fn the_group_may_connect_and_read() {
    if !Uid::effective().is_root() {
        return skip("only root can run a client as another user");
    }
    let node = Node::start_with(&["--socket-group=12345"]);
    fs::set_permissions(node.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let found = fs::symlink_metadata(&node.socket).unwrap();
    assert_eq!((found.gid(), found.mode() & 0o7777), (12_345, 0o660));
    let program = node.dir.path().join("plugind");
    copy_binary(&program);
    let run = |group: &str, line: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=4242", "--clear-groups", "--regid", group]);
        command.arg(&program).args(line.split(' '));
        Process::run(command.env("PLUGIND_API_SOCKET", &node.socket))
    };
    assert_eq!(run("12345", "wait --for=ready").code, Some(0));
    for change in ["retry", "rescan", "log-level debug", "forget a/b"] {
        let ran = run("12345", change);
        assert_eq!(ran.code, Some(1), "{change}: {ran:?}");
        assert!(ran.err.contains("only root"), "{change}: {ran:?}");
    }
    let ran = run("54321", "status");
    assert!(
        ran.code == Some(1) && ran.err.contains("permission denied"),
        "{ran:?}"
    );
}

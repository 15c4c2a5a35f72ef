//! The built binary with a low limit on descriptors.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::support::plugin::Plugin;
use crate::support::process::Process;
use crate::support::program::install;
use crate::support::skip::programs_can_be_trusted_or_skip;

/// Starts a daemon on `dir` from a shell that has run `before`.
fn start(before: &str, dir: &Path, options: &[&str]) -> Process {
    let mut command = Process::command_behind(&format!("{before} &&"));
    command.args(["run", "--plugins-dir"]).arg(dir);
    let process = Process::logging(command.args(options));
    process.until_line("watching ");
    process
}

#[test]
fn more_plugins_register_than_there_are_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = start("ulimit -n 64", dir.path(), &[]);
    let plugins: Vec<Plugin> = (0..80)
        .map(|n| {
            let plugin = Plugin::serve(&dir.path().join(format!("{n}.sock")), &format!("p-{n}"));
            assert!(plugin.until_notified().plugin_registered);
            plugin
        })
        .collect();
    let open = fs::read_dir(format!("/proc/{}/fd", daemon.id())).unwrap();
    let open = open.count();
    assert!(open < 64, "{open}");
    daemon.signal(Signal::SIGUSR1);
    let status = daemon.until_line("status sockets=");
    assert!(status.contains("registered=80 down=0 failed=0"), "{status}");
    daemon.signal(Signal::SIGTERM);
    let (status, _) = daemon.end();
    assert!(status.success(), "{status}");
    for plugin in plugins {
        plugin.leave();
    }
}

#[test]
fn clients_that_wait_for_devices_leave_descriptors_to_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let (registry, socket) = (dir.path().join("registry"), dir.path().join("api.sock"));
    let option = format!("--socket={}", socket.display());
    let daemon = start("ulimit -n 64", &registry, &[&option]);
    let request = b"POST /v1/allocate?resource=a/b&wait=600000 HTTP/1.0\r\n\r\n";
    let clients: Vec<UnixStream> = (0..64)
        .map(|_| {
            let mut client = UnixStream::connect(&socket).unwrap();
            let _ = client.write_all(request); // It may have been refused already.
            client
        })
        .collect();
    let ran = Process::ask(&socket, &["status"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let plugin = Plugin::serve(&registry.join("reg.sock"), "sample");
    assert!(plugin.until_notified().plugin_registered);
    drop(clients);
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.end().0.success());
}

#[test]
fn the_daemon_raises_its_limit() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (hook, seen) = (dir.path().join("hook"), dir.path().join("seen"));
    let script = format!("#!/bin/sh\n(ulimit -Sn; ulimit -Hn) > {}\n", seen.display());
    install(&hook, &script);
    let registry = dir.path().join("registry");
    let exec = format!("--exec=Hooked={}", hook.display());
    let daemon = start("ulimit -Sn 256 && ulimit -Hn 512", &registry, &[&exec]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let limit: Vec<&str> = limit.unwrap().split_whitespace().collect();
    assert_eq!(limit, ["512", "512", "files"]);
    let plugin = Plugin::serve_type(&registry.join("reg.sock"), "Hooked", "sample");
    assert!(plugin.until_notified().plugin_registered);
    assert_eq!(fs::read_to_string(&seen).unwrap(), "256\n512\n");
    daemon.signal(Signal::SIGTERM);
    let (status, _) = daemon.end();
    assert!(status.success(), "{status}");
}

#[test]
fn a_daemon_without_descriptors_for_plugins_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Process::command_behind("ulimit -n 63 &&");
    let ran = Process::run(command.args(["run", "--plugins-dir"]).arg(dir.path()));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let reason = "cannot start with a limit of 63 open files; at least 64 are needed";
    assert!(ran.err.contains(reason), "{ran:?}");
}

//! The log of the built binary: the daemon never waits for its reader, and plugins cannot fill it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::api::node::Node;
use crate::support::bind::bind;
use crate::support::daemon::{Daemon, status};
use crate::support::pipe::{FILLER, full_pipe, pipe};
use crate::support::plugin::Plugin;
use crate::support::process::Process;
use crate::support::timed::assert_faster;
use crate::support::until::until;

/// Starts a daemon whose log goes where the test chooses.
fn start(dir: &Path, options: &[&str], stderr: impl Into<Stdio>) -> Process {
    let mut command = Process::command();
    command.arg("run").args(options);
    command.arg("--plugins-dir").arg(dir);
    Process::printing(command.stderr(stderr))
}

/// Stops such a daemon, and returns how long that took.
#[track_caller]
fn stop(daemon: Process) -> Duration {
    daemon.signal(Signal::SIGTERM);
    let (status, took) = daemon.end();
    assert!(status.success(), "{status}");
    took
}

/// Returns a socket pair whose writing end is full.
fn full_socket() -> (UnixStream, UnixStream) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    while writer.write(FILLER.as_bytes()).is_ok() {}
    writer.set_nonblocking(false).unwrap();
    (reader, writer)
}

#[test]
fn a_log_that_is_not_read_keeps_no_plugin_waiting_and_no_signal() {
    let (pipe_reader, pipe) = full_pipe();
    let (socket_reader, socket) = full_socket();
    let ends: [(OwnedFd, OwnedFd); 2] = [
        (pipe_reader.into(), pipe.into()),
        (socket_reader.into(), socket.into()),
    ];
    for (_unread, stderr) in ends {
        let dir = tempfile::tempdir().unwrap();
        let daemon = start(dir.path(), &[], stderr);
        let plugin = Plugin::serve(&dir.path().join("reg.sock"), "sample");
        assert!(plugin.until_notified().plugin_registered);
        assert_faster(stop(daemon), Duration::from_secs(2));
        plugin.leave();
    }
}

#[test]
fn a_start_that_fails_does_not_wait_for_the_reader_of_its_error() {
    let dir = tempfile::tempdir().unwrap();
    let (_unread, stderr) = full_pipe();
    let options = ["--device-plugins-dir", "/proc/no/such/directory"];
    let daemon = start(dir.path(), &options, stderr);
    assert_eq!(daemon.end().0.code(), Some(1));
}

#[test]
fn a_log_that_is_read_late_has_the_first_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, stderr) = full_pipe();
    let daemon = start(dir.path(), &["-vv"], stderr);
    // Several sockets, because each has a share of the log: together, more than the buffer holds.
    for n in 0..60 {
        let socket = dir.path().join(n.to_string()).join("reg.sock");
        fs::create_dir(socket.parent().unwrap()).unwrap();
        let plugin = Plugin::serve(&socket, &"long".repeat(50));
        assert!(plugin.until_notified().plugin_registered);
        for _ in 0..20 {
            let other = socket.with_file_name("other.sock");
            drop(bind(&other));
            fs::remove_file(other).unwrap();
        }
        plugin.stop();
    }
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let filler = FILLER.trim_end();
    let first = lines.by_ref().find(|line| line != filler).unwrap();
    assert!(first.contains(" starting pid="), "{first}");
    let rest = lines.by_ref();
    assert!(rest.any(|line| line.contains("WARN  log: ")
        && line.contains(" lines dropped, because standard error could not be written count=")));
    stop(daemon);
    assert!(rest.any(|line| line.contains("received SIGTERM, stopping")));
    assert!(rest.any(|line| line.ends_with(" stopped")));
}

#[test]
fn a_log_whose_reader_has_gone_ends_nothing_and_wakes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // The directory above is watched, too, and other tests create files in that of `dir`.
    let registry = dir.path().join("registry");
    fs::create_dir(&registry).unwrap();
    let (reader, stderr) = pipe();
    let daemon = start(&registry, &[], stderr);
    let mut lines = BufReader::new(reader).lines();
    while !lines.next().unwrap().unwrap().contains("watching ") {}
    drop(lines);
    let plugin = Plugin::serve(&registry.join("reg.sock"), "sample");
    assert!(plugin.until_notified().plugin_registered);
    let process = daemon.id().to_string();
    let wakeups = || status(&process, "voluntary_ctxt_switches:");
    let (_quiet, nothing) = mpsc::channel::<()>();
    until("the daemon is not woken for a second", || {
        let before = wakeups();
        assert!(nothing.recv_timeout(Duration::from_secs(1)).is_err());
        (wakeups() == before).then_some(())
    });
    stop(daemon);
}

#[test]
fn a_stop_without_the_last_state_is_a_warning() {
    let scratch = tempfile::tempdir().unwrap();
    let (registry, state) = (scratch.path().join("r"), scratch.path().join("state"));
    fs::create_dir(&registry).unwrap();
    let option = format!("--state-file={}", state.display());
    let mut daemon = Daemon::start_with(&registry, &[&option]);
    fs::create_dir_all(scratch.path().join("state.new/in-the-way")).unwrap();
    let plugin = Plugin::serve(&registry.join("a.sock"), "a");
    assert!(plugin.until_notified().plugin_registered);
    daemon.signal(Signal::SIGTERM);
    let warning = daemon.until_logged("the last changes were not saved");
    let why = "nor deregistered after the next start: cannot write the state file: ";
    assert!(warning.contains(why), "{warning}");
}

#[test]
fn links_to_a_socket_in_two_directories_are_logged_once() {
    let mut node = Node::start();
    let _plugin = node.serve("a.sock", "a");
    for dir in ["b", "c"] {
        let dir = node.registry(dir);
        fs::create_dir(&dir).unwrap();
        symlink("../a.sock", dir.join("a.sock")).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(node.ask("POST", "/v1/rescan").status, 200);
    }
    node.daemon.signal(Signal::SIGUSR1);
    let lines = node.daemon.lines_until(" status ");
    let ignored = lines.iter().filter(|it| it.contains("already known"));
    assert_eq!(ignored.count(), 1, "{lines:?}");
}

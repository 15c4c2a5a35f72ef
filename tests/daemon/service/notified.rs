//! The notifications of the service manager, which the test is.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};

use crate::support::bind::bind;
use crate::support::daemon::Daemon;
use crate::support::plugin::Plugin;
use crate::support::process::{PATIENCE, Process};
use crate::support::program::install;
use crate::support::skip;
use crate::support::timed::assert_faster;

/// A directory with the socket of a service manager and a directory for plugins.
struct Node {
    dir: tempfile::TempDir,
    socket: UnixDatagram,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("registry")).unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { dir, socket }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the command of a daemon that notifies this socket.
    fn command(&self) -> Command {
        self.command_behind("")
    }

    /// Returns the command with which a shell runs such a daemon, behind a script.
    fn command_behind(&self, script: &str) -> Command {
        let mut command = command(self.dir.path(), script);
        command.env("NOTIFY_SOCKET", self.at("notify"));
        command
    }

    fn start(&self) -> Daemon {
        Daemon::start_command(&mut self.command())
    }

    /// Returns the next notification.
    #[track_caller]
    fn next(&self) -> String {
        receive(&self.socket).expect("a notification follows")
    }

    /// Returns the notifications up to one that begins with these words.
    #[track_caller]
    fn until(&self, words: &str) -> Vec<String> {
        let mut all = Vec::new();
        while !all
            .last()
            .is_some_and(|text: &String| text.starts_with(words))
        {
            all.push(self.next());
        }
        all
    }

    /// Returns whether no notification follows within this time.
    fn is_silent_for(&self, time: Duration) -> bool {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let text = receive(&self.socket);
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        text.is_none()
    }
}

/// Returns the command of a daemon for plugins below `dir`, which a shell runs behind a script.
fn command(dir: &Path, script: &str) -> Command {
    let mut command = Process::command_behind(script);
    command
        .args(["run", "--plugins-dir"])
        .arg(dir.join("registry"));
    command.arg("--run-dir").arg(dir.join("run"));
    command
}

fn receive(socket: &UnixDatagram) -> Option<String> {
    let mut buffer = [0; 256];
    match socket.recv(&mut buffer) {
        Ok(count) => Some(String::from_utf8(buffer[..count].to_vec()).unwrap()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn monotonic_usec() -> u128 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap()).as_micros()
}

#[test]
fn readiness_status_reload_and_stop_are_notified_in_this_order() {
    let node = Node::new();
    let daemon = node.start();
    assert_eq!(node.next(), "READY=1");
    assert_eq!(node.next(), "STATUS=0 registered, 0 in backoff");
    let plugin = Plugin::serve(&node.at("registry/a.sock"), "a");
    drop(bind(&node.at("registry/dead.sock")));
    node.until("STATUS=1 registered, 1 in backoff");
    plugin.stop();
    node.until("STATUS=0 registered, 1 in backoff");

    let before = monotonic_usec();
    daemon.signal(Signal::SIGHUP);
    let reloading = node.next();
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    let time = time.unwrap_or_else(|| panic!("{reloading}"));
    let time: u128 = time.parse().unwrap();
    assert!(before <= time && time <= monotonic_usec());
    assert_eq!(node.next(), "READY=1");

    assert!(daemon.end_with(Signal::SIGTERM).0.success());
    assert_eq!(node.next(), "STOPPING=1");
}

#[test]
fn plugins_that_are_dead_or_mute_do_not_hold_up_readiness() {
    let node = Node::new();
    let registry = node.at("registry");
    let mut mute = Vec::new();
    for n in 0..50 {
        drop(bind(&registry.join(format!("dead-{n}.sock"))));
        mute.push(UnixListener::bind(registry.join(format!("mute-{n}.sock"))).unwrap());
    }
    let start = Instant::now();
    let _daemon = node.start();
    node.until("READY=1");
    let took = start.elapsed();
    assert_faster(took, Duration::from_millis(2500));
}

#[test]
fn a_status_that_keeps_changing_is_notified_once_a_second() {
    let node = Node::new();
    let _daemon = node.start();
    node.until("STATUS=0");
    let socket = node.at("registry/a.sock");
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < Duration::from_secs(3) {
        let plugin = Plugin::serve(&socket, "a");
        assert!(plugin.until_notified().plugin_registered);
        plugin.stop();
    }
    let most = 1 + start.elapsed().as_secs();
    node.socket.set_nonblocking(true).unwrap();
    while receive(&node.socket).is_some() {
        count += 1;
    }
    assert!((1..=most).contains(&count), "{count} of {most}");
}

#[test]
fn without_a_watchdog_nothing_is_sent_at_rest() {
    let node = Node::new();
    let daemon = node.start();
    node.until("STATUS=0");
    assert!(node.is_silent_for(Duration::from_secs(2)));
    let before = daemon.wakeups();
    assert!(node.is_silent_for(Duration::from_secs(3)));
    assert_eq!(daemon.wakeups(), before);
}

#[test]
fn signs_of_life_are_sent_when_they_are_asked_of_this_process() {
    let node = Node::new();
    for (usec, script, least) in [
        ("200000", "", 75),
        ("1", "", 0),
        ("200000", "WATCHDOG_PID=$$", 75),
    ] {
        let mut command = node.command_behind(script);
        let start = Instant::now(); // Later ones may wait here while this process cannot run.
        let daemon = Daemon::start_command(command.env("WATCHDOG_USEC", usec));
        for _ in 0..4 {
            node.until("WATCHDOG=1");
        }
        let took = start.elapsed();
        assert!(took >= 3 * Duration::from_millis(least), "{usec}: {took:?}");
        assert!(daemon.end_with(Signal::SIGTERM).0.success());
        node.until("STOPPING=1");
    }
    let mut command = node.command();
    let command = command.env("WATCHDOG_USEC", "1").env("WATCHDOG_PID", "1");
    let _daemon = Daemon::start_command(command);
    node.until("STATUS=0");
    assert!(node.is_silent_for(Duration::from_secs(1)));
}

#[test]
fn readiness_is_notified_later_to_a_slow_service_manager() {
    let node = Node::new();
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"FILLER", node.at("notify")).is_ok() {}
    let mut daemon = node.start();
    // A whole reload is owed now, too.
    daemon.signal(Signal::SIGHUP);
    daemon.until_logged("received SIGHUP");
    let all = node.until("RELOADING=1");
    assert!(all[..all.len() - 1].iter().all(|text| text == "FILLER"));
    assert_eq!(node.next(), "READY=1");
    let failures = daemon.seen_with("cannot notify the service manager");
    assert!(failures.is_empty(), "it is only late: {failures:?}");
    assert!(daemon.end_with(Signal::SIGTERM).0.success());
}

#[test]
fn a_service_manager_that_cannot_be_reached_is_one_warning() {
    let dir = tempfile::tempdir().unwrap();
    let stale = dir.path().join("stale");
    drop(UnixDatagram::bind(&stale).unwrap());
    let stale = stale.to_str().unwrap();
    let stream = dir.path().join("stream");
    let _stream = UnixListener::bind(&stream).unwrap();
    let stream = stream.to_str().unwrap();
    for (socket, why) in [
        ("/no/such/socket", "No such file or directory"),
        (stale, "Connection refused"),
        (stream, "Protocol wrong type for socket"),
        ("vsock:2:1234", "Invalid argument"),
    ] {
        let mut command = command(dir.path(), "");
        let command = command.env("NOTIFY_SOCKET", socket);
        let mut daemon = Daemon::start_command(command.env("WATCHDOG_USEC", "20000"));
        let words = "WARN  cannot notify the service manager (NOTIFY_SOCKET): ";
        let mut seen = daemon.seen_with(words);
        if seen.is_empty() {
            seen.push(daemon.until_logged(words));
        }
        assert!(seen.len() == 1 && seen[0].contains(why), "{seen:?}");
        daemon.signal(Signal::SIGHUP);
        let lines = daemon.lines_until("received SIGHUP");
        assert!(lines.iter().all(|line| !line.contains(words)), "{lines:?}");
        assert!(daemon.end_with(Signal::SIGTERM).0.success());
    }
}

#[test]
fn programs_get_nothing_of_the_service_manager() {
    if !skip::programs_can_be_trusted_or_skip() {
        return;
    }
    let node = Node::new();
    let (program, seen) = (node.at("program"), node.at("seen"));
    let script = format!("#!/bin/sh\nexport -p >{}\n", seen.display());
    install(&program, &script);
    let mut command = node.command();
    command
        .arg(format!("--exec=CSIPlugin={}", program.display()))
        .env("WATCHDOG_USEC", "60000000")
        .env("LISTEN_PID", "1")
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDNAMES", "api");
    let _daemon = Daemon::start_command(&mut command);
    let plugin = Plugin::serve(&node.at("registry/a.sock"), "a");
    assert!(plugin.until_notified().plugin_registered);
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.contains("PLUGIND_TYPE"), "{seen}");
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_"] {
        assert!(!seen.contains(variable), "{seen}");
    }
}

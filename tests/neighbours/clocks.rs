//! A terminal that hangs up, and clocks with unusual values.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::honest::register;
use crate::row::alone;
use crate::support::binary::binary;
use crate::support::plugin::Plugin;
use crate::support::skip::skip;
use crate::until::Steps;

/// A daemon that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

#[test]
fn a_daemon_whose_terminal_hangs_up_goes_on() {
    let _alone = alone();
    let root = tempfile::tempdir().unwrap();
    let terminal = openpty(None, None).unwrap();
    // The daemon must not hold the other end of its own terminal.
    for end in [&terminal.master, &terminal.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    }
    let [stdin, stdout, stderr] = [(); 3].map(|()| terminal.slave.try_clone().unwrap());
    let started = Command::new("setsid")
        .args(["--ctty".as_ref(), binary().as_os_str()])
        .args(["run", "-v", "--plugins-dir"])
        .arg(root.path())
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .spawn();
    let Ok(started) = started else {
        return skip("setsid is not installed");
    };
    let mut daemon = Running(started);
    register(root.path(), "before");

    drop(terminal); // The kernel sends SIGHUP, and every write fails with EIO.
    for n in 0..20 {
        register(root.path(), &format!("after-{n}"));
    }
    let never = AtomicBool::new(false);
    let steps = Steps::new(&never);
    let before = processor_time(pid_of(&daemon.0));
    for _ in 0..50 {
        assert!(steps.next());
    }
    let spent = processor_time(pid_of(&daemon.0)) - before;
    assert!(
        spent <= 5,
        "{spent} ticks of the processor while nothing happened"
    );

    kill(pid_of(&daemon.0), Signal::SIGTERM).unwrap();
    let status = daemon.0.wait().unwrap();
    assert!(status.success(), "{status}");
}

/// Returns how much processor time a process has used (ticks of 10 ms).
fn processor_time(pid: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
    next() + next()
}

#[test]
fn deadlines_hold_after_the_boot_and_in_a_hundred_years() {
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let uptime: i64 = uptime.split('.').next().unwrap().parse().unwrap();
    let _alone = alone();
    for offset in [1 - uptime, 100 * 365 * 86_400] {
        if !a_daemon_works_by_clocks_at(offset) {
            return skip("time namespaces are not allowed");
        }
    }
}

/// Asserts that a daemon whose monotonic clocks are shifted by `offset` seconds registers a plugin
/// and saves it, a second later. Returns `false` if the clocks cannot be shifted.
fn a_daemon_works_by_clocks_at(offset: i64) -> bool {
    let namespaces = || {
        let mut command = Command::new("unshare");
        command
            .args([
                "--user",
                "--map-root-user",
                "--time",
                "--fork",
                "--kill-child",
            ])
            .arg(format!("--monotonic={offset}"))
            .arg(format!("--boottime={offset}"));
        command
    };
    let is_allowed = namespaces().arg("true").stderr(Stdio::null()).status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        return false;
    }
    let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = scratch.path().join("state");
    let started = namespaces()
        .arg(binary())
        .args(["run", "--plugins-dir"])
        .arg(root.path())
        .arg(format!("--state-file={}", file.display()))
        .stderr(Stdio::piped())
        .spawn();
    let mut daemon = Running(started.unwrap());
    let mut log = BufReader::new(daemon.0.stderr.take().unwrap()).lines();
    let first = log.next().unwrap().unwrap();
    let (_, pid) = first.split_once("pid=").unwrap();
    let pid = pid.split_whitespace().next().unwrap().parse().unwrap();

    let plugin = Plugin::serve(&root.path().join("a.sock"), "a");
    assert!(plugin.until_notified().plugin_registered);
    until_saved(&file);
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    assert!(log.any(|line| line.unwrap().ends_with("stopped")));
    assert!(daemon.0.wait().unwrap().success());
    true
}

/// Waits until there is a state file with a plugin.
fn until_saved(file: &Path) {
    let never = AtomicBool::new(false);
    let steps = Steps::new(&never);
    let is_saved = || fs::read_to_string(file).is_ok_and(|saved| saved.contains("CSIPlugin"));
    for _ in 0..2000 {
        if is_saved() {
            return;
        }
        assert!(steps.next());
    }
    panic!("the plugin is not saved");
}

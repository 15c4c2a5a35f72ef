//! A terminal that hangs up.

use std::fs;
use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::honest::register;
use crate::row::alone;
use crate::support::binary::binary;
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

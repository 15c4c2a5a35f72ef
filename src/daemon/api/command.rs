//! Runs a command in the foreground while the daemon keeps something for it, such as devices.

#![allow(unsafe_code, reason = "pre_exec has no safe form")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getpid};
use rustix::process::{PidfdFlags, pidfd_open};

use super::client::Connection;
use crate::daemon::process::child::die_with;
use crate::daemon::process::signals::Signals;

impl Connection {
    /// Runs a command with these variables added to its environment, and returns its exit status as
    /// a shell does: 128 plus the signal if a signal ended the command. When the daemon closes the
    /// connection, calls `lost`, and still waits for the command.
    ///
    /// Signals from other processes are passed on to the command. Those from the terminal are not,
    /// because the command receives them, too; SIGHUP always is, because the terminal may have hung
    /// up before the command started.
    ///
    /// If this process ends, the kernel kills the command (`PR_SET_PDEATHSIG`), because the daemon
    /// then releases what it kept for the command, such as devices.
    pub fn run_command(
        &self,
        command: &[OsString],
        variables: &[(&str, &OsStr)],
        lost: &dyn Fn(),
    ) -> io::Result<u8> {
        let [program, arguments @ ..] = command else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mask = SigSet::thread_get_mask()?;
        let signals = Signals::block_and_open(&[&PASSED_ON[..], &[Signal::SIGCHLD]].concat())?;
        let parent = getpid();
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().copied());
        let prepare = move || {
            die_with(parent)?;
            Ok(mask.thread_set_mask()?)
        };
        // SAFETY: between fork and exec, only async-signal-safe functions may be called. `prepare`
        // calls getppid and pthread_sigmask, which signal-safety(7) lists, and prctl(2), which is a
        // plain system call; it neither allocates nor locks.
        unsafe { command.pre_exec(prepare) };
        let mut child = command.spawn()?;
        // pidfd_open(2) needs Linux 5.3. Without a pidfd, only SIGCHLD reports the end, which a
        // thread that does not block SIGCHLD discards.
        let end = pidfd_open(
            rustix::process::Pid::from_child(&child),
            PidfdFlags::empty(),
        )
        .ok();
        let mut is_kept = true;
        loop {
            pass_on_signals(&signals, &child)?;
            if let Some(status) = child.try_wait()? {
                return Ok(exit_code(status));
            }
            let end = end.as_ref().map(AsFd::as_fd);
            let stream = is_kept.then(|| self.stream.as_fd());
            let waiting = [stream, end, Some(signals.as_fd())];
            let waiting = waiting.into_iter().flatten();
            let mut waiting: Vec<_> = waiting
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .collect();
            match poll(&mut waiting, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if is_kept && waiting[0].any().unwrap_or(false) {
                is_kept = false;
                lost();
            }
        }
    }
}

/// Passes the pending signals on to the command.
fn pass_on_signals(signals: &Signals, child: &Child) -> io::Result<()> {
    while let Some((signal, is_sent)) = signals.read()? {
        if signal != Signal::SIGCHLD && (is_sent || signal == Signal::SIGHUP) {
            let pid = child.id().try_into().unwrap_or(i32::MAX);
            // The command may have ended. It was not waited for, so no other process can have its
            // id.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
    Ok(())
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code();
    let code = code.or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| code.try_into().ok())
        .unwrap_or(u8::MAX)
}

/// The signals that are passed on to the command.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

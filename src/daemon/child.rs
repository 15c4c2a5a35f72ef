//! Functions for child processes that neither the standard library nor nix provides.
//!
//! This is the only module with unsafe code.

#![allow(
    unsafe_code,
    reason = "fork, pre_exec and pidfd_open have no safe form"
)]

use std::ffi::c_ulong;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, pipe2};

use super::descriptors;
use super::journal::PendingEntry;

/// A program that was started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) pid: Pid,
    /// The end of the program's standard error from which to read, until the caller takes it.
    pub(super) errors: Option<OwnedFd>,
    /// The end of a pipe that the kernel closes when it executes the program; before that, the
    /// error is written to it. `None` if the program was executed.
    failure: Option<File>,
}

impl Started {
    /// Returns the reason why the program was not executed, if that is known already.
    pub(super) fn failure(&mut self) -> Option<String> {
        let mut errno = [0; 4];
        self.failure.take()?.read_exact(&mut errno).ok()?;
        let errno = i32::from_ne_bytes(errno);
        Some(if errno < 0 {
            not_recorded(Errno::from_raw(-errno))
        } else {
            io::Error::from_raw_os_error(errno).to_string()
        })
    }
}

/// Starts a program, and returns before the kernel has executed it. The process must have one
/// thread. The program is killed with this thread. The child appends the journal entry before it
/// executes the program.
///
/// [`Command::spawn`] waits until the child has executed the program: on a machine whose processors
/// are busy, that takes as long as it takes the child to get one of them.
pub(super) fn start(mut command: Command, entry: Option<PendingEntry>) -> io::Result<Started> {
    let (errors, stderr) = pipe2(OFlag::O_CLOEXEC)?;
    let (failure, failed) = pipe2(OFlag::O_CLOEXEC)?;
    command.stderr(Stdio::from(stderr));
    prepare(&mut command, true, entry);
    // SAFETY: the process has one thread, so the child finds no lock held by another, and may call
    // what it likes. It only executes the program or exits.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(Started {
            pid: child,
            errors: Some(errors),
            failure: Some(File::from(failure)),
        }),
        ForkResult::Child => {
            let error = command.exec();
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            let _ = File::from(failed).write_all(&errno.to_ne_bytes());
            // SAFETY: _exit(2) does not return, and runs nothing that the parent has set up.
            unsafe { libc::_exit(NOT_EXECUTED) }
        }
    }
}

/// Starts a program, and returns when the kernel has executed it. The process may have any number
/// of threads. The journal entry is appended before that in this process: a child would not end
/// with it, and could append the entry when the next daemon has read the journal.
pub(super) fn spawn(mut command: Command, entry: Option<PendingEntry>) -> io::Result<Started> {
    if let Some(entry) = entry {
        record(&entry).map_err(|errno| io::Error::other(not_recorded(errno)))?;
    }
    command.stderr(Stdio::piped());
    prepare(&mut command, false, None);
    let mut child = command.spawn()?;
    Ok(Started {
        pid: pid_of(&child),
        errors: child.stderr.take().map(OwnedFd::from),
        failure: None,
    })
}

fn pid_of(child: &Child) -> Pid {
    let id = i32::try_from(child.id());
    Pid::from_raw(id.expect("the kernel returned it as a pid_t"))
}

/// Has a program start with an empty signal mask, the default timer slack and the original limit of
/// descriptors. The program and its children would inherit those of the daemon: a mask that blocks
/// SIGTERM for the sake of the loop, a minimal slack and a raised limit.
///
/// With `dies_with_thread`, the kernel kills the program when this thread ends, for whatever
/// reason. PR_SET_PDEATHSIG(2const): "the parent in this case is considered to be the thread that
/// created this process", so this is only for a thread that lives as long as its process. Children
/// of the program are not killed, nor is a set-user-ID program.
///
/// A journal entry is appended last, when the child ends with its parent: what is appended late is
/// not followed by a program. The error of the journal is a negative number.
fn prepare(command: &mut Command, dies_with_thread: bool, entry: Option<PendingEntry>) {
    let parent = getpid();
    let limit = descriptors::limit_of_programs();
    let prepare = move || {
        SigSet::empty().thread_set_mask()?;
        if dies_with_thread {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have ended before the call.
            if getppid() != parent {
                return Err(Errno::ESRCH.into());
            }
        }
        // If this fails, the daemon could not reduce its slack either.
        let _ = prctl::set_timerslack(USUAL_SLACK);
        if let Some((soft, hard)) = limit {
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        }
        if let Some(entry) = &entry {
            let failed = |errno| io::Error::from_raw_os_error(-(errno as i32));
            record(entry).map_err(failed)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only the async-signal-safe functions that signal-safety(7)
    // lists may be called. `prepare` fills a set on its stack and calls pthread_sigmask, getppid,
    // open, write and close, which are listed, and prctl(2) and setrlimit(2), which are plain
    // system calls; it neither allocates nor locks, also when it converts an errno to an
    // `io::Error`.
    unsafe { command.pre_exec(prepare) };
}

/// Appends a journal entry. Fails only if the program must not be started without the entry.
fn record(entry: &PendingEntry) -> Result<(), Errno> {
    entry.append().or_else(|errno| {
        if entry.is_required {
            Err(errno)
        } else {
            Ok(())
        }
    })
}

/// Returns the reason why a program is not started whose journal entry was not written.
fn not_recorded(errno: Errno) -> String {
    let error = io::Error::from(errno);
    format!("cannot write the journal of the state file: {error}")
}

/// The status of a child that could not execute its program; its error is known.
const NOT_EXECUTED: i32 = 127;

/// The default timer slack on Linux (nanoseconds).
const USUAL_SLACK: c_ulong = 50_000;

/// Returns a descriptor that becomes readable when the process with this id ends.
///
/// The id must be that of this process or of a child that has not been waited for, because other
/// ids may have been reused.
pub(super) fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    let no_flags = 0;
    // SAFETY: pidfd_open(2) takes two integers and does not access memory of this process.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), no_flags) };
    let fd = RawFd::try_from(result).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for this call, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

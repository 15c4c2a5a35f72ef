//! Two things about child processes that neither the standard library nor nix does.
//!
//! The one module with unsafe code.

#![allow(unsafe_code, reason = "pre_exec and pidfd_open have no safe form")]

use std::ffi::c_ulong;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getpid, getppid};

use super::descriptors;

/// Starts a program with no signal blocked: the daemon's own mask, which keeps SIGTERM for its
/// loop, would make the program and all that it starts deaf to it. Nor do its timers have the
/// daemon's little slack, which programs hand down like the mask, nor its limit of descriptors.
///
/// If the program is to die with this thread, the kernel kills it when the thread ends, however
/// that happens. PR_SET_PDEATHSIG(2const): "the parent in this case is considered to be the thread
/// that created this process", so this is only for a thread that lives as long as its process.
/// What the program starts itself is not killed, nor is a program that is set-user-ID.
pub(super) fn spawn(command: &mut Command, dies_with_thread: bool) -> io::Result<Child> {
    let parent = getpid();
    let limit = descriptors::limit_of_programs();
    let prepare = move || {
        SigSet::empty().thread_set_mask()?;
        if dies_with_thread {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // It may have ended before the kernel knew.
            if getppid() != parent {
                return Err(Errno::ESRCH.into());
            }
        }
        // Whoever can't have slack has none to lose.
        let _ = prctl::set_timerslack(USUAL_SLACK);
        if let Some((soft, hard)) = limit {
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called, which
    // signal-safety(7) lists. `prepare` fills a set on its stack and calls pthread_sigmask, which
    // is one of them, as is getppid, and prctl(2) and setrlimit(2), which are system calls and
    // nothing else; it neither allocates nor locks, also when it makes an errno an `io::Error`.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// By how much waits may be longer on Linux, as long as nobody says otherwise (nanoseconds).
const USUAL_SLACK: c_ulong = 50_000;

/// A descriptor that becomes readable when the process of this id ends.
///
/// The id must be that of this process or of a child that has not been waited for, so that nobody
/// else can have it.
pub(super) fn pidfd(id: u32) -> io::Result<OwnedFd> {
    let no_flags = 0;
    // SAFETY: pidfd_open(2) takes two integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, id, no_flags) };
    let fd = RawFd::try_from(result).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for this call, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

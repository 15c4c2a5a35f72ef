//! Two functions for child processes that neither the standard library nor nix provides.
//!
//! This is the only module with unsafe code.

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

/// Starts a program with an empty signal mask, the default timer slack and the original limit of
/// descriptors. The program and its children would inherit those of the daemon: a mask that blocks
/// SIGTERM for the sake of the loop, a minimal slack and a raised limit.
///
/// With `dies_with_thread`, the kernel kills the program when this thread ends, for whatever
/// reason. PR_SET_PDEATHSIG(2const): "the parent in this case is considered to be the thread that
/// created this process", so this is only for a thread that lives as long as its process. Children
/// of the program are not killed, nor is a set-user-ID program.
pub(super) fn spawn(command: &mut Command, dies_with_thread: bool) -> io::Result<Child> {
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
        Ok(())
    };
    // SAFETY: between fork and exec only the async-signal-safe functions that signal-safety(7)
    // lists may be called. `prepare` fills a set on its stack and calls pthread_sigmask and
    // getppid, which are listed, and prctl(2) and setrlimit(2), which are plain system calls; it
    // neither allocates nor locks, also when it converts an errno to an `io::Error`.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// The default timer slack on Linux (nanoseconds).
const USUAL_SLACK: c_ulong = 50_000;

/// Returns a descriptor that becomes readable when the process with this id ends.
///
/// The id must be that of this process or of a child that has not been waited for, because other
/// ids may have been reused.
pub(super) fn pidfd(id: u32) -> io::Result<OwnedFd> {
    let no_flags = 0;
    // SAFETY: pidfd_open(2) takes two integers and does not access memory of this process.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, id, no_flags) };
    let fd = RawFd::try_from(result).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for this call, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

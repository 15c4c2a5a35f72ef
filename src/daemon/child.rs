//! Functions for child processes that neither the standard library nor nix provides.

#![allow(unsafe_code, reason = "fork, execve and pidfd_open have no safe form")]

use std::ffi::{CString, OsString, c_char, c_ulong};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, rlim_t, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd::{
    ForkResult, Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, getpid, getppid, pipe2,
    setpgid, write,
};

use super::descriptors;
use super::journal::PendingEntry;

/// A program that was started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) pid: Pid,
    /// The end of the program's standard error from which to read, until the caller takes it.
    pub(super) errors: Option<OwnedFd>,
    /// The end of a pipe that the kernel closes when it executes the program; before that, the
    /// error is written to it. `None` once that was read.
    failure: Option<File>,
}

impl Started {
    /// Returns whether the program is executed, or has ended: the kernel has closed the other end
    /// of the pipe.
    pub(super) fn is_executed(&self) -> bool {
        let Some(pipe) = &self.failure else {
            return true;
        };
        let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
        let found = poll(&mut polled, PollTimeout::ZERO);
        found.is_ok_and(|found| found > 0)
    }

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

/// A program that can be executed: a child may not allocate, so its arguments and environment are
/// in the form that the kernel takes.
#[derive(Debug)]
pub(super) struct Executable {
    path: CString,
    arguments: Strings,
    environment: Strings,
    stdin: OwnedFd,
    stdout: OwnedFd,
}

/// Strings, and the pointers to them with a null pointer at the end.
#[derive(Debug)]
struct Strings {
    pointers: Vec<*const c_char>,
    _strings: Vec<CString>,
}

impl Strings {
    fn new(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|it| it.as_ptr());
        Self {
            pointers: pointers.chain([ptr::null()]).collect(),
            _strings: strings,
        }
    }
}

impl Executable {
    /// Prepares a program with these arguments and variables. Its output is discarded, and its
    /// working directory is the root.
    pub(super) fn new(
        path: &Path,
        arguments: &[OsString],
        environment: impl Iterator<Item = OsString>,
        stdin: File,
    ) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut all = vec![path.clone()];
        for argument in arguments {
            all.push(CString::new(argument.as_bytes())?);
        }
        let environment = environment.map(|it| CString::new(it.into_vec()));
        let null = File::options().write(true).open("/dev/null")?;
        Ok(Self {
            path,
            arguments: Strings::new(all),
            environment: Strings::new(environment.collect::<Result<_, _>>()?),
            stdin: above_standard(stdin.into())?,
            stdout: above_standard(null.into())?,
        })
    }

    /// Executes the program in the place of this one. Returns only if that is impossible.
    fn execute(&self) -> Errno {
        // SAFETY: the path ends with a zero octet, as each string that the lists point to; the
        // lists end with a null pointer. All of them live as long as `self`.
        unsafe {
            libc::execve(
                self.path.as_ptr(),
                self.arguments.pointers.as_ptr(),
                self.environment.pointers.as_ptr(),
            );
        }
        Errno::last()
    }
}

/// The preparations of a child for its program.
#[derive(Debug)]
struct Setup {
    /// The id of this process if the program is killed with this thread.
    dies_with: Option<Pid>,
    limit: Option<(rlim_t, rlim_t)>,
    /// The journal entry that the child appends.
    entry: Option<PendingEntry>,
    stderr: OwnedFd,
}

/// Starts a program, and returns before the kernel has executed it: on a machine whose processors
/// are busy, that takes as long as it takes the child to get one of them. The process may have any
/// number of threads.
///
/// With `dies_with_thread`, the kernel kills the program when this thread ends, for whatever
/// reason. PR_SET_PDEATHSIG(2const): "the parent in this case is considered to be the thread that
/// created this process", so this is only for a thread that lives as long as its process. Children
/// of the program are not killed, nor is a set-user-ID program. The child appends the journal
/// entry: what is appended late is not followed by a program, because the child has ended by then.
/// Other children do not end with this process, and could append it when the next daemon has read
/// the journal, so this process appends it for them.
pub(super) fn start(
    program: &Executable,
    dies_with_thread: bool,
    mut entry: Option<PendingEntry>,
) -> io::Result<Started> {
    if let Some(entry) = entry.take_if(|_| !dies_with_thread) {
        record(&entry).map_err(|errno| io::Error::other(not_recorded(errno)))?;
    }
    let (errors, stderr) = pipe2(OFlag::O_CLOEXEC)?;
    let (failure, failed) = pipe2(OFlag::O_CLOEXEC)?;
    let failed = above_standard(failed)?;
    let setup = Setup {
        dies_with: dies_with_thread.then(getpid),
        limit: descriptors::limit_of_programs(),
        entry,
        stderr: above_standard(stderr)?,
    };
    // SAFETY: between fork and exec only the async-signal-safe functions that signal-safety(7)
    // lists may be called, because the process may have several threads. `prepare` fills a set on
    // its stack and calls those that it names; they neither allocate nor lock. The child only
    // executes the program or exits.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(Started {
            pid: child,
            errors: Some(errors),
            failure: Some(File::from(failure)),
        }),
        ForkResult::Child => {
            let prepared = prepare(program, &setup);
            let errno = prepared.map_or_else(|errno| errno, |()| program.execute() as i32);
            let _ = write(&failed, &errno.to_ne_bytes());
            // SAFETY: _exit(2) does not return, and runs nothing that the parent has set up.
            unsafe { libc::_exit(NOT_EXECUTED) }
        }
    }
}

/// Has a program start with its own standard streams and process group, an empty signal mask, the
/// default action for SIGPIPE, the default timer slack and the original limit of descriptors. The
/// program and its children would inherit those of the daemon: a mask that blocks SIGTERM for the
/// sake of the loop, a minimal slack and a raised limit.
///
/// Returns the error number of a failure, which is negative if it is one of the journal. dup2,
/// setpgid, chdir, sigaction, pthread_sigmask, getppid, open, write and close are
/// async-signal-safe; prctl(2) and setrlimit(2) are plain system calls.
fn prepare(program: &Executable, setup: &Setup) -> Result<(), i32> {
    let streams = || {
        dup2_stdin(&program.stdin)?;
        dup2_stdout(&program.stdout)?;
        dup2_stderr(&setup.stderr)?;
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        chdir(c"/")?;
        // SAFETY: the default action calls no function of this process.
        unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
        SigSet::empty().thread_set_mask()?;
        if let Some(parent) = setup.dies_with {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have ended before the call.
            if getppid() != parent {
                return Err(Errno::ESRCH);
            }
        }
        // If this fails, the daemon could not reduce its slack either.
        let _ = prctl::set_timerslack(USUAL_SLACK);
        match setup.limit {
            Some((soft, hard)) => setrlimit(Resource::RLIMIT_NOFILE, soft, hard),
            None => Ok(()),
        }
    };
    streams().map_err(|errno| errno as i32)?;
    let recorded = setup.entry.as_ref().map_or(Ok(()), record);
    recorded.map_err(|errno| -(errno as i32))
}

/// Returns a descriptor that is not one of a standard stream, which dup2(2) would overwrite or, if
/// it is the right one already, leave to be closed by the kernel when it executes the program.
fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    let copy = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(libc::STDERR_FILENO + 1))?;
    // SAFETY: the kernel has just opened this descriptor for this call, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Appends a journal entry. Fails only if the program must not be started without the entry.
fn record(entry: &PendingEntry) -> Result<(), Errno> {
    let appended = entry.append();
    if entry.is_required { appended } else { Ok(()) }
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

//! Starts programs.
//!
//! A program leads a process group of its own, and does not inherit the settings that the daemon
//! has changed for itself. On request, the kernel kills the program when the daemon ends.

#![allow(unsafe_code, reason = "pre_exec has no safe form")]

use std::env;
use std::ffi::c_ulong;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpid, getppid};

use super::descriptors;
use crate::handler::Program;

/// Starts a program with this standard input and the `PATH` of the daemon, and returns once
/// execve(2) has succeeded. Its output is discarded, its standard error is a pipe, and its working
/// directory is `/`. Fails if the program is a script that does not name its interpreter.
///
/// With `dies_with_thread`, the kernel kills the program when this thread ends, for whatever
/// reason. PR_SET_PDEATHSIG(2const): "the parent in this case is considered to be the thread that
/// created this process", so this is only for a thread that lives as long as its process. Children
/// of the program are not killed, nor is a set-user-ID program.
pub(crate) fn spawn_program(
    program: &Program,
    stdin: File,
    dies_with_thread: bool,
) -> io::Result<Child> {
    if needs_shell(&program.path) {
        return Err(Errno::ENOEXEC.into());
    }
    let parent = dies_with_thread.then(getpid);
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let environment = program.environment.iter();
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .env_clear()
        .env("PATH", path)
        .envs(environment.map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .current_dir("/")
        .process_group(0);
    // SAFETY: between fork and exec only async-signal-safe functions may be called, because the
    // process may have several threads. `reset_inherited_settings` calls pthread_sigmask and
    // getppid, which signal-safety(7) lists, and prctl(2) and setrlimit(2), which are plain system
    // calls; it neither allocates nor locks.
    unsafe { command.pre_exec(move || reset_inherited_settings(parent).map_err(io::Error::from)) };
    command.spawn()
}

/// Restores the settings that the daemon has changed for itself and that a program would inherit:
/// the signal mask, the timer slack and the limit on descriptors. If `parent` is given, the kernel
/// kills the program when the parent ends.
fn reset_inherited_settings(parent: Option<Pid>) -> Result<(), Errno> {
    parent.map_or(Ok(()), die_with)?;
    SigSet::empty().thread_set_mask()?;
    // If this fails, the daemon could not reduce its slack either.
    let _ = prctl::set_timerslack(USUAL_SLACK);
    match descriptors::limit_of_programs() {
        Some((soft, hard)) => setrlimit(Resource::RLIMIT_NOFILE, soft, hard),
        None => Ok(()),
    }
}

/// Makes the kernel kill this process when its parent ends. Fails if the parent has already ended.
pub(crate) fn die_with(parent: Pid) -> Result<(), Errno> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == parent {
        Ok(())
    } else {
        Err(Errno::ESRCH)
    }
}

/// Returns whether a file is neither a binary nor a script that names its interpreter.
///
/// exec(3): "If the header of a file isn't recognized (the attempted execve(2) failed with the
/// error ENOEXEC), these functions will execute the shell (/bin/sh) with the path of the file as
/// its first argument." A file that cannot be read here cannot be read by a shell either.
fn needs_shell(program: &Path) -> bool {
    use io::Read as _;
    let mut head = [0; 4];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut head));
    let is_known = head.starts_with(b"#!") || head == *b"\x7fELF";
    match read {
        Ok(()) => !is_known,
        Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}

/// The `PATH` of programs if the daemon has none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The default timer slack on Linux, in nanoseconds.
const USUAL_SLACK: c_ulong = 50_000;

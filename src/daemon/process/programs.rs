//! The programs that handlers run: started, watched and killed without blocking.
//!
//! Each program leads a process group of its own. Standard input is a file in memory, so that the
//! daemon does not wait for the program to read it. Standard output is discarded. The beginning of
//! standard error is kept, and the rest is read so that the program never blocks on it. When a
//! program ends or is killed, the rest of its group is killed, too.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;

use mio::unix::SourceFd;
use mio::unix::pipe::Receiver;
use mio::{Interest, Registry};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};

use super::child;
use crate::config::MAX_PROGRAM_ERRORS;
use crate::daemon::source::Source;
use crate::handler::{EffectId, Program, ProgramEnd, ProgramOutcome};

/// The programs that run or are to be started.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    running: Vec<Running>,
    /// Whether a running program may have ended or written to standard error.
    pub(crate) is_any_running_ready: bool,
    /// The programs that have yet to be started, in this order, and whether each registers a new
    /// plugin.
    pub(crate) waiting: VecDeque<(EffectId, Program, bool)>,
    /// Whether programs are killed when the thread that starts them ends.
    pub(crate) die_with_thread: bool,
}

/// A running program.
#[derive(Debug)]
struct Running {
    id: EffectId,
    child: Child,
    /// The descriptor that is readable when the program has ended.
    _end: OwnedFd,
    /// The pipe from standard error.
    pipe: Receiver,
    /// The beginning of what was read from standard error.
    errors: Vec<u8>,
}

impl Programs {
    /// Starts the next program, if one waits, reads the standard error of programs, and reaps those
    /// that have ended. Returns these and the program that could not be started.
    ///
    /// Starting a program takes a millisecond, so only one start is attempted in each turn.
    pub(crate) fn start_and_reap(
        &mut self,
        registry: &Registry,
    ) -> Vec<(EffectId, ProgramOutcome)> {
        let mut ended = Vec::new();
        if let Some((id, program, _)) = self.waiting.pop_front() {
            match Running::spawn(id, &program, self.die_with_thread, registry) {
                Ok(running) => self.running.push(running),
                Err(error) => {
                    let end = ProgramEnd::NotStarted(error.to_string());
                    ended.push((id, ProgramOutcome::silent(end)));
                }
            }
        }
        if !mem::take(&mut self.is_any_running_ready) {
            return ended;
        }
        let mut at = 0;
        while let Some(running) = self.running.get_mut(at) {
            let has_ended = running.has_ended();
            let may_have_more = running.read_errors();
            if has_ended {
                let running = self.running.remove(at);
                ended.push((running.id, running.reap()));
            } else {
                self.is_any_running_ready |= may_have_more;
                at += 1;
            }
        }
        ended
    }

    /// Kills a program and its process group, or removes it from the queue. Returns
    /// [`ProgramEnd::TimedOut`] if it was running, else [`ProgramEnd::NotInTime`]. A killed program
    /// is kept until the kernel reports its end.
    pub(crate) fn kill(&mut self, id: EffectId) -> ProgramEnd {
        self.waiting.retain(|(waiting, ..)| *waiting != id);
        let Some(running) = self.running.iter().find(|it| it.id == id) else {
            return ProgramEnd::NotInTime;
        };
        running.kill();
        ProgramEnd::TimedOut
    }
}

/// Kills all running programs, so that none outlives a daemon that stops.
impl Drop for Programs {
    fn drop(&mut self) {
        for running in &self.running {
            running.kill();
        }
    }
}

impl Running {
    fn spawn(
        id: EffectId,
        program: &Program,
        dies_with_thread: bool,
        registry: &Registry,
    ) -> io::Result<Self> {
        let stdin = create_memory_file(&program.input)?;
        let mut child = child::spawn_program(program, stdin, dies_with_thread)?;
        let watched = watch_program(&mut child, registry);
        let (end, pipe) = watched.inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Self {
            id,
            child,
            _end: end,
            pipe,
            errors: Vec::new(),
        })
    }

    /// Returns whether the program has ended. The program stays a zombie, so that the id of its
    /// group is not reused.
    fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(self.pid()), flags);
        !matches!(status, Ok(WaitStatus::StillAlive))
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(rustix::process::Pid::from_child(&self.child).as_raw_pid())
    }

    /// Kills the program's group, and the program even if it has left the group.
    fn kill(&self) {
        let pid = self.pid();
        for killed in [killpg(pid, Signal::SIGKILL), kill(pid, Signal::SIGKILL)] {
            if let Err(errno) = killed {
                log::trace!("cannot kill a program: {errno} pid={pid}");
            }
        }
    }

    /// Reaps a program that has ended, kills the rest of its group, and returns the outcome.
    fn reap(mut self) -> ProgramOutcome {
        self.kill();
        let end = match self.child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => ProgramEnd::Exited(code),
                (None, signal) => ProgramEnd::Killed(signal.unwrap_or_default()),
            },
            Err(error) => ProgramEnd::NotStarted(error.to_string()),
        };
        ProgramOutcome {
            end,
            errors: self.errors,
        }
    }

    /// Reads what is available from standard error, at most [`READS`] times. Returns whether there
    /// may be more.
    fn read_errors(&mut self) -> bool {
        let mut buffer = [0; 4096];
        for _ in 0..READS {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => {
                    let room = MAX_PROGRAM_ERRORS - self.errors.len();
                    self.errors.extend_from_slice(&buffer[..n.min(room)]);
                }
                Err(error) => return error.kind() == io::ErrorKind::Interrupted,
            }
        }
        true
    }
}

/// Makes the loop report the end of a program and what the program writes to standard error.
fn watch_program(child: &mut Child, registry: &Registry) -> io::Result<(OwnedFd, Receiver)> {
    let token = Source::Program.token();
    let end = pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty())?;
    registry.register(&mut SourceFd(&end.as_raw_fd()), token, Interest::READABLE)?;
    let errors = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut pipe = Receiver::from(errors);
    pipe.set_nonblocking(true)?;
    registry.register(&mut pipe, token, Interest::READABLE)?;
    Ok((end, pipe))
}

/// Creates an anonymous file that contains these bytes, to be read from its beginning.
fn create_memory_file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"plugind-stdin", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// The number of reads from one program's standard error in one turn: a program that floods its
/// standard error does not keep plugins waiting.
const READS: usize = 16;

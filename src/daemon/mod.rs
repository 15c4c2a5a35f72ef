//! The shell: everything that touches the system, and nothing that decides.
//!
//! The only place with descriptors, the file system and a clock. It reads, writes, looks and waits,
//! hands what came of it to the core ([`crate::watch`], [`crate::manager`]), and carries out what
//! the core answers.
//!
//! ```text
//!   signalfd ------------------------------> Daemon -- stop() --+
//!                                              |                v
//!   inotify --> Inotify --> Watch -- Found --> | PluginManager: Manager
//!                 scan  <--       -- Lost  --> |                  |  ^
//!   sockets --> Connection -- received --------+------------------|--+
//!                          <-- Dial, Transmit, Hangup ------------+
//!   pidfds  --> Guards ------ ProcessEnded --+  <-- Guard, Unguard +
//!           --> Programs ---- ProgramEnded --+  <-- Spawn, Kill ---+
//! ```
//!
//! One loop, one thread, one deadline: the earlier of the watch's and the manager's. When nothing
//! happens, nothing wakes it.

mod child;
mod clock;
mod connection;
mod connections;
mod descriptors;
mod dial;
mod guards;
mod hold;
mod inotify;
mod listings;
mod lock;
mod logger;
mod mounts;
mod plugin_manager;
pub mod probe;
mod programs;
mod report;
mod roots;
mod run;
mod run_dir;
mod scan;
mod signals;
pub mod simulate;
mod source;
mod stat;
mod state_file;
mod time_of_day;
mod trust;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::escape;
use crate::watch::Problem;

pub use self::logger::Logger;
pub use self::plugin_manager::PluginManager;
pub use self::run::{Daemon, handlers};
pub use self::run_dir::RunDirProblem;
use self::signals::Signals;
pub use self::time_of_day::TimeOfDay;
pub use self::trust::ProgramProblem;

/// Why there was no start.
#[derive(Debug)]
pub enum SetupError {
    /// The system gave no poll loop.
    Loop(io::Error),
    /// The system gave no descriptor for signals.
    Signals(io::Error),
    /// A plugins directory is not as it must be.
    Directory {
        /// Which.
        dir: Arc<Path>,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Another daemon works on a plugins directory, on one inside it or on one above it.
    Taken {
        /// Which.
        dir: PathBuf,
        /// The file that it has locked.
        lock: PathBuf,
        /// Its process, if that is visible here.
        holder: Option<u32>,
    },
    /// The run directory cannot be used.
    RunDir {
        /// Which.
        dir: PathBuf,
        /// What is wrong with it.
        problem: RunDirProblem,
    },
    /// A program is not to be run.
    Program {
        /// Which.
        program: PathBuf,
        /// What is wrong with it.
        problem: ProgramProblem,
    },
    /// The state file can never be written.
    StateFile {
        /// Which.
        file: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Others could put another file in the place of the state file.
    StateDirectory {
        /// Which.
        file: PathBuf,
        /// What is wrong with a directory above it.
        problem: ProgramProblem,
    },
    /// The system can't tell when a program ends.
    ProgramsUnwatched(io::Error),
    /// A simulated plugin cannot listen.
    Listen {
        /// Where.
        socket: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop(error) => write!(f, "cannot create a poll loop: {error}"),
            Self::Signals(error) => write!(f, "cannot take signals: {error}"),
            Self::Directory { dir, problem } => write!(
                f,
                "cannot use the plugins directory {}: {problem}; {}",
                escape::path(dir),
                problem.remedy()
            ),
            Self::Taken { dir, lock, holder } => {
                write!(
                    f,
                    "cannot use the plugins directory {}: another plugind works on it, inside it \
                     or above it; end that one first, or look on with --observe: lock={}",
                    escape::path(dir),
                    escape::path(lock)
                )?;
                match holder {
                    Some(pid) => write!(f, " pid={pid}"),
                    None => Ok(()),
                }
            }
            Self::RunDir { dir, problem } => write!(
                f,
                "cannot use the run directory {}: {problem}; {}",
                escape::path(dir),
                run_dir::remedy(dir, problem)
            ),
            Self::Program { program, problem } => write!(
                f,
                "cannot use the program {}: {problem}; {}",
                escape::path(program),
                problem.remedy()
            ),
            Self::StateFile { file, error } => write!(
                f,
                "cannot write the state file {}: {error}; name a file in a directory that exists \
                 and is writable",
                escape::path(file)
            ),
            Self::StateDirectory { file, problem } => write!(
                f,
                "cannot use the state file {}: {problem}; name a file in a directory that only \
                 root and the daemon's user can change",
                escape::path(file)
            ),
            Self::ProgramsUnwatched(error) => write!(
                f,
                "cannot watch programs: {error}; it takes Linux 5.3 or later"
            ),
            Self::Listen { socket, error } => {
                write!(f, "cannot listen on {}: {error}", escape::path(socket))
            }
        }
    }
}

impl std::error::Error for SetupError {}

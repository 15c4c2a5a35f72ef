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
//! ```
//!
//! One loop, one thread, one deadline: the earlier of the watch's and the manager's. When nothing
//! happens, nothing wakes it.

mod clock;
mod connection;
mod connections;
mod guards;
mod inotify;
mod plugin_manager;
pub mod probe;
mod run;
mod scan;
mod signals;
mod state_file;
mod time_of_day;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::escape;
use crate::watch::Problem;

pub use self::plugin_manager::PluginManager;
pub use self::run::Daemon;
use self::signals::Signals;
pub use self::time_of_day::TimeOfDay;

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
        }
    }
}

impl std::error::Error for SetupError {}

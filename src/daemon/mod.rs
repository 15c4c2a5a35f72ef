//! The shell: all code that touches the system. What becomes of a plugin is decided in the core.
//!
//! This is the only module with descriptors, file system access and a clock. It reads, writes,
//! examines files and waits, passes the results to the core ([`crate::watch`], [`crate::manager`])
//! as inputs, and carries out the core's outputs.
//!
//! ```text
//!   signalfd ------------------------------> Daemon -- stop() --+
//!                                              |                v
//!   inotify --> Inotify --> Watch -- Found --> | PluginManager: Manager
//!                 scan  <--       -- Lost  --> |                  |  ^
//!   sockets --> Connection -- Exchanged -------+------------------|--+
//!                          <-- Dial, Transmit, Hangup ------------+
//!   pidfds  --> PeerProcesses - ProcessEnded --+  <-- WatchPeer, Spawn
//!           --> Programs ------ ProgramEnded --+  <-- UnwatchPeer, Kill
//! ```
//!
//! There is one loop on one thread, with one deadline: the earliest of those of its parts, such as
//! the watch, the manager and the log. Before the deadline, only an event wakes the loop.

mod api;
mod clock;
mod connection;
mod event_loop;
mod fs;
#[cfg(feature = "cli")]
mod log;
mod process;
mod service;
mod source;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::fs::file_lock;
pub use crate::api::Event;
use crate::config::LEAST_DESCRIPTORS;
use crate::escape;
pub use crate::watch::{Problem, Report};

#[cfg(feature = "cli")]
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use self::api::client;
pub use self::event_loop::PluginManager;
pub use self::fs::{ProgramProblem, RunDirProblem, SocketProblem};
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use self::fs::{group_id, user_id};
#[cfg(feature = "cli")]
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use self::log::{FilterError, Logger, has_colours};
pub use self::service::handlers;
#[cfg(feature = "cli")]
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use self::service::{Daemon, Load, config_file, doctor, path_problems, probe, simulate};

/// The reason why a start or a reload failed, or why a directory was not added.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The poll loop cannot be created.
    #[error("cannot create the event loop: {0}")]
    Loop(io::Error),
    /// The descriptor for signals cannot be created.
    #[error("cannot set up signal handling: {0}")]
    Signals(io::Error),
    /// The process may have only this many open files, fewer than [`LEAST_DESCRIPTORS`].
    #[error(
        "cannot start with a limit of {0} open files; at least {LEAST_DESCRIPTORS} are needed: \
         raise the hard limit (ulimit -Hn, LimitNOFILE=)"
    )]
    Descriptors(usize),
    /// A plugins directory cannot be used.
    #[error(
        "cannot use the plugins directory {}: {problem}; {}",
        escape::path(dir),
        problem.remedy()
    )]
    Directory {
        /// The directory.
        dir: Arc<Path>,
        /// The problem with the directory.
        problem: Problem,
    },
    /// Another daemon uses a plugins directory.
    #[error(
        "cannot use the plugins directory {}: another plugind uses it; stop that plugind first, \
         or use --observe for a dry run lock={}{}",
        escape::path(dir),
        escape::path(lock),
        file_lock::describe_holder(*holder)
    )]
    Taken {
        /// The plugins directory.
        dir: PathBuf,
        /// The lock file that the other daemon holds.
        lock: PathBuf,
        /// The process id of the other daemon, if visible in this PID namespace.
        holder: Option<u32>,
    },
    /// The run directory cannot be used.
    #[error(
        "cannot use the run directory {}: {problem}; {}",
        escape::path(dir),
        problem.remedy()
    )]
    RunDir {
        /// The run directory.
        dir: PathBuf,
        /// The problem with the run directory.
        problem: RunDirProblem,
    },
    /// Device plugins cannot register in their directory.
    #[error(
        "cannot serve device plugins on kubelet.sock in {}: {problem}; {}",
        escape::path(dir),
        event_loop::remedy(problem)
    )]
    DevicePlugins {
        /// The directory.
        dir: PathBuf,
        /// The problem with the socket in the directory.
        problem: SocketProblem,
    },
    /// Something else cannot be used, such as a program, a file or a socket. The text contains the
    /// reason and, for what the configuration names, a remedy.
    #[error("{0}")]
    Unusable(String),
}

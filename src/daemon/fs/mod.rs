//! Files and directories: what is examined, watched, opened, locked and written.
//!
//! In reading order: a module uses only those before it.
//!
//! - [`stat`]: the type, owner and identity of a file; [`permissions`]: whether it is trusted;
//!   [`own_file`]: a file that this process has created, and directories;
//! - [`mounts`], [`open_path`]: open what a plugin names, without a system call that hangs;
//! - [`run_dir`]: the run directory;
//! - [`dial`], [`acceptor`]: connect to a socket, and listen on one;
//! - [`scan`], [`inotify`]: list a directory, and report its changes;
//! - [`file_lock`], [`lock`], [`roots`]: the plugins directories and their locks;
//! - [`link_name`], [`by_name`]: the links to plugins; [`state_file`]: the registered plugins;
//!   [`cdi_dir`]: the files for container runtimes.

pub(super) mod acceptor;
pub(super) mod by_name;
pub(super) mod cdi_dir;
pub(super) mod dial;
pub(super) mod file_lock;
pub(super) mod inotify;
mod link_name;
pub(super) mod lock;
pub(super) mod mounts;
pub(super) mod open_path;
pub(super) mod own_file;
pub(super) mod permissions;
pub(super) mod roots;
pub(super) mod run_dir;
pub(super) mod scan;
pub(super) mod stat;
pub(super) mod state_file;

pub use self::acceptor::SocketProblem;
pub use self::permissions::{ProgramProblem, group_id, user_id};
pub use self::run_dir::RunDirProblem;

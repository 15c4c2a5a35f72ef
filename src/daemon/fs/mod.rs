//! Files and directories: what is looked at, watched, opened, locked and written.
//!
//! In reading order, each file uses only those above it:
//!
//! - [`stat`]: what a path is; [`permissions`]: who can change it; [`own_file`]: what this process
//!   has created there;
//! - [`mounts`], [`open_path`]: opens what a plugin names, without a system call that hangs;
//! - [`dial`], [`acceptor`]: connects to a socket file, and accepts on one;
//! - [`inotify`], [`scan`]: reports what changes in a directory, and lists it;
//! - [`run_dir`], [`file_lock`], [`lock`], [`roots`]: the run directory, and the lock of a plugins
//!   directory;
//! - [`by_name`], [`state_file`]: the links and the file that are written there; [`cdi_dir`]: the
//!   files for container runtimes.

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

//! The peer processes of connections.
//!
//! Pure: values only.

use std::fmt;

/// The process at the other end of a connection: the one that called `listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// The process ID; `None` if the process is in a PID namespace that is not visible here.
    pub pid: Option<u32>,
    /// The user ID of the process when it called `listen`.
    pub uid: u32,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => write!(f, "a process of user {}", self.uid),
        }
    }
}

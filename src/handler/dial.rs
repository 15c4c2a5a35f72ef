//! Why a unix socket can't be connected to.
//!
//! Pure.

use std::fmt;

use crate::escape;

/// Why there is no connection to a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialError {
    /// Nobody listens on it (ECONNREFUSED).
    Refused,
    /// Its listener does not accept fast enough (EAGAIN: the backlog is full).
    Busy,
    /// There is nothing at that path (ENOENT).
    Gone,
    /// What is there is no socket.
    NotASocket,
    /// What is there is another socket than the one to be dialled.
    Replaced,
    /// This process may not connect to it (EACCES, EPERM).
    Denied,
    /// The path leads to a file system of this type, which may not answer: a plugin must not have
    /// everything wait for one.
    MayNotAnswer(String),
    /// This process, or the system, has used up its descriptors (EMFILE, ENFILE).
    NoDescriptors,
    /// It took too long.
    TimedOut,
    /// Something else, in the system's words.
    Other(String),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("nothing listens on the socket"),
            Self::Busy => f.write_str("the listener's backlog is full"),
            Self::Gone => f.write_str("there is no such socket"),
            Self::NotASocket => f.write_str("there is something else than a socket"),
            Self::Replaced => f.write_str("there is another socket now"),
            Self::Denied => f.write_str("no permission to connect to the socket"),
            Self::MayNotAnswer(file_system) => write!(
                f,
                "the path leads to a file system that may not answer: file_system={}",
                escape::text(file_system)
            ),
            Self::NoDescriptors => f.write_str("the file descriptors are used up"),
            Self::TimedOut => f.write_str("it took too long"),
            Self::Other(words) => write!(f, "{}", escape::text(words)),
        }
    }
}

impl std::error::Error for DialError {}

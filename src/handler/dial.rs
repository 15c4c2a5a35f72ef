//! The errors of connecting to a unix socket.

use std::fmt;

use crate::config::Distrust;
use crate::escape;

/// The reason why a socket cannot be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialError {
    /// Nothing listens on the socket (ECONNREFUSED).
    Refused,
    /// The listener does not accept fast enough (EAGAIN: the backlog is full).
    Busy,
    /// Nothing exists at that path (ENOENT).
    Gone,
    /// The file at that path is not a socket.
    NotASocket,
    /// The socket at that path is not the one to be dialed.
    Replaced,
    /// This process may not connect to the socket (EACCES, EPERM).
    Denied,
    /// The path leads to a file system of this type, which may hang: a plugin must not be able to
    /// block the whole daemon.
    MayNotAnswer(String),
    /// The socket is not trusted, and was not connected to, or was left at once.
    Untrusted(Distrust),
    /// The descriptors of this process, or of the system, are used up (EMFILE, ENFILE).
    NoDescriptors,
    /// The time limit was exceeded.
    TimedOut,
    /// Another error, in the system's words.
    Other(String),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("nothing listens on the socket"),
            Self::Busy => f.write_str("the listener's backlog is full"),
            Self::Gone => f.write_str("the socket does not exist"),
            Self::NotASocket => f.write_str("the file at the path is not a socket"),
            Self::Replaced => f.write_str("the socket was replaced by another one"),
            Self::Denied => f.write_str("permission denied"),
            Self::MayNotAnswer(file_system) => write!(
                f,
                "the path leads to a file system that may not answer: file_system={}",
                escape::text(file_system)
            ),
            Self::Untrusted(why) => why.fmt(f),
            Self::NoDescriptors => f.write_str("no file descriptors are left"),
            Self::TimedOut => f.write_str("the connection attempt timed out"),
            Self::Other(words) => write!(f, "{}", escape::text(words)),
        }
    }
}

impl std::error::Error for DialError {}

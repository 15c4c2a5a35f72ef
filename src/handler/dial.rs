//! The errors of connecting to a Unix socket.

use crate::config::Distrust;
use crate::escape;

/// The reason why a socket cannot be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// Nothing listens on the socket (ECONNREFUSED).
    #[error("nothing listens on the socket")]
    Refused,
    /// The listener does not accept fast enough (EAGAIN: the backlog is full).
    #[error("the listener's backlog is full")]
    Busy,
    /// Nothing exists at that path (ENOENT).
    #[error("the socket does not exist")]
    Gone,
    /// The file at that path is not a socket.
    #[error("the file at the path is not a socket")]
    NotASocket,
    /// The socket at that path is not the one to be dialed.
    #[error("the socket was replaced by another one")]
    Replaced,
    /// The daemon is not permitted to connect to the socket (EACCES, EPERM).
    #[error("permission denied")]
    Denied,
    /// The path leads to a file system of this type, which may hang: a plugin must not be able to
    /// block the whole daemon.
    #[error(
        "the path leads to a file system that may not answer, so it is not dialed file_system={}",
        escape::text(.0)
    )]
    MayNotAnswer(String),
    /// The socket is not trusted: it was not connected to, or the connection was closed at once.
    #[error("{0}")]
    Untrusted(Distrust),
    /// The file descriptors of the daemon that are meant for plugins, or those of the system, are
    /// used up (EMFILE, ENFILE).
    #[error("no file descriptors are left")]
    NoDescriptors,
    /// The time limit was exceeded.
    #[error("the connection attempt timed out")]
    TimedOut,
    /// Another error; the text is the system's message.
    #[error("{}", escape::text(.0))]
    Other(String),
}

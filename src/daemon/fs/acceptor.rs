//! A listening socket in the poll loop.
//!
//! The listener and its connections have the types of Unix sockets, even if a TCP socket was passed
//! in: reading, writing, waiting and closing are the same for both.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use mio::net::{UnixListener, UnixStream};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};
use rustix::net::{SocketFlags, accept_with};

use super::dial::dial;
use super::permissions::ProgramProblem;
use super::run_dir::RunDirProblem;
use crate::config::{ACCEPT_RETRY, BACKLOG};
use crate::daemon::connection;
use crate::escape;
use crate::handler::DialError;
use crate::time::Time;

/// A socket that accepts connections, and what the loop has reported about it.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// The source of events.
    pub(crate) listener: UnixListener,
    /// The time from which on a connection may be waiting: readiness is reported once per change
    /// only.
    ready_at: Option<Time>,
}

impl Acceptor {
    pub(crate) fn new(listener: UnixListener) -> Self {
        Self {
            listener,
            ready_at: Some(Time::ZERO),
        }
    }

    /// Records that the loop has reported a connection. A pause after a failure is not cut short.
    pub(crate) fn record_readiness(&mut self) {
        self.ready_at.get_or_insert(Time::ZERO);
    }

    /// Returns when to call [`Acceptor::accept`] although the loop reports nothing.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.ready_at
    }

    /// Accepts a connection, or returns `None` if none is waiting. If no descriptor is left, one
    /// may be waiting: it is accepted after a pause.
    pub(crate) fn accept(&mut self, now: Time) -> Option<UnixStream> {
        while self.ready_at.is_some_and(|at| at <= now) {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(stream) => return Some(UnixStream::from_std(stream.into())),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.ready_at = None,
                    // The client has closed the connection, or a signal has interrupted the call.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => {
                        log::debug!("cannot accept a client, retrying: {error}");
                        self.ready_at = Some(now + ACCEPT_RETRY);
                    }
                },
            }
        }
        None
    }
}

/// The reason why a process cannot listen on a socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketProblem {
    /// Another process listens on it, with this id if it is known.
    #[error(
        "{} listens on it",
        .0.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    InUse(Option<u32>),
    /// Another kind of file is at its path.
    #[error("it is not a socket")]
    NotASocket,
    /// Untrusted users could replace it.
    #[error("{0}")]
    Untrusted(ProgramProblem),
    /// Its directory, the run directory, cannot be used.
    #[error("the run directory cannot be used: {0}")]
    RunDir(RunDirProblem),
    /// Its directory is this plugins directory, or is inside it or above it.
    #[error(
        "the plugins directory {} is the same, inside it or above it",
        escape::path(.0)
    )]
    Overlaps(PathBuf),
    /// It cannot be created, or not with its group and mode.
    #[error("{0}")]
    Unusable(io::Error),
}

impl From<io::Error> for SocketProblem {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EADDRINUSE) => Self::InUse(None),
            _ => Self::Unusable(error),
        }
    }
}

/// Listens at a path at which nothing is. The file has its mode and group before a process can
/// connect: until then, only its user may open it.
pub(crate) fn listen_at(path: &Path, mode: u32, group: Option<u32>) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // On Linux, the file gets the mode of the socket, less the bits of the umask.
    fchmod(&fd, Mode::from_bits_truncate(PRIVATE))?;
    bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    let finish = || {
        if group.is_some() {
            lchown(path, None, group)?;
        }
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        let backlog = Backlog::new(BACKLOG).unwrap_or(Backlog::MAXCONN);
        listen(&fd, backlog).map_err(io::Error::from)
    };
    if let Err(error) = finish() {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(UnixListener::from_std(fd.into()))
}

/// Removes a socket on which no process listens. Fails if anything else is at the path.
pub(crate) fn remove_stale_socket(path: &Path) -> Result<(), SocketProblem> {
    // The path is that of a file, even if it begins like the name of an abstract socket.
    match dial(&Path::new(".").join(path)) {
        Ok(stream) => {
            let process = connection::peer_process(&stream);
            Err(SocketProblem::InUse(process.and_then(|it| it.pid)))
        }
        Err(DialError::Busy) => Err(SocketProblem::InUse(None)),
        Err(DialError::Refused) => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SocketProblem::Unusable(error))
            }
            _ => Ok(()),
        },
        Err(DialError::Gone) => Ok(()),
        Err(DialError::NotASocket) => Err(SocketProblem::NotASocket),
        Err(other) => Err(SocketProblem::Unusable(io::Error::other(other.to_string()))),
    }
}

/// The mode of a socket until it has its group.
const PRIVATE: u32 = 0o600;

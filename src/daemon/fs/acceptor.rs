//! A listening socket in the poll loop.
//!
//! The listener and its connections have the types of Unix sockets, even if a TCP socket was passed
//! in: reading, writing, waiting and closing are the same for both.

use std::fs::{self, Permissions};
use std::io;
use std::mem;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};
use rustix::net::{SocketFlags, accept_with};

use super::dial::dial;
use super::own_file::{OwnFile, remove_if_present};
use super::permissions::ProgramProblem;
use super::run_dir::RunDirProblem;
use crate::config::SYSTEM_RETRY;
use crate::daemon::connection;
use crate::escape;
use crate::handler::DialError;
use crate::time::Time;

/// A socket that accepts connections, and what the loop has reported about it.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// The file, which is removed on drop, before the socket is closed. `None` if the socket was
    /// passed in.
    file: Option<OwnFile>,
    listener: UnixListener,
    /// The time of the next call of [`Acceptor::accept`], or `None` until the loop reports a
    /// connection. The loop reports readiness only when it changes.
    pub(crate) ready_at: Option<Time>,
}

impl Acceptor {
    /// Creates a socket at `path` with this mode and group, and listens on it. Replaces a stale
    /// socket. `address` leads to the same place, and must be short enough for a socket address.
    /// `backlog` clients may wait to be accepted.
    pub(crate) fn bind(
        path: &Path,
        address: &Path,
        mode: u32,
        group: Option<u32>,
        backlog: i32,
    ) -> Result<Self, SocketProblem> {
        remove_stale_socket(path)?;
        let listener = listen_at(address, mode, group, backlog)?;
        Ok(Self {
            file: Some(OwnFile::at(path)?),
            ..Self::from_passed(listener)
        })
    }

    /// Uses a listening socket that was passed in. Its file stays.
    pub(crate) fn from_passed(listener: UnixListener) -> Self {
        Self {
            file: None,
            listener,
            ready_at: Some(Time::ZERO),
        }
    }

    /// Adds the socket to the loop.
    pub(crate) fn register(&mut self, token: Token, registry: &Registry) -> io::Result<()> {
        registry.register(&mut self.listener, token, Interest::READABLE)
    }

    /// Returns whether the file is still at its path.
    pub(crate) fn is_in_place(&self) -> bool {
        self.file.as_ref().is_none_or(OwnFile::is_in_place)
    }

    /// Closes the socket, and leaves its file behind.
    pub(crate) fn close_without_removal(self) {
        mem::forget(self.file);
    }

    /// Records that the loop has reported a connection. A pause after a failure is not cut short.
    pub(crate) fn record_readiness(&mut self) {
        self.ready_at.get_or_insert(Time::ZERO);
    }

    /// Accepts a connection. Returns `None` if no connection is waiting, and for [`SYSTEM_RETRY`]
    /// after accept(2) has failed, for example because no descriptor is left.
    pub(crate) fn accept(&mut self, now: Time) -> Option<UnixStream> {
        while self.ready_at.is_some_and(|at| at <= now) {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(stream) => return Some(UnixStream::from_std(stream.into())),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.ready_at = None,
                    // The client has closed the connection, or a signal has interrupted the call.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => {
                        let address = self.listener.local_addr().ok(); // Fails for a TCP socket.
                        let path = address.as_ref().and_then(|it| it.as_pathname());
                        let socket =
                            escape::path(path.unwrap_or_else(|| Path::new("passed socket")));
                        log::debug!("{socket}: cannot accept a connection, retrying: {error}");
                        self.ready_at = Some(now + SYSTEM_RETRY);
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
    /// Another process, with this id if known, listens on the socket.
    #[error(
        "{} listens on it",
        .0.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    InUse(Option<u32>),
    /// Another kind of file is at the path of the socket.
    #[error("it is not a socket")]
    NotASocket,
    /// Untrusted users could replace the socket.
    #[error("{0}")]
    Untrusted(ProgramProblem),
    /// The run directory, which is to contain the socket, cannot be used.
    #[error("the run directory cannot be used: {0}")]
    RunDir(RunDirProblem),
    /// The directory of the socket is this plugins directory, or is inside it or above it.
    #[error("it overlaps with the plugins directory {}", escape::path(.0))]
    Overlaps(PathBuf),
    /// An old socket at the path cannot be examined or removed, or the new one cannot be created
    /// with its group and mode.
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

/// Creates a socket at a path at which no file exists, and listens on it. The socket has its mode
/// and group before a process can connect; until then, only its user may open it.
fn listen_at(path: &Path, mode: u32, group: Option<u32>, backlog: i32) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // On Linux, the file gets the mode of the socket, less the bits of the umask.
    fchmod(&fd, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    let finish = || {
        if group.is_some() {
            lchown(path, None, group)?;
        }
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        let backlog = Backlog::new(backlog).unwrap_or(Backlog::MAXCONN);
        listen(&fd, backlog).map_err(io::Error::from)
    };
    if let Err(error) = finish() {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(UnixListener::from_std(fd.into()))
}

/// Removes the socket at a path if no process listens on it. Fails if a process listens there, if
/// another kind of file is at the path, or if the socket cannot be examined or removed. It is not
/// an error if no file is at the path.
pub(crate) fn remove_stale_socket(path: &Path) -> Result<(), SocketProblem> {
    // Because of the `./`, a path that begins with `@` does not name an abstract socket.
    match dial(&Path::new(".").join(path)) {
        Ok(stream) => {
            let process = connection::peer_process(&stream);
            Err(SocketProblem::InUse(process.and_then(|it| it.pid)))
        }
        Err(DialError::Busy) => Err(SocketProblem::InUse(None)),
        Err(DialError::Refused) => remove_if_present(path).map_err(SocketProblem::Unusable),
        Err(DialError::Gone) => Ok(()),
        Err(DialError::NotASocket) => Err(SocketProblem::NotASocket),
        Err(other) => Err(SocketProblem::Unusable(io::Error::other(other.to_string()))),
    }
}

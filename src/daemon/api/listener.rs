//! The socket of the API: its path, the users that may connect to it, and the process that listens.
//!
//! A lock file beside the socket, `SOCKET.lock`, decides between processes: only the process that
//! holds the lock binds, replaces and removes the socket. So a socket that a killed daemon has left
//! behind can be replaced without a race, and a socket in use is never replaced. A user who can
//! change the directory could put another socket in its place, so only root and the daemon's user
//! may be able to change it.
//!
//! An API socket that the service manager has passed in replaces the configured one. The file of a
//! socket that was passed in is not touched.

use std::os::fd::OwnedFd;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mio::net::UnixListener;

use crate::config::{ApiSocket, BACKLOG, BRIEF_LOCK_TIMEOUT, Config, LOCK_TIMEOUT, Mode};
use crate::daemon::fs::acceptor::{Acceptor, SocketProblem};
use crate::daemon::fs::file_lock::{self, FileLock};
use crate::daemon::fs::{permissions, run_dir};
use crate::daemon::process::passed::{self, Passed};
use crate::daemon::{ProgramProblem, SetupError};
use crate::escape;

/// A socket that accepts clients.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The path, or a word for a socket without one.
    pub(super) path: PathBuf,
    pub(super) acceptor: Acceptor,
    /// The lock, released after the socket is removed; `None` if the socket was passed in.
    _lock: Option<FileLock>,
    /// Whether it serves the API, and not only the metrics.
    pub(super) serves_api: bool,
}

/// Opens the sockets on which clients are served, and returns them: those that were passed in, and
/// that of the configuration if none was passed in for the API.
pub(crate) fn open_all(config: &Config, passed: Passed) -> Result<Vec<Listener>, SetupError> {
    let mut listeners = Vec::new();
    match passed.api {
        Some(_)
            if matches!(config.api_socket, ApiSocket::None) || config.socket_group.is_some() =>
        {
            let why = "it cannot be used with --socket none or --socket-group";
            return Err(passed::socket_error("api", why));
        }
        Some(socket) => listeners.push(Listener::from_passed(socket, true)),
        None => listeners.extend(open_configured(config)?),
    }
    if let Some(socket) = passed.metrics {
        listeners.push(Listener::from_passed(socket, false));
    }
    Ok(listeners)
}

/// Opens the socket of a configuration; returns `None` if the API is off. If the default socket
/// cannot be created, logs a warning and returns `None`, too, unless a group was named for it.
fn open_configured(config: &Config) -> Result<Option<Listener>, SetupError> {
    let group = config.socket_group;
    let (path, opened) = match &config.api_socket {
        ApiSocket::None => return Ok(None),
        // The default one belongs to a daemon that registers plugins.
        ApiSocket::Default if config.mode == Mode::Observe => return Ok(None),
        ApiSocket::Default => match run_dir::open(config.run_dir.as_deref()) {
            Ok(dir) => {
                let path = run_dir::api_socket(&dir);
                let opened = Listener::bind(&path, group, BRIEF_LOCK_TIMEOUT);
                (path, opened)
            }
            Err((dir, why)) => (run_dir::api_socket(&dir), Err(SocketProblem::RunDir(why))),
        },
        ApiSocket::At(path) => (path.clone(), Listener::bind(path, group, LOCK_TIMEOUT)),
    };
    let problem = match opened {
        Ok(listener) => return Ok(Some(listener)),
        Err(problem) => problem,
    };
    let (path, remedy) = (escape::path(&path), remedy(&problem));
    if config.api_socket != ApiSocket::Default || group.is_some() {
        return Err(SetupError::Unusable(format!(
            "cannot serve the API on {path}: {problem}; {remedy}"
        )));
    }
    log::warn!("cannot serve the API on {path}: {problem}; {remedy}");
    Ok(None)
}

impl Listener {
    /// Listens at `path`, replacing a stale socket. If another daemon uses the socket, waits at
    /// most `timeout` for that daemon to end.
    fn bind(path: &Path, group: Option<u32>, timeout: Duration) -> Result<Self, SocketProblem> {
        let path = permissions::resolve_trusted_file(path).map_err(|problem| match problem {
            ProgramProblem::NotFound(error) => SocketProblem::Unusable(error),
            other => SocketProblem::Untrusted(other),
        })?;
        let mut lock_path = path.clone().into_os_string();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let deadline = Instant::now() + timeout;
        let Some(lock) = FileLock::acquire(&lock_path, deadline)? else {
            return Err(SocketProblem::InUse(file_lock::holder(&lock_path)));
        };
        if path.is_symlink() {
            return Err(SocketProblem::NotASocket);
        }
        Ok(Self {
            // Its user and its group may connect.
            acceptor: Acceptor::bind(&path, &path, 0o660, group, BACKLOG)?,
            path,
            serves_api: true,
            _lock: Some(lock),
        })
    }

    /// Uses a socket that was passed in.
    fn from_passed(socket: OwnedFd, serves_api: bool) -> Self {
        let listener = net::UnixListener::from(socket);
        // Fails for a socket of another address family.
        let address = listener.local_addr().ok();
        let path = address.as_ref().and_then(net::SocketAddr::as_pathname);
        Self {
            path: path.map_or_else(|| WITHOUT_PATH.into(), Path::to_owned),
            acceptor: Acceptor::from_passed(UnixListener::from_std(listener)),
            serves_api,
            _lock: None,
        }
    }
}

/// Returns what can be done about a socket that cannot be used.
fn remedy(problem: &SocketProblem) -> &'static str {
    match problem {
        SocketProblem::InUse(_) => "stop that process, or name another socket with --socket",
        SocketProblem::NotASocket => "remove it, or name another socket with --socket",
        SocketProblem::Untrusted(_) => {
            "name a socket in a directory that only root and the daemon's user can change"
        }
        _ => "name another socket with --socket, or none with --socket none",
    }
}

/// The word for a socket without a path.
const WITHOUT_PATH: &str = "passed";

#[cfg(test)]
mod tests;

//! A socket that a simulated plugin listens on.

use std::path::{Path, PathBuf};

use super::Reporter;
use crate::daemon::SetupError;
use crate::daemon::fs::acceptor::Acceptor;
use crate::escape;
use crate::simulate::Socket;

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) path: PathBuf,
    pub(super) acceptor: Acceptor,
    pub(super) socket: Socket,
}

impl Listener {
    /// Listens at `path`, replacing a stale socket, as plugins do.
    pub(super) fn open(path: &Path, socket: Socket) -> Result<Self, SetupError> {
        let acceptor = Acceptor::bind(path, path, MODE, None).map_err(|problem| {
            let path = escape::path(path);
            SetupError::Unusable(format!("cannot listen on {path}: {problem}"))
        })?;
        let path = path.to_owned();
        Ok(Self {
            path,
            acceptor,
            socket,
        })
    }

    /// Leaves the file behind, as a process that is killed does.
    pub(super) fn keep_socket_file(self) {
        self.acceptor.close_without_removal();
    }

    /// Reports that the plugin listens.
    pub(super) fn report_listening(&self, report: Reporter<'_>) {
        report(&format_args!("listening on {}", escape::path(&self.path)));
    }
}

/// The mode of the socket: it is for its user only.
const MODE: u32 = 0o700;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn open(path: &Path) -> Result<Listener, String> {
        Listener::open(path, Socket::Common).map_err(|error| error.to_string())
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a-reg.sock");
        open(&path).unwrap().keep_socket_file();
        let listener = open(&path).unwrap();
        let error = open(&path).unwrap_err();
        assert!(error.ends_with(" listens on it"), "{error}");
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_missing_directory_or_a_file_in_the_way_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a-reg.sock");
        fs::write(&path, "precious").unwrap();
        let error = open(&path).unwrap_err();
        assert!(error.ends_with("it is not a socket"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert!(open(&dir.path().join("missing/a-reg.sock")).is_err());
    }

    #[test]
    fn another_socket_at_the_path_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a-reg.sock");
        let listener = open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let successor = open(&path).unwrap();
        drop(listener);
        assert!(path.exists());
        drop(successor);
        assert!(!path.exists());
    }
}

//! A socket that a simulated plugin listens on.

use std::mem;
use std::path::Path;

use mio::net::UnixListener;

use super::Reporter;
use crate::daemon::SetupError;
use crate::daemon::fs::acceptor::{Acceptor, remove_stale_socket};
use crate::daemon::fs::own_file::OwnFile;
use crate::escape;
use crate::simulate::Socket;

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) file: OwnFile,
    pub(super) acceptor: Acceptor,
    pub(super) socket: Socket,
}

impl Listener {
    /// Listens at `path`, replacing a stale socket, as plugins do.
    pub(super) fn open(path: &Path, socket: Socket) -> Result<Self, SetupError> {
        let opened = remove_stale_socket(path).and_then(|()| {
            let listener = UnixListener::bind(path)?;
            Ok((listener, OwnFile::at(path)?))
        });
        let (listener, file) = opened.map_err(|problem| {
            let path = escape::path(path);
            SetupError::Unusable(format!("cannot listen on {path}: {problem}"))
        })?;
        Ok(Self {
            file,
            acceptor: Acceptor::new(listener),
            socket,
        })
    }

    /// Leaves the file behind, as a process that is killed does.
    pub(super) fn keep_socket_file(self) {
        mem::forget(self.file);
    }

    /// Reports that the plugin listens.
    pub(super) fn report_listening(&self, report: Reporter<'_>) {
        report(&format_args!(
            "listening on {}",
            escape::path(&self.file.path)
        ));
    }
}

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

//! The sockets of a simulated plugin: those that it listens on, and the one of kubelet.

use std::io;
use std::path::{Path, PathBuf};

use mio::{Registry, Token};

use super::Reporter;
use crate::daemon::SetupError;
use crate::daemon::fs::acceptor::Acceptor;
use crate::daemon::fs::inotify::{Inotify, describe};
use crate::escape;
use crate::simulate::Socket;
use crate::watch::{Event, Place, WatchId};

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
        // The socket is for its user only. With a backlog of -1, as many clients may wait as Linux
        // allows, as in Go.
        let acceptor = Acceptor::bind(path, path, 0o700, None, -1).map_err(|problem| {
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

    /// Reports that the plugin listens.
    pub(super) fn report_listening(&self, report: Reporter<'_>) {
        report(&format_args!("listening on {}", escape::path(&self.path)));
    }
}

/// `kubelet.sock`, the socket of kubelet at which device plugins register themselves: its path, and
/// a watch of its directory.
#[derive(Debug)]
pub(super) struct KubeletSocket {
    pub(super) path: PathBuf,
    watch: WatchId,
    inotify: Inotify,
}

impl KubeletSocket {
    /// Watches for a socket at `path`, in the loop of `registry`.
    pub(super) fn watch(path: PathBuf, registry: &Registry, token: Token) -> io::Result<Self> {
        let dir = path.parent().unwrap_or(&path);
        let mut inotify = Inotify::new(registry.try_clone()?, token);
        let watch = inotify.watch(dir, Place::Root);
        let watch = watch.map_err(|problem| io::Error::other(describe(&problem).to_string()))?;
        Ok(Self {
            path,
            watch,
            inotify,
        })
    }

    /// Returns whether the socket may have been created since the last call.
    pub(super) fn was_created(&mut self) -> io::Result<bool> {
        let (mut was_created, socket) = (false, self.path.file_name());
        let mut note = |event| match event {
            Event::Appeared { watch, name, .. } => {
                was_created |= watch == self.watch && Some(&*name) == socket;
            }
            Event::Overflowed => was_created = true,
            _ => {}
        };
        while self.inotify.read(&mut note)? {}
        Ok(was_created)
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
        open(&path).unwrap().acceptor.close_without_removal();
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

//! The directory of device plugins' sockets, and the socket in it on which the service listens.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use mio::Registry;

use crate::config::BACKLOG;
use crate::daemon::fs::acceptor::{Acceptor, SocketProblem, remove_stale_socket};
use crate::daemon::fs::inotify::{Inotify, describe};
use crate::daemon::fs::own_file::{create_plugins_dir, remove_if_present};
use crate::daemon::source::Source;
use crate::escape;
use crate::registration::SOCKET;
use crate::watch::Place;

/// A directory with a socket on which the service listens.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) acceptor: Acceptor,
    inotify: Inotify,
    pub(super) is_watched: bool,
}

/// Creates the directory if it is missing, and removes the sockets in it, unless another process
/// listens on `kubelet.sock`.
///
/// kubelet removes them, too, but without checking whether another kubelet is running.
pub(super) fn create_and_clear(dir: &Path) -> Result<(), SocketProblem> {
    create_plugins_dir(dir)?;
    remove_stale_socket(&dir.join(SOCKET))?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        // As with kubelet, a link to a socket is removed, but not the socket that it leads to.
        if fs::metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
            log::debug!("removing the socket {}", escape::path(&path));
            remove_if_present(&path)?; // A plugin that ends removes its socket.
        }
    }
    Ok(())
}

impl Directory {
    /// Creates the directory if it is missing, watches it if possible, and listens on
    /// `kubelet.sock` in it, replacing a stale socket. Adds both to the loop of `registry`.
    pub(super) fn open(dir: &Path, registry: &Registry) -> Result<Self, SocketProblem> {
        create_plugins_dir(dir)?;
        // The watch begins before the socket is created, so that no removal of the socket is
        // missed.
        let token = Source::DevicePluginsDir.token();
        let mut inotify = Inotify::new(registry.try_clone()?, token);
        let watched = inotify.watch(dir, Place::Root);
        let mut acceptor = listen(dir)?;
        acceptor.register(Source::RegistrationListener.token(), registry)?;
        if let Err(problem) = &watched {
            log::warn!(
                "{}: cannot watch the directory; polling kubelet.sock every second: {}",
                escape::path(dir),
                describe(problem)
            );
        }
        Ok(Self {
            acceptor,
            inotify,
            is_watched: watched.is_ok(),
        })
    }

    /// Watches the directory if it could not be watched before.
    pub(super) fn watch(&mut self, dir: &Path) {
        self.is_watched = self.is_watched || self.inotify.watch(dir, Place::Root).is_ok();
    }

    /// Returns whether the file at the socket's path is still this socket. Discards the inotify
    /// events that led to this check.
    pub(super) fn is_in_place(&mut self) -> bool {
        while self.inotify.read(&mut |_| ()).is_ok_and(|is_more| is_more) {}
        self.acceptor.is_in_place()
    }
}

/// Listens on the socket in `dir`, whose path may be too long for an address.
fn listen(dir: &Path) -> Result<Acceptor, SocketProblem> {
    let socket = dir.join(SOCKET);
    let mode = 0o600; // Whatever the umask is (kubelet: 0777 less its umask, usually 0755).
    if SocketAddr::from_pathname(&socket).is_ok() {
        return Acceptor::bind(&socket, &socket, mode, None, BACKLOG);
    }
    let held = File::open(dir)?;
    let within = format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd());
    Acceptor::bind(&socket, within.as_ref(), mode, None, BACKLOG)
}

/// Returns what can be done about a `kubelet.sock` that cannot be served.
pub(in crate::daemon) fn remedy(problem: &SocketProblem) -> &'static str {
    match problem {
        SocketProblem::InUse(_) => "stop that process first: it is probably a kubelet",
        SocketProblem::NotASocket => "remove it",
        SocketProblem::Overlaps(_) => "name another directory with --device-plugins-dir",
        _ => "name a directory that can be written to",
    }
}

//! The directory of device plugins' sockets, and the socket in it on which the service listens.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

use inotify::{Inotify, WatchMask};
use mio::net::UnixListener;
use mio::unix::SourceFd;
use mio::{Interest, Registry};

use crate::daemon::fs::acceptor::{Acceptor, SocketFile, clear};
use crate::daemon::source::Source;
use crate::escape;
use crate::registration::SOCKET;

/// A directory with a socket on which the service listens. On drop the socket is removed, if it is
/// still there.
#[derive(Debug)]
pub(super) struct Directory {
    file: SocketFile,
    acceptor: Acceptor,
    /// `None` while the directory cannot be watched.
    inotify: Option<Inotify>,
}

/// The reason why device plugins cannot register in a directory.
#[derive(Debug)]
pub enum DevicePluginsProblem {
    /// Another process listens on `kubelet.sock`, with this id if it is known: a kubelet.
    InUse(Option<u32>),
    /// A plugins directory is the same directory, or is inside it or above it.
    Overlaps(PathBuf),
    /// `kubelet.sock` is another kind of file.
    NotASocket,
    /// The directory cannot be used.
    Unusable(io::Error),
}

/// Creates the directory if it is missing, and removes the sockets in it, unless another process
/// listens on `kubelet.sock`.
///
/// kubelet removes them, too, but without looking whether another kubelet is running.
pub(super) fn prepare(dir: &Path) -> Result<(), DevicePluginsProblem> {
    create(dir)?;
    clear(&dir.join(SOCKET))?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        // As with kubelet, a link to a socket is removed, but not the socket that it leads to.
        if fs::metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
            log::debug!("removing the socket {}", escape::path(&path));
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a file, unless another process has removed it: a plugin that ends removes its socket.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn create(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(MODE).create(dir)
}

impl Directory {
    /// Watches the directory if possible, and listens in it in the place of a socket that was left
    /// behind.
    pub(super) fn open(dir: &Path) -> Result<Self, DevicePluginsProblem> {
        create(dir)?;
        let socket = dir.join(SOCKET);
        // What happens from now on is reported.
        let inotify = watch(dir);
        clear(&socket)?;
        let listener = listen(dir, &socket)?;
        if let Err(error) = &inotify {
            log::warn!(
                "{}: it cannot be watched, and kubelet.sock is examined every second: {error}",
                escape::path(dir)
            );
        }
        Ok(Self {
            file: SocketFile::at(&socket)?,
            acceptor: Acceptor::new(listener),
            inotify: inotify.ok(),
        })
    }

    /// Adds the socket and the watch to the loop.
    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        let token = Source::RegistrationListener.token();
        registry.register(self.acceptor.source(), token, Interest::READABLE)?;
        match &self.inotify {
            Some(inotify) => add(inotify, registry),
            None => Ok(()),
        }
    }

    /// Watches the directory if it could not be watched before. Returns whether it is watched.
    pub(super) fn watch(&mut self, registry: &Registry) -> bool {
        if let (None, Some(dir)) = (&self.inotify, self.file.path().parent()) {
            let watched = watch(dir).and_then(|it| add(&it, registry).map(|()| it));
            self.inotify = watched.ok();
        }
        self.inotify.is_some()
    }

    /// Returns whether the socket is still in the directory, and that at its path. Reads the events
    /// that asked for this.
    pub(super) fn is_in_place(&mut self) -> bool {
        if let Some(inotify) = &mut self.inotify {
            let mut buffer = [0; EVENTS];
            while inotify
                .read_events(&mut buffer)
                .is_ok_and(|mut it| it.next().is_some())
            {}
        }
        self.file.is_in_place()
    }

    /// Returns the socket.
    pub(super) fn acceptor(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    /// Returns whether a connection may be waiting.
    pub(super) fn is_ready(&self) -> bool {
        self.acceptor.is_ready()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.file.remove();
    }
}

/// Watches a directory, and those above it for their names.
fn watch(dir: &Path) -> io::Result<Inotify> {
    let inotify = Inotify::init()?;
    inotify.watches().add(dir, WATCHED)?;
    for above in above(dir) {
        // A directory that cannot be read cannot be watched.
        let _ = inotify.watches().add(above, WATCHED_ABOVE);
    }
    Ok(inotify)
}

/// Adds the watch to the loop.
fn add(inotify: &Inotify, registry: &Registry) -> io::Result<()> {
    let fd = inotify.as_raw_fd();
    let token = Source::DevicePluginsDir.token();
    registry.register(&mut SourceFd(&fd), token, Interest::READABLE)
}

/// Listens on a socket in `dir`, whose path may be too long for an address.
fn listen(dir: &Path, socket: &Path) -> io::Result<UnixListener> {
    if socket.as_os_str().len() <= LONGEST_ADDRESS {
        return UnixListener::bind(socket);
    }
    let held = File::open(dir)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd()))
}

/// Returns the directories above a directory: those on its path, and those on the path without
/// symbolic links.
fn above(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let real = dir.canonicalize().unwrap_or_default();
    let above = |dir: &Path| {
        dir.ancestors()
            .skip(1)
            .map(Path::to_owned)
            .collect::<Vec<_>>()
    };
    above(dir).into_iter().chain(above(&real))
}

impl DevicePluginsProblem {
    /// Returns what can be done about the problem.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::InUse(_) => "stop that process first: it is probably a kubelet",
            Self::Overlaps(_) => "name another directory with --device-plugins-dir",
            Self::NotASocket => "remove kubelet.sock",
            Self::Unusable(_) => "name a directory that can be written to",
        }
    }
}

impl fmt::Display for DevicePluginsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(None) => f.write_str("another process listens on kubelet.sock there"),
            Self::InUse(Some(pid)) => write!(f, "process {pid} listens on kubelet.sock there"),
            Self::Overlaps(dir) => write!(
                f,
                "the plugins directory {} is the same, inside it or above it",
                escape::path(dir)
            ),
            Self::NotASocket => f.write_str("kubelet.sock is not a socket"),
            Self::Unusable(error) => error.fmt(f),
        }
    }
}

/// The changes after which the socket may not be at its path any more.
const WATCHED: WatchMask = WatchMask::DELETE
    .union(WatchMask::MOVE)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::ONLYDIR);

/// The changes of a directory above after which the directory may not be at its path any more.
const WATCHED_ABOVE: WatchMask = WatchMask::MOVE_SELF.union(WatchMask::ONLYDIR);

/// The mode of a directory that is created (kubelet: 0750).
const MODE: u32 = 0o750;

/// The size of the buffer for events, whose content does not matter (bytes): it holds the longest.
const EVENTS: usize = 4096;

/// The length of the longest path that fits into an address (octets).
const LONGEST_ADDRESS: usize = 107;

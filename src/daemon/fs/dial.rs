//! Connects to Unix sockets without blocking, and only to the socket that was found.

use std::fs::{self, File};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};

use mio::net::UnixStream;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::SFlag;
use rustix::path::DecInt;

use super::mounts::{Mounts, open_named};
use super::open_path::{OpenError, open_path};
use super::stat::Stat;
use crate::handler::DialError;
use crate::watch::Identity;

/// Connects to the socket at a path that the user has chosen. A path that begins with `@` names an
/// abstract socket.
pub(crate) fn dial(path: &Path) -> Result<UnixStream, DialError> {
    if abstract_name(path).is_some() {
        return connect(None, path);
    }
    let file = open_named(path).map_err(|errno| dial_error(&errno.into()))?;
    connect(Some(&Opened::new(file, false)?.expect_socket(None)?), path)
}

/// Opens the socket at a path that a plugin has chosen, without waiting for a file system that does
/// not answer. The socket must have the `expected` identity; without one, any socket is accepted,
/// and for a path that begins with `@`, which names an abstract socket, the result is `None`.
///
/// The path is resolved to a descriptor. The open file is examined, and connected to through
/// `/proc/self/fd`, so that no other file can take its place, and the path may be longer than a
/// socket address can be.
pub(crate) fn open_foreign(
    path: &Path,
    expected: Option<Identity>,
    mounts: &Mounts,
) -> Result<Option<Opened>, DialError> {
    if expected.is_none() {
        if abstract_name(path).is_some() {
            return Ok(None);
        }
    } else if mounts.split_entry(path).is_some() {
        // Most sockets that were found are in the directory itself: no link leads to them.
        if let Ok(file) = open_path(path, OFlag::O_NOFOLLOW, mounts) {
            let direct = Opened::new(file, true)?;
            if direct.found.file_type == SFlag::S_IFSOCK {
                return direct.expect_socket(expected).map(Some);
            }
        }
    }
    let followed = Opened::follow(path, mounts)?;
    followed.expect_socket(expected).map(Some)
}

/// An open file, probably a socket, that is not connected to yet.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    pub(crate) found: Stat,
    /// Whether the file is an entry of a directory that the user named, and not behind a link.
    pub(crate) is_direct: bool,
}

impl Opened {
    /// Opens the file to which a path that a plugin has chosen leads.
    pub(crate) fn follow(path: &Path, mounts: &Mounts) -> Result<Self, DialError> {
        Self::new(
            open_path(path, OFlag::empty(), mounts).map_err(open_error)?,
            false,
        )
    }

    fn new(file: File, is_direct: bool) -> Result<Self, DialError> {
        let found = Stat::of(&file).map_err(|error| dial_error(&error))?;
        Ok(Self {
            file,
            found,
            is_direct,
        })
    }

    /// Returns the file if it is a socket, with the `expected` identity if that is given.
    fn expect_socket(self, expected: Option<Identity>) -> Result<Self, DialError> {
        if self.found.file_type != SFlag::S_IFSOCK {
            return Err(DialError::NotASocket);
        }
        if matches!(expected, Some(expected) if expected != self.found.identity) {
            return Err(DialError::Replaced);
        }
        Ok(self)
    }
}

/// Returns whether a path that a plugin has chosen leads to a socket.
pub(crate) fn leads_to_socket(path: &Path, mounts: &Mounts) -> bool {
    Opened::follow(path, mounts).is_ok_and(|it| it.found.file_type == SFlag::S_IFSOCK)
}

/// Opens the socket at `path`, in `dir`. A symbolic link must not lead out of the directory.
pub(crate) fn open_within(dir: &Path, path: &Path, mounts: &Mounts) -> Result<Opened, DialError> {
    let open = |path| open_path(path, OFlag::empty(), mounts).map_err(open_error);
    let (file, dir) = (open(path)?, open(dir)?);
    let is_within = match (fs::read_link(fd_path(&file)), fs::read_link(fd_path(&dir))) {
        (Ok(file), Ok(dir)) => file.starts_with(dir),
        // `/proc` is not mounted.
        _ => fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink()),
    };
    if !is_within {
        let words = "a symbolic link leads out of the directory";
        return Err(DialError::Other(words.to_owned()));
    }
    Opened::new(file, false)?.expect_socket(None)
}

/// Returns the name of the abstract socket if an endpoint begins with `@`, as in Go's net package,
/// or `None` if the endpoint is a path. Registration sockets are found as files, so they are never
/// abstract.
fn abstract_name(endpoint: &Path) -> Option<&[u8]> {
    endpoint.as_os_str().as_bytes().strip_prefix(b"@")
}

/// Connects to a socket that was opened, or to the abstract one that `path` names, which is one in
/// the network namespace of this process.
///
/// Without `/proc`, connects to `path`, where another socket may have replaced the open file.
pub(crate) fn connect(socket: Option<&Opened>, path: &Path) -> Result<UnixStream, DialError> {
    let connected = match socket {
        None => {
            let name = abstract_name(path).unwrap_or_default();
            let address = SocketAddr::from_abstract_name(name);
            address.and_then(|address| UnixStream::connect_addr(&address))
        }
        Some(socket) => match UnixStream::connect(fd_path(&socket.file)) {
            // The socket itself is open, so it is the path in /proc that does not exist.
            Err(error) if error.kind() == io::ErrorKind::NotFound => UnixStream::connect(path),
            connected => connected,
        },
    };
    connected.map_err(|error| dial_error(&error))
}

/// Returns the path of an open file, free of symbolic links, unless the file is below one of these
/// directories, whose paths may contain symbolic links. Without `/proc`, the file counts as
/// outside, and the path is empty. A file that is direct is inside ([`Opened::is_direct`]).
pub(crate) fn path_outside<'a>(
    socket: &Opened,
    dirs: &(impl Iterator<Item = &'a Path> + Clone),
    mounts: &Mounts,
) -> Option<PathBuf> {
    let real = fs::read_link(fd_path(&socket.file)).unwrap_or_default();
    let is_below = |dir: &Path| {
        let dir = open_path(dir, OFlag::empty(), mounts).ok();
        let dir = dir.and_then(|dir| fs::read_link(fd_path(&dir)).ok());
        dir.is_some_and(|dir| real.starts_with(dir))
    };
    let is_inside = dirs.clone().any(|dir| real.starts_with(dir)) || dirs.clone().any(is_below);
    (!is_inside).then_some(real)
}

/// Returns the path in `/proc` that leads to an open file.
fn fd_path(file: &File) -> String {
    ["/proc/self/fd/", DecInt::from_fd(file).as_str()].concat()
}

fn open_error(error: OpenError) -> DialError {
    match error {
        OpenError::MayNotAnswer(file_system) => DialError::MayNotAnswer(file_system),
        OpenError::Link => DialError::Other(error.to_string()),
        OpenError::System(error) => dial_error(&error),
    }
}

fn dial_error(error: &io::Error) -> DialError {
    match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::ECONNREFUSED => DialError::Refused,
        // connect(2): if the listener's backlog is full, connecting a non-blocking Unix socket
        // fails with EAGAIN. No event reports that the backlog has room again.
        Errno::EAGAIN => DialError::Busy,
        Errno::ENOENT | Errno::ENOTDIR => DialError::Gone,
        Errno::EACCES | Errno::EPERM => DialError::Denied,
        Errno::EMFILE | Errno::ENFILE => DialError::NoDescriptors,
        Errno::UnknownErrno => DialError::Other(error.to_string()),
        errno => DialError::Other(errno.desc().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    use nix::sys::socket::{self, Backlog, Shutdown, listen};

    use super::*;
    use crate::config::PathMap;

    /// Returns two paths in a directory: one that fits in the address of a socket, and one that
    /// does not.
    fn paths(dir: &Path) -> [PathBuf; 2] {
        let deep = dir.join("long".repeat(40));
        fs::create_dir(&deep).unwrap();
        let paths = [dir, &deep].map(|dir| dir.join("a.sock"));
        assert_eq!(
            paths.each_ref().map(|path| path.as_os_str().len() > 107),
            [false, true]
        );
        paths
    }

    /// Listens at a path of any length, replacing any file there.
    fn listen_at(path: &Path, dir: &Path) -> UnixListener {
        let elsewhere = dir.join("elsewhere");
        let listener = UnixListener::bind(&elsewhere).unwrap();
        fs::rename(&elsewhere, path).unwrap();
        listener
    }

    fn identity_of(path: &Path) -> Identity {
        Stat::of_path(path).unwrap().identity
    }

    fn dial_expecting(path: &Path, expected: Option<Identity>) -> Result<UnixStream, DialError> {
        let socket = open_foreign(path, expected, &Mounts::default())?;
        connect(socket.as_ref(), path)
    }

    #[test]
    fn a_file_that_cannot_be_dialed_has_its_own_error() {
        let dir = tempfile::tempdir().unwrap();
        for path in paths(dir.path()) {
            let expected = identity_of(dir.path());
            let assert_wrong = |error: &DialError| {
                assert_eq!(dial(&path).unwrap_err(), *error);
                assert_eq!(dial_expecting(&path, Some(expected)).unwrap_err(), *error);
            };
            assert_wrong(&DialError::Gone);
            fs::write(&path, "").unwrap();
            assert_wrong(&DialError::NotASocket);
            fs::remove_file(&path).unwrap();
            symlink(dir.path(), &path).unwrap();
            assert_wrong(&DialError::NotASocket);
            fs::remove_file(&path).unwrap();

            let listener = listen_at(&path, dir.path());
            let identity = identity_of(&path);
            assert!(dial_expecting(&path, Some(identity)).is_ok());
            // Dropping it may not be enough: a child of another test may have inherited it.
            socket::shutdown(listener.as_raw_fd(), Shutdown::Both).unwrap();
            for expected in [None, Some(identity)] {
                assert_eq!(
                    dial_expecting(&path, expected).unwrap_err(),
                    DialError::Refused
                );
            }
        }
    }

    #[test]
    fn a_socket_that_replaced_the_found_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in paths(dir.path()) {
            let old = listen_at(&path, dir.path());
            let found = identity_of(&path);
            let new = listen_at(&path, dir.path());
            assert_eq!(
                dial_expecting(&path, Some(found)).unwrap_err(),
                DialError::Replaced
            );
            assert!(dial_expecting(&path, Some(identity_of(&path))).is_ok());
            drop((old, new));
            assert_eq!(
                dial_expecting(&path, Some(found)).unwrap_err(),
                DialError::Replaced
            );
        }
    }

    #[test]
    fn a_link_is_followed_to_the_socket_that_was_found_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        for path in paths(dir.path()) {
            let socket = dir.path().join("socket");
            let _old = listen_at(&socket, dir.path());
            symlink(&socket, &path).unwrap();
            let found = identity_of(&socket);
            assert!(dial_expecting(&path, Some(found)).is_ok());
            let _new = listen_at(&socket, dir.path());
            assert_eq!(
                dial_expecting(&path, Some(found)).unwrap_err(),
                DialError::Replaced
            );
            fs::remove_file(&socket).unwrap();
            assert_eq!(
                dial_expecting(&path, Some(found)).unwrap_err(),
                DialError::Gone
            );
        }
    }

    #[test]
    fn a_link_that_is_swapped_leads_to_no_other_socket() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [inside, outside_it] = ["in", "out"].map(|name| root.join(name));
        let listeners = [&inside, &outside_it].map(|dir| {
            fs::create_dir(dir).unwrap();
            let listener = UnixListener::bind(dir.join("a.sock")).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        });
        let count = |listener: &UnixListener| std::iter::from_fn(|| listener.accept().ok()).count();
        let (path, other) = (root.join("link"), root.join("other"));
        symlink(inside.join("a.sock"), &path).unwrap();
        symlink(outside_it.join("a.sock"), &other).unwrap();
        let is_over = AtomicBool::new(false);
        let (mut connected, mut refused, mut reached) = (0, 0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let flags = RenameFlags::RENAME_EXCHANGE;
                    renameat2(AT_FDCWD, &path, AT_FDCWD, &other, flags).unwrap();
                }
            });
            let mounts = Mounts::default();
            for _ in 0..10_000 {
                let socket = open_foreign(&path, None, &mounts).unwrap();
                let opened = socket.as_ref().expect("the path is not abstract");
                if path_outside(opened, &[inside.as_path()].into_iter(), &mounts).is_some() {
                    refused += 1;
                } else {
                    connect(Some(opened), &path).unwrap();
                    connected += 1;
                }
                reached += count(&listeners[0]);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(connected > 0 && refused > 0, "{connected} {refused}");
        assert_eq!((reached, count(&listeners[1])), (connected, 0));
    }

    #[test]
    fn a_socket_that_was_found_is_direct_unless_a_link_led_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let [path, link] = ["a.sock", "link"].map(|name| dir.path().join(name));
        let _listener = UnixListener::bind(&path).unwrap();
        symlink(&path, &link).unwrap();
        let found = identity_of(&path);
        let mut mounts = Mounts::default();
        mounts.set_named_dirs(&[dir.path().to_owned()], &PathMap::default());
        for (path, expected, is_direct) in [
            (&path, Some(found), true),
            (&link, Some(found), false),
            (&path, None, false),
        ] {
            let socket = open_foreign(path, expected, &mounts).unwrap();
            let seen = socket.map(|it| it.is_direct);
            assert_eq!(seen, Some(is_direct), "{path:?} {expected:?}");
        }
    }

    #[test]
    fn a_socket_behind_a_linked_directory_is_outside() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let [root, elsewhere] = ["root", "elsewhere"].map(|name| dir.join(name));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let _listener = UnixListener::bind(elsewhere.join("a.sock")).unwrap();
        symlink(&elsewhere, root.join("sub")).unwrap();
        let path = root.join("sub/a.sock");
        let mut mounts = Mounts::default();
        mounts.set_named_dirs(std::slice::from_ref(&root), &PathMap::default());
        let socket = open_foreign(&path, Some(identity_of(&path)), &mounts).unwrap();
        let socket = socket.expect("the path is not abstract");
        let outside = path_outside(&socket, &[root.as_path()].into_iter(), &mounts);
        assert_eq!(outside, Some(elsewhere.join("a.sock")));
    }

    #[test]
    fn used_up_descriptors_are_distinguished_from_a_bad_socket() {
        for errno in [Errno::EMFILE, Errno::ENFILE] {
            assert_eq!(dial_error(&errno.into()), DialError::NoDescriptors);
        }
    }

    #[test]
    fn an_endpoint_with_an_at_sign_is_an_abstract_socket() {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("{}/a.sock", dir.path().display());
        let path = PathBuf::from(format!("@{name}"));
        assert_eq!(dial(&path).unwrap_err(), DialError::Refused);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        assert!(dial(&path).is_ok());
        let found = identity_of(dir.path());
        assert_eq!(
            dial_expecting(&path, Some(found)).unwrap_err(),
            DialError::Gone
        );
    }

    #[test]
    fn an_abstract_name_may_be_as_long_as_an_address_and_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let mut name = dir.path().as_os_str().as_bytes().to_vec();
        name.resize(107, b'n');
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let endpoint = |name: &[u8]| PathBuf::from(OsString::from_vec([b"@", name].concat()));
        assert!(dial(&endpoint(&name)).is_ok());
        name.push(b'n');
        let error = dial(&endpoint(&name)).unwrap_err();
        assert!(matches!(error, DialError::Other(_)), "{error:?}");
    }

    #[test]
    fn a_listener_that_does_not_accept_is_busy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match dial(&path) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error, DialError::Busy);
    }
}

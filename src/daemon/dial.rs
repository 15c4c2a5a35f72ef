//! Connecting to a unix socket, without waiting, and only to the socket that was found.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use mio::net::UnixStream;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

use super::hold::{self, HoldError};
use super::mounts::Mounts;
use super::stat::Stat;
use crate::handler::DialError;
use crate::watch::Identity;

/// Connects to the socket at `path`, which must be the one that was found there. Without an
/// expected identity, any socket will do, and a path that begins with `@` names an abstract socket.
pub(super) fn dial(path: &Path, expected: Option<Identity>) -> Result<UnixStream, DialError> {
    if let (None, Some(name)) = (expected, abstract_name(path)) {
        return dial_abstract(name);
    }
    if path.as_os_str().len() <= LONGEST_ADDRESS {
        dial_by_name(path, expected)
    } else {
        dial_held(path, expected)
    }
}

/// Connects to the socket at a path that a plugin has chosen, without waiting for a file system
/// that does not answer.
///
/// A path that was just examined can lead elsewhere only after a race, and, if all file systems
/// answer, only to one that answers. An endpoint has never been examined.
pub(super) fn dial_foreign(
    path: &Path,
    expected: Option<Identity>,
    mounts: &Mounts,
) -> Result<UnixStream, DialError> {
    let is_examined = expected.is_some() && mounts.all_answer();
    let is_abstract = expected.is_none() && abstract_name(path).is_some();
    if is_examined || is_abstract || !mounts.is_known() {
        return dial(path, expected);
    }
    let held = hold::hold(path, mounts).map_err(|error| match error {
        HoldError::MayNotAnswer(file_system) => DialError::MayNotAnswer(file_system),
        HoldError::MagicLink | HoldError::LeadsOut => DialError::Other(error.to_string()),
        HoldError::System(error) => dial_error(&error),
    })?;
    dial_file(&held, expected)
}

/// Connects to a socket in `dir`. A symbolic link is followed only inside the directory.
///
/// Without `/proc`, the path is connected to, and must lead to that socket afterwards.
pub(super) fn dial_within(dir: &Path, path: &Path) -> Result<UnixStream, DialError> {
    let name = path.file_name().ok_or(DialError::Gone)?;
    let held = hold::hold_beneath(dir, name).map_err(|error| match error {
        HoldError::System(error) => dial_error(&error),
        other => DialError::Other(other.to_string()),
    })?;
    if let Some(connection) = dial_by_proc(&held, None)? {
        return Ok(connection);
    }
    if path.as_os_str().len() > LONGEST_ADDRESS {
        return Err(no_proc());
    }
    let found = Stat::of(&held).map_err(|error| dial_error(&error))?;
    dial_by_name(path, Some(found.identity))
}

/// Returns the name of the abstract socket that an endpoint stands for if it begins with `@`, as in
/// Go's net package, or `None` for a path. Files do not have such names, so registration sockets
/// are never abstract.
fn abstract_name(endpoint: &Path) -> Option<&[u8]> {
    endpoint.as_os_str().as_bytes().strip_prefix(b"@")
}

/// Connects to an abstract socket in the network namespace of this process.
fn dial_abstract(name: &[u8]) -> Result<UnixStream, DialError> {
    let connected =
        SocketAddr::from_abstract_name(name).and_then(|at| UnixStream::connect_addr(&at));
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => DialError::Other(error.to_string()),
        _ => dial_error(&error),
    })
}

/// Connects to a path, and then checks that the expected socket is there.
///
/// The connection leads to the socket that was at the path, and the expected socket is at the path
/// afterwards. So another socket can answer only if the path leads to it and then back to the very
/// same file between two system calls. A process that can arrange that can put any socket there
/// anyway. A socket that has replaced the expected one sees a connection that ends at once.
///
/// This takes two system calls fewer than [`dial_held`], which is for long paths, and does not need
/// `/proc`.
fn dial_by_name(path: &Path, expected: Option<Identity>) -> Result<UnixStream, DialError> {
    let connected = UnixStream::connect(path);
    if connected.is_err() || expected.is_some() {
        // connect(2) fails with the same error for a file that is not a socket and for a socket
        // without a listener.
        check(Stat::follow(path), expected)?;
    }
    connected.map_err(|error| dial_error(&error))
}

/// Connects to a path that is too long for the address of a unix socket.
///
/// The path is resolved once, to a descriptor. That file is examined, and connected to through
/// `/proc/self/fd`, so that no other file can take its place.
fn dial_held(path: &Path, expected: Option<Identity>) -> Result<UnixStream, DialError> {
    dial_file(&hold(path)?, expected)
}

fn dial_file(held: &File, expected: Option<Identity>) -> Result<UnixStream, DialError> {
    dial_by_proc(held, expected)?.ok_or_else(no_proc)
}

/// Connects to a file that is open. Returns `None` if `/proc` is not mounted.
fn dial_by_proc(held: &File, expected: Option<Identity>) -> Result<Option<UnixStream>, DialError> {
    check(Stat::of(held), expected)?;
    match UnixStream::connect(format!("/proc/self/fd/{}", held.as_raw_fd())) {
        Ok(connection) => Ok(Some(connection)),
        // The socket itself is open, so the path through /proc is what is missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(dial_error(&error)),
    }
}

/// Returns the reason why an open socket cannot be connected to.
fn no_proc() -> DialError {
    DialError::Other("/proc is not mounted".to_owned())
}

/// Checks that an examined file is a socket, and the expected one if `expected` is given.
fn check(examined: io::Result<Stat>, expected: Option<Identity>) -> Result<(), DialError> {
    let found = examined.map_err(|error| dial_error(&error))?;
    if !found.is_socket() {
        return Err(DialError::NotASocket);
    }
    if expected.is_some_and(|expected| found.identity != expected) {
        return Err(DialError::Replaced);
    }
    Ok(())
}

/// Opens the file at `path` with `O_PATH`, which does not touch the file itself.
fn hold(path: &Path) -> Result<File, DialError> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let held = openat(AT_FDCWD, path, flags, Mode::empty());
    held.map(File::from)
        .map_err(|errno| dial_error(&errno.into()))
}

fn dial_error(error: &io::Error) -> DialError {
    match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::ECONNREFUSED => DialError::Refused,
        // unix(7), connect(2): if the listener's backlog is full, connecting a non-blocking socket
        // fails with EAGAIN, and there is nothing to wait for.
        Errno::EAGAIN => DialError::Busy,
        Errno::ENOENT | Errno::ENOTDIR => DialError::Gone,
        Errno::EACCES | Errno::EPERM => DialError::Denied,
        Errno::EMFILE | Errno::ENFILE => DialError::NoDescriptors,
        Errno::UnknownErrno => DialError::Other(error.to_string()),
        errno => DialError::Other(errno.desc().to_owned()),
    }
}

/// The length of the longest path that fits in the address of a unix socket (bytes): of the 108
/// bytes that unix(7) gives `sun_path`, the last one is zero.
const LONGEST_ADDRESS: usize = 107;

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use nix::sys::socket::{self, Backlog, Shutdown, listen};

    use super::*;

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

    /// Listens at a path of any length, in the place of whatever is there.
    fn listen_at(path: &Path, dir: &Path) -> UnixListener {
        let elsewhere = dir.join("elsewhere");
        let listener = UnixListener::bind(&elsewhere).unwrap();
        fs::rename(&elsewhere, path).unwrap();
        listener
    }

    fn identity_of(path: &Path) -> Identity {
        Stat::follow(path).unwrap().identity
    }

    #[test]
    fn what_is_wrong_with_a_socket_is_known_at_once() {
        let dir = tempfile::tempdir().unwrap();
        for path in paths(dir.path()) {
            let expected = identity_of(dir.path());
            let assert_wrong = |error: &DialError| {
                assert_eq!(dial(&path, None).unwrap_err(), *error);
                assert_eq!(dial(&path, Some(expected)).unwrap_err(), *error);
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
            assert!(dial(&path, Some(identity)).is_ok());
            // A child process of another test may still have the descriptor.
            socket::shutdown(listener.as_raw_fd(), Shutdown::Both).unwrap();
            for expected in [None, Some(identity)] {
                assert_eq!(dial(&path, expected).unwrap_err(), DialError::Refused);
            }
        }
    }

    #[test]
    fn a_socket_in_the_place_of_the_one_that_was_found_is_not_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        for path in paths(dir.path()) {
            let old = listen_at(&path, dir.path());
            let found = identity_of(&path);
            let new = listen_at(&path, dir.path());
            assert_eq!(dial(&path, Some(found)).unwrap_err(), DialError::Replaced);
            assert!(dial(&path, Some(identity_of(&path))).is_ok());
            drop((old, new));
            assert_eq!(dial(&path, Some(found)).unwrap_err(), DialError::Replaced);
        }
    }

    #[test]
    fn a_socket_that_was_not_meant_sees_a_connection_that_ends_and_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let [path, _] = paths(dir.path());
        let another = identity_of(dir.path());
        let listener = listen_at(&path, dir.path());
        assert_eq!(dial(&path, Some(another)).unwrap_err(), DialError::Replaced);
        let (mut connection, _) = listener.accept().unwrap();
        assert_eq!(connection.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_link_is_followed_to_the_socket_that_was_found_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        for path in paths(dir.path()) {
            let socket = dir.path().join("socket");
            let _old = listen_at(&socket, dir.path());
            symlink(&socket, &path).unwrap();
            let found = identity_of(&socket);
            assert!(dial(&path, Some(found)).is_ok());
            let _new = listen_at(&socket, dir.path());
            assert_eq!(dial(&path, Some(found)).unwrap_err(), DialError::Replaced);
            fs::remove_file(&socket).unwrap();
            assert_eq!(dial(&path, Some(found)).unwrap_err(), DialError::Gone);
        }
    }

    #[test]
    fn the_longest_address_is_dialled_by_name_and_no_byte_more() {
        let dir = tempfile::tempdir().unwrap();
        for extra in [0, 1] {
            let name = LONGEST_ADDRESS + extra - dir.path().as_os_str().len() - 1;
            let path = dir.path().join("n".repeat(name));
            let _listener = listen_at(&path, dir.path());
            assert_eq!(UnixStream::connect(&path).is_ok(), extra == 0);
            assert!(dial(&path, Some(identity_of(&path))).is_ok());
        }
    }

    #[test]
    fn used_up_descriptors_are_told_apart_from_what_is_wrong_with_a_socket() {
        for errno in [Errno::EMFILE, Errno::ENFILE] {
            assert_eq!(dial_error(&errno.into()), DialError::NoDescriptors);
        }
    }

    #[test]
    fn an_endpoint_that_begins_with_an_at_sign_is_an_abstract_socket_unless_a_file_was_found() {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("{}/a.sock", dir.path().display());
        let path = PathBuf::from(format!("@{name}"));
        assert_eq!(dial(&path, None).unwrap_err(), DialError::Refused);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        assert!(dial(&path, None).is_ok());
        let found = identity_of(dir.path());
        assert_eq!(dial(&path, Some(found)).unwrap_err(), DialError::Gone);
    }

    #[test]
    fn an_abstract_name_may_be_as_long_as_an_address_and_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let mut name = dir.path().as_os_str().as_bytes().to_vec();
        name.resize(LONGEST_ADDRESS, b'n');
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let endpoint = |name: &[u8]| PathBuf::from(OsString::from_vec([b"@", name].concat()));
        assert!(dial(&endpoint(&name), None).is_ok());
        name.push(b'n');
        let error = dial(&endpoint(&name), None).unwrap_err();
        assert!(matches!(error, DialError::Other(_)), "{error:?}");
    }

    #[test]
    fn a_listener_that_does_not_accept_is_busy_and_nobody_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match dial(&path, None) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(error, DialError::Busy);
    }
}

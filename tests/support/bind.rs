//! Sockets that are bound and on which nothing listens.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};

/// Binds a socket on which nothing listens yet. It is dead when the result is dropped.
///
/// A listener that is closed may still accept connections for a moment: a child process that
/// another test starts inherits the descriptor, until it executes its program.
#[track_caller]
pub(crate) fn bind(path: &Path) -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    let bound = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    socket::bind(bound.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    bound
}

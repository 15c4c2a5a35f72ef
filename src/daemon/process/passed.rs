//! Sockets that the service manager passes to the daemon (sd_listen_fds(3)).
//!
//! They are already listening. The service manager sets the owner and mode of their files, and
//! keeps the sockets open: a client that connects while no daemon runs waits for the next one.

#![allow(
    unsafe_code,
    reason = "a passed descriptor is known by its number alone"
)]

use std::env;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::process;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::libc;
use nix::sys::socket::{SockType, UnixAddr, getsockname, getsockopt, sockopt};

use crate::daemon::SetupError;
use crate::escape;

/// The sockets that were passed.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// The socket of the API, a Unix socket.
    pub(crate) api: Option<OwnedFd>,
    /// The socket of the metrics, of any address family.
    pub(crate) metrics: Option<OwnedFd>,
}

/// Takes the sockets that were passed to this process. A second call fails if there were any.
pub(crate) fn take_sockets() -> Result<Passed, SetupError> {
    let mut passed = Passed::default();
    if number_in_env("LISTEN_PID") != Some(process::id().into()) {
        return Ok(passed);
    }
    let count = number_in_env("LISTEN_FDS").and_then(|count| RawFd::try_from(count).ok());
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    for fd in FIRST..FIRST.saturating_add(count.unwrap_or(0)) {
        let name = names.next().unwrap_or_default();
        passed
            .add(fd, name)
            .map_err(|why| socket_error(name, why))?;
    }
    Ok(passed)
}

impl Passed {
    fn add(&mut self, fd: RawFd, name: &str) -> Result<(), &'static str> {
        let socket = adopt(fd).ok_or("its descriptor is not open")?;
        let place = match name {
            "metrics" => &mut self.metrics,
            // systemd names a socket without `FileDescriptorName=` after its unit.
            "api" | "" | "unknown" => &mut self.api,
            unit if unit.ends_with(".socket") => &mut self.api,
            _ => return Err("its name is neither api nor metrics"),
        };
        let is_stream = getsockopt(&socket, sockopt::SockType) == Ok(SockType::Stream);
        let is_listening = getsockopt(&socket, sockopt::AcceptConn) == Ok(true);
        let unblocked = fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        if !is_stream || !is_listening || unblocked.is_err() {
            return Err("it is not a listening stream socket");
        }
        if name != "metrics" && getsockname::<UnixAddr>(socket.as_raw_fd()).is_err() {
            return Err("the API is served on unix sockets only");
        }
        if place.replace(socket).is_some() {
            return Err("another socket was passed for the same purpose");
        }
        Ok(())
    }
}

/// Takes ownership of an inherited descriptor, and sets its close-on-exec flag. Returns `None` if
/// the descriptor is not open, or was not inherited, because its flag is already set.
fn adopt(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: this call reads a flag of a descriptor, which need not be open.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return None;
    }
    // SAFETY: the descriptor is open. Nothing in this process owns it, because whatever this
    // process opens is closed on exec, as the descriptor itself will be from now on.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let marked = fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    marked.is_ok().then_some(fd)
}

/// Returns the number in an environment variable.
#[inline(never)]
pub(crate) fn number_in_env(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

/// Returns the error for a passed socket of this name that cannot be used.
pub(crate) fn socket_error(name: &str, why: &str) -> SetupError {
    let name = escape::text(name);
    SetupError::Unusable(format!(
        "cannot use the socket {name:?} that the service manager has passed: {why}"
    ))
}

/// sd_listen_fds(3): "The first file descriptor may be found at file descriptor number 3".
const FIRST: RawFd = 3;

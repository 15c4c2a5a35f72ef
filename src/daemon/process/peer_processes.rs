//! The processes of registered plugins, watched by descriptors (pidfds) and without calls to the
//! plugins.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};

use crate::daemon::connection::Connection;
use crate::daemon::source::Source;
use crate::manager::ConnectionId;

/// The watched processes, by the connection whose peer each of them is.
///
/// A process that serves several plugins is watched once for each of them. Only its id could show
/// that two peers are the same process, and the id may belong to a third process by now: the
/// process that called `listen` may have ended and left the socket to another one.
#[derive(Debug, Default)]
pub(crate) struct PeerProcesses(BTreeMap<ConnectionId, OwnedFd>);

impl PeerProcesses {
    /// Watches the peer process of a connection. The connection may be closed afterwards.
    ///
    /// pidfd_open(2): "the file descriptor can be monitored using poll(2) [...]. When the process
    /// that it refers to terminates, [...] the file descriptor becomes readable." Fails if the
    /// kernel is older than Linux 6.5, or if the process has already ended.
    pub(crate) fn add(
        &mut self,
        conn: ConnectionId,
        connection: &Connection,
        registry: &Registry,
    ) -> io::Result<()> {
        let process = getsockopt(&connection.stream, sockopt::PeerPidfd)?;
        if has_ended(&process)? {
            // The process that called `listen` has left the socket to a child process.
            return Err(io::Error::other(
                "it has ended, and another process answers",
            ));
        }
        registry.register(
            &mut SourceFd(&process.as_raw_fd()),
            Source::PeerProcess(conn).token(),
            Interest::READABLE,
        )?;
        self.0.insert(conn, process);
        Ok(())
    }

    /// Stops watching the peer process of this connection. Closing the descriptor removes it from
    /// the loop.
    pub(crate) fn remove(&mut self, conn: ConnectionId) {
        self.0.remove(&conn);
    }
}

fn has_ended(process: &OwnedFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut polled, PollTimeout::ZERO)? > 0)
}

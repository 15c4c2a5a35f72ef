//! The processes of registered plugins, which are watched through pidfds, without calls to the
//! plugins.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};

use crate::daemon::connection::Connection;
use crate::daemon::source::Source;
use crate::manager::ConnectionId;

/// The pidfds of the watched processes, sorted by the connection to each.
///
/// A process that serves several plugins is watched once for each of them, because equal ids do not
/// prove that two peers are the same process: a process that called `listen` may have ended, and
/// its id may have been given to another process.
#[derive(Debug, Default)]
pub(crate) struct PeerProcesses(Vec<(ConnectionId, OwnedFd)>);

impl PeerProcesses {
    /// Watches the peer process of a connection. The connection may be closed afterwards.
    ///
    /// pidfd_open(2): "A PID file descriptor can be monitored using poll(2), select(2), and
    /// epoll(7). When the process that it refers to terminates, these interfaces indicate the file
    /// descriptor as readable." Fails if the kernel is older than Linux 6.5, if no descriptor is
    /// free, or if the process has already ended.
    pub(crate) fn add(
        &mut self,
        conn: ConnectionId,
        connection: &Connection,
        registry: &Registry,
    ) -> io::Result<()> {
        let process = getsockopt(&connection.stream, sockopt::PeerPidfd)?;
        let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, PollTimeout::ZERO)? > 0 {
            // The process that called `listen` has left the socket to another process.
            return Err(io::Error::other(
                "the process has ended, and another one answers",
            ));
        }
        registry.register(
            &mut SourceFd(&process.as_raw_fd()),
            Source::PeerProcess(conn).token(),
            Interest::READABLE,
        )?;
        let place = self.0.partition_point(|(it, _)| *it < conn);
        self.0.insert(place, (conn, process));
        Ok(())
    }

    /// Stops watching the peer process of this connection. Closing the descriptor removes it from
    /// the loop.
    pub(crate) fn remove(&mut self, conn: ConnectionId) {
        if let Ok(place) = self.0.binary_search_by_key(&conn, |(it, _)| *it) {
            self.0.remove(place);
        }
    }
}

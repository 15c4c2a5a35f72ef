//! The processes of registered plugins, watched without asking them anything.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use litemap::LiteMap;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};

use super::connection::Connection;
use super::source::Source;
use crate::manager::LinkId;

/// The watched processes, by the connection behind which each was found.
///
/// One that serves several plugins is watched for each of them. That it is the same one could only
/// be told by its number, and that may be a third one's by now: whoever called `listen` may have
/// left the socket to another process, and ended.
#[derive(Debug, Default)]
pub(super) struct Guards {
    by_link: LiteMap<LinkId, OwnedFd>,
}

impl Guards {
    /// Watches the process at the other end of a connection, which is not needed for it any more.
    ///
    /// pidfd_open(2): "the file descriptor can be monitored using poll(2) [...]. When the process
    /// that it refers to terminates, [...] the file descriptor becomes readable." An error where
    /// the kernel is older than Linux 6.5, or the process has ended already.
    pub(super) fn add(
        &mut self,
        link: LinkId,
        connection: &Connection,
        registry: &Registry,
    ) -> io::Result<()> {
        let process = getsockopt(connection.stream(), sockopt::PeerPidfd)?;
        if has_ended(&process)? {
            // Whoever called `listen` has left the socket to a child of its own.
            return Err(io::Error::other("it has ended, and somebody else answers"));
        }
        registry.register(
            &mut SourceFd(&process.as_raw_fd()),
            Source::Guard(link).token(),
            Interest::READABLE,
        )?;
        self.by_link.insert(link, process);
        Ok(())
    }

    /// Whether the process is watched that was found behind this connection.
    pub(super) fn contains(&self, link: LinkId) -> bool {
        self.by_link.contains_key(&link)
    }

    /// Watches no longer; the loop forgets the descriptor when it is closed.
    pub(super) fn remove(&mut self, link: LinkId) {
        self.by_link.remove(&link);
    }
}

fn has_ended(process: &OwnedFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut polled, PollTimeout::ZERO)? > 0)
}

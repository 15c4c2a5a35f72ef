//! The processes of registered plugins, watched without asking them anything.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use litemap::LiteMap;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};

use super::connection::Connection;
use crate::manager::LinkId;

/// The watched processes, by the connection behind which each was found.
#[derive(Debug, Default)]
pub(super) struct Guards {
    by_link: LiteMap<LinkId, (Token, OwnedFd)>,
    by_token: LiteMap<Token, LinkId>,
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
        token: Token,
        registry: &Registry,
    ) -> io::Result<()> {
        let process = getsockopt(connection.stream(), sockopt::PeerPidfd)?;
        if has_ended(&process)? {
            // Whoever called `listen` has left the socket to a child of its own.
            return Err(io::Error::other("it has ended, and somebody else answers"));
        }
        registry.register(
            &mut SourceFd(&process.as_raw_fd()),
            token,
            Interest::READABLE,
        )?;
        self.by_token.insert(token, link);
        self.by_link.insert(link, (token, process));
        Ok(())
    }

    /// The connection behind which the process was that a report is about.
    pub(super) fn by_token(&self, token: Token) -> Option<LinkId> {
        self.by_token.get(&token).copied()
    }

    /// Watches no longer; the loop forgets the descriptor when it is closed.
    pub(super) fn remove(&mut self, link: LinkId) {
        if let Some((token, _)) = self.by_link.remove(&link) {
            self.by_token.remove(&token);
        }
    }
}

fn has_ended(process: &OwnedFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut polled, PollTimeout::ZERO)? > 0)
}

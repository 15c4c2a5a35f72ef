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
use crate::manager::{LinkId, Process};

/// A process at the other end of connections, as it is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// By its number.
    Process(Process),
    /// By the connection behind which it was found: its number cannot be seen, because it is of
    /// another PID namespace.
    Behind(LinkId),
}

/// The watched processes, each by one descriptor, however many plugins it serves.
#[derive(Debug, Default)]
pub(super) struct Guards {
    processes: LiteMap<Peer, Watched>,
    by_link: LiteMap<LinkId, Peer>,
}

#[derive(Debug)]
struct Watched {
    /// Watched by the loop until it is closed.
    _process: OwnedFd,
    /// Behind how many connections it was found, of those that are guarded.
    links: usize,
}

impl Guards {
    /// Watches the process at the other end of a connection, which is not needed for it any more.
    ///
    /// pidfd_open(2): "the file descriptor can be monitored using poll(2) [...]. When the process
    /// that it refers to terminates, [...] the file descriptor becomes readable." An error where
    /// the kernel is older than Linux 6.5, or the process has ended already.
    ///
    /// A number belongs to a process that is watched until the loop has reported its end, and then
    /// to none: the end of all that was found behind it is reported with it.
    pub(super) fn add(
        &mut self,
        link: LinkId,
        process: Option<Process>,
        connection: &Connection,
        registry: &Registry,
    ) -> io::Result<()> {
        let peer = process.map_or(Peer::Behind(link), Peer::Process);
        if let Some(watched) = self.processes.get_mut(&peer) {
            watched.links += 1;
        } else {
            let watched = Watched {
                _process: watch(peer, connection, registry)?,
                links: 1,
            };
            self.processes.insert(peer, watched);
        }
        self.by_link.insert(link, peer);
        Ok(())
    }

    /// Watches for this connection's sake no longer.
    pub(super) fn remove(&mut self, link: LinkId) {
        let Some(peer) = self.by_link.remove(&link) else {
            return;
        };
        let Some(watched) = self.processes.get_mut(&peer) else {
            return;
        };
        watched.links -= 1;
        if watched.links == 0 {
            self.processes.remove(&peer);
        }
    }

    /// A process has ended: it is watched no longer, and the connections are returned behind which
    /// it was found.
    pub(super) fn end(&mut self, peer: Peer) -> Vec<LinkId> {
        self.processes.remove(&peer);
        let behind = self.by_link.iter().filter(|(_, it)| **it == peer);
        let links: Vec<_> = behind.map(|(link, _)| *link).collect();
        self.by_link.retain(|_, it| *it != peer);
        links
    }
}

/// The descriptor of the process at the other end of a connection, watched by the loop.
fn watch(peer: Peer, connection: &Connection, registry: &Registry) -> io::Result<OwnedFd> {
    let process = getsockopt(connection.stream(), sockopt::PeerPidfd)?;
    if has_ended(&process)? {
        // Whoever called `listen` has left the socket to a child of its own.
        return Err(io::Error::other("it has ended, and somebody else answers"));
    }
    registry.register(
        &mut SourceFd(&process.as_raw_fd()),
        Source::Process(peer).token(),
        Interest::READABLE,
    )?;
    Ok(process)
}

fn has_ended(process: &OwnedFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut polled, PollTimeout::ZERO)? > 0)
}

//! All connections, by their ids, the queues of those that have work to do, and the peer processes
//! that are watched.
//!
//! Connections that send little take turns with those that always have more to read: a hundred
//! connections that send without end delay another plugin by one piece, not by a hundred.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use mio::event::Event;
use mio::net::UnixStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};

use crate::daemon::connection::Connection;
use crate::daemon::source::Source;
use crate::manager::ConnectionId;

/// The connections, by the ids that the core knows.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_id: BTreeMap<ConnectionId, Held>,
    /// Connections with work to do, which the loop will not report again.
    ready: VecDeque<ConnectionId>,
    /// The connections that had unread data or unhandled messages when they were last served.
    busy: VecDeque<ConnectionId>,
    /// Whether the last connection that was served was busy.
    was_busy: bool,
}

/// A connection in the loop.
#[derive(Debug)]
struct Held {
    connection: Connection,
    /// Whether the loop reports room to write.
    is_room_reported: bool,
    /// Whether the connection is in one of the queues.
    is_queued: bool,
    /// Whether the core has unhandled messages of this connection.
    has_messages: bool,
}

impl Connections {
    /// Adds a connection to the loop.
    ///
    /// Room to write is not requested until it is needed: the loop would report room each time that
    /// the peer has read something.
    pub(crate) fn add(
        &mut self,
        conn: ConnectionId,
        mut stream: UnixStream,
        registry: &Registry,
    ) -> io::Result<()> {
        let token = Source::Connection(conn).token();
        registry.register(&mut stream, token, Interest::READABLE)?;
        let held = Held {
            connection: Connection::new(stream),
            is_room_reported: false,
            is_queued: false,
            has_messages: false,
        };
        self.by_id.insert(conn, held);
        Ok(())
    }

    pub(crate) fn get_mut(&mut self, conn: ConnectionId) -> Option<&mut Connection> {
        Some(&mut self.by_id.get_mut(&conn)?.connection)
    }

    /// Requests that the loop report room to write from now on.
    ///
    /// The request is made only once per connection. Each request makes epoll report unread data
    /// again, and data stay unread while the replies do not fit: repeated requests would
    /// keep the loop busy.
    pub(crate) fn request_writable(
        &mut self,
        conn: ConnectionId,
        registry: &Registry,
    ) -> io::Result<()> {
        let Some(held) = self.by_id.get_mut(&conn) else {
            return Ok(());
        };
        if !held.is_room_reported {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = Source::Connection(conn).token();
            registry.reregister(&mut held.connection.stream, token, interest)?;
            held.is_room_reported = true;
        }
        Ok(())
    }

    /// Returns whether the loop reports room to write, because a write had to wait before.
    pub(crate) fn is_room_reported(&self, conn: ConnectionId) -> bool {
        matches!(self.by_id.get(&conn), Some(held) if held.is_room_reported)
    }

    /// Removes a connection and returns it. Dropping the connection removes it from the loop.
    pub(crate) fn remove(&mut self, conn: ConnectionId) -> Option<Connection> {
        self.unqueue(conn);
        Some(self.by_id.remove(&conn)?.connection)
    }

    /// Records an event that the loop has reported about a connection, and queues the connection.
    pub(crate) fn record_event(&mut self, conn: ConnectionId, event: &Event) {
        if let Some(held) = self.by_id.get_mut(&conn) {
            held.connection.record_event(event);
            if !std::mem::replace(&mut held.is_queued, true) {
                self.ready.push_back(conn);
            }
        }
    }

    /// Queues a connection to be read, even if the loop has not reported anything to read.
    pub(crate) fn queue_ready(&mut self, conn: ConnectionId) {
        if let Some(held) = self.by_id.get_mut(&conn) {
            held.connection.is_readable = true;
            if !std::mem::replace(&mut held.is_queued, true) {
                self.ready.push_back(conn);
            }
        }
    }

    /// Queues a connection that was read and has messages that were not handled yet. The connection
    /// may have ended.
    pub(crate) fn queue_unhandled(&mut self, conn: ConnectionId) {
        self.unqueue(conn);
        if let Some(held) = self.by_id.get_mut(&conn) {
            (held.is_queued, held.has_messages) = (true, true);
        }
        self.busy.push_back(conn);
    }

    /// Queues a connection that still had unread data when it was served.
    pub(crate) fn queue_busy(&mut self, conn: ConnectionId) {
        self.unqueue(conn);
        if let Some(held) = self.by_id.get_mut(&conn) {
            held.is_queued = true;
            self.busy.push_back(conn);
        }
    }

    /// Returns whether a connection may have messages that were not handled yet, and clears the
    /// flag. Returns `true` if the connection has ended.
    pub(crate) fn take_has_messages(&mut self, conn: ConnectionId) -> bool {
        match self.by_id.get_mut(&conn) {
            Some(held) => std::mem::take(&mut held.has_messages),
            None => true,
        }
    }

    fn unqueue(&mut self, conn: ConnectionId) {
        if let Some(held) = self.by_id.get_mut(&conn) {
            if std::mem::replace(&mut held.is_queued, false) {
                self.ready.retain(|ready| *ready != conn);
                self.busy.retain(|busy| *busy != conn);
            }
        }
    }

    /// Removes the connection to serve next from its queue and returns it. Busy connections take
    /// turns with the others.
    pub(crate) fn pop_next(&mut self) -> Option<ConnectionId> {
        let is_turn_of_busy = !self.was_busy || self.ready.is_empty();
        self.was_busy = is_turn_of_busy && !self.busy.is_empty();
        let queue = if self.was_busy {
            &mut self.busy
        } else {
            &mut self.ready
        };
        let conn = queue.pop_front()?;
        if let Some(held) = self.by_id.get_mut(&conn) {
            held.is_queued = false;
        }
        Some(conn)
    }

    /// Returns whether any connection has work to do.
    pub(crate) fn is_any_ready(&self) -> bool {
        !self.ready.is_empty() || !self.busy.is_empty()
    }
}

/// The pidfds of the watched processes, sorted by the connection to each: the processes of
/// registered plugins, which are watched without calls to the plugins.
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream as StdStream;
    use std::time::Duration;

    use mio::{Events, Poll};

    use super::*;
    use crate::daemon::connection::Transfer;

    /// Returns whether the loop reports something to read, and room to write, or `None` if there is
    /// no event.
    fn poll_readiness(poll: &mut Poll) -> Option<(bool, bool)> {
        let mut events = Events::with_capacity(4);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        let mut events = events.iter();
        let event = events.next()?;
        Some((event.is_readable(), event.is_writable()))
    }

    #[test]
    fn a_peer_that_writes_and_does_not_read_is_reported_once() {
        let mut poll = Poll::new().unwrap();
        let (ours, mut theirs) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut connections = Connections::default();
        let conn = ConnectionId::OUTSIDE;
        connections
            .add(conn, UnixStream::from_std(ours), poll.registry())
            .unwrap();
        theirs.write_all(b"not read").unwrap();
        for _ in 0..2 {
            let mut written = 0;
            while let Transfer::Bytes(n) = connections.get_mut(conn).unwrap().write(&[0; 4096]) {
                written += n;
            }
            connections.request_writable(conn, poll.registry()).unwrap();
            assert_eq!(poll_readiness(&mut poll), Some((true, false)));
            connections.request_writable(conn, poll.registry()).unwrap();
            assert_eq!(poll_readiness(&mut poll), None);
            theirs.read_exact(&mut vec![0; written]).unwrap();
            assert_eq!(poll_readiness(&mut poll), Some((true, true)));
            theirs.write_all(b"nor this").unwrap();
        }
    }

    #[test]
    fn connections_take_turns_and_messages_outlive_a_connection() {
        let poll = Poll::new().unwrap();
        let mut connections = Connections::default();
        let ids = [1, 2, 3].map(ConnectionId);
        let mut peers = Vec::new();
        for conn in ids {
            let (ours, theirs) = StdStream::pair().unwrap();
            let stream = UnixStream::from_std(ours);
            connections.add(conn, stream, poll.registry()).unwrap();
            peers.push(theirs);
        }
        let [a, b, c] = ids;
        for ready in [b, a, b, c] {
            connections.queue_ready(ready);
        }
        assert_eq!(connections.pop_next(), Some(b));
        connections.queue_busy(b);
        assert_eq!(connections.pop_next(), Some(b), "its turn");
        connections.queue_busy(b);
        assert_eq!(connections.pop_next(), Some(a), "the turn of another one");
        assert_eq!(connections.pop_next(), Some(b));
        assert_eq!(connections.pop_next(), Some(c));
        connections.queue_unhandled(b);
        connections.queue_unhandled(b);
        assert_eq!(connections.pop_next(), Some(b));
        assert!(connections.take_has_messages(b) && !connections.take_has_messages(b));
        connections.remove(b);
        connections.queue_unhandled(b);
        assert_eq!(connections.pop_next(), Some(b), "it ended with messages");
        assert!(connections.take_has_messages(b));
        assert!(!connections.is_any_ready());
    }
}

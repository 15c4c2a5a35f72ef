//! All connections: which link each serves, and which of them have work to do.
//!
//! Those that have little to say go before those that always have more: one of them that sends
//! without end, or a hundred, keep no other plugin waiting for longer than a turn.

use std::collections::VecDeque;
use std::io;

use mio::event::Event;
use mio::net::UnixStream;
use mio::{Interest, Registry};

use super::connection::Connection;
use super::source::Source;
use crate::manager::{ByLink, LinkId};

/// The connections that the core knows as links.
#[derive(Debug, Default)]
pub(super) struct Connections {
    by_link: ByLink<Held>,
    /// Links with work to do, which the loop will not report again.
    ready: VecDeque<LinkId>,
    /// The same of those that had unread data when their time was used up. They share what time
    /// the others leave.
    busy: VecDeque<LinkId>,
    /// Whether one of those goes first, because the others left no time for any.
    is_busy_first: bool,
}

/// A connection in the loop.
#[derive(Debug)]
struct Held {
    connection: Connection,
    /// Whether the loop reports that there is room to write.
    is_room_reported: bool,
    /// Whether its link is among those that have work to do.
    is_queued: bool,
}

/// A link whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// The link.
    pub(super) link: LinkId,
    /// Whether it had unread data when its time was used up.
    pub(super) is_busy: bool,
}

impl Connections {
    /// Adds a connection to the loop.
    ///
    /// It is open already, so the loop has nothing to say about writing: readiness that nobody
    /// waits for would be reported each time that the peer has read something.
    pub(super) fn add(
        &mut self,
        link: LinkId,
        mut stream: UnixStream,
        registry: &Registry,
    ) -> io::Result<()> {
        let token = Source::Connection(link).token();
        registry.register(&mut stream, token, Interest::READABLE)?;
        let held = Held {
            connection: Connection::new(stream),
            is_room_reported: false,
            is_queued: false,
        };
        self.by_link.insert(link, held);
        Ok(())
    }

    pub(super) fn get_mut(&mut self, link: LinkId) -> Option<&mut Connection> {
        self.by_link.get_mut(link).map(|held| &mut held.connection)
    }

    /// From now on the loop reports, too, that there is room to write.
    ///
    /// It is told once. Whenever it is, it reports anew what is there to read, and reading may be
    /// what waits for room: told again each time, it would never come to rest.
    pub(super) fn await_room(&mut self, link: LinkId, registry: &Registry) -> io::Result<()> {
        let Some(held) = self.by_link.get_mut(link) else {
            return Ok(());
        };
        if !held.is_room_reported {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = Source::Connection(link).token();
            registry.reregister(held.connection.stream_mut(), token, interest)?;
            held.is_room_reported = true;
        }
        Ok(())
    }

    /// Takes a connection out; the loop forgets it when it is dropped.
    pub(super) fn remove(&mut self, link: LinkId) -> Option<Connection> {
        self.set_idle(link);
        Some(self.by_link.remove(link)?.connection)
    }

    /// The loop has reported something about a connection.
    pub(super) fn report(&mut self, link: LinkId, event: &Event) {
        let is_ending = event.is_read_closed() || event.is_error();
        if is_ending {
            if let Some(connection) = self.get_mut(link) {
                connection.set_ending();
            }
        }
        self.set_ready(link, event.is_readable() || is_ending);
    }

    /// Remembers that a link has work to do: something to write, and perhaps something to read.
    pub(super) fn set_ready(&mut self, link: LinkId, may_read: bool) {
        if let Some(held) = self.by_link.get_mut(link) {
            if may_read {
                held.connection.set_readable();
            }
            if !std::mem::replace(&mut held.is_queued, true) {
                self.ready.push_back(link);
            }
        }
    }

    /// Remembers that a link had more to do when its time was used up, even if its connection has
    /// ended.
    pub(super) fn set_busy(&mut self, link: LinkId) {
        self.set_idle(link);
        if let Some(held) = self.by_link.get_mut(link) {
            held.is_queued = true;
        }
        self.busy.push_back(link);
    }

    /// Forgets that a link has work to do.
    pub(super) fn set_idle(&mut self, link: LinkId) {
        if let Some(held) = self.by_link.get_mut(link) {
            if std::mem::replace(&mut held.is_queued, false) {
                self.ready.retain(|ready| *ready != link);
                self.busy.retain(|busy| *busy != link);
            }
        }
    }

    /// Takes out the link whose turn it is. A busy one comes after all others, unless one is to go
    /// first.
    pub(super) fn next_ready(&mut self) -> Option<Ready> {
        let is_busy_first = std::mem::take(&mut self.is_busy_first) && !self.busy.is_empty();
        let ready = (!is_busy_first).then(|| self.ready.pop_front()).flatten();
        let is_busy = ready.is_none();
        let link = ready.or_else(|| self.busy.pop_front())?;
        if let Some(held) = self.by_link.get_mut(link) {
            held.is_queued = false;
        }
        Some(Ready { link, is_busy })
    }

    /// Sets whether the next link is a busy one, if there is one.
    pub(super) fn set_busy_first(&mut self, is_busy_first: bool) {
        self.is_busy_first = is_busy_first;
    }

    /// Returns how many links have work to do.
    pub(super) fn count_ready(&self) -> usize {
        self.ready.len() + self.busy.len()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream as StdStream;
    use std::time::Duration;

    use mio::{Events, Poll};

    use super::*;
    use crate::daemon::connection::Moved;

    /// Whether the loop has something to report of reading, and of writing.
    fn reports(poll: &mut Poll) -> Option<(bool, bool)> {
        let mut events = Events::with_capacity(4);
        poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
        let mut events = events.iter();
        let event = events.next()?;
        Some((event.is_readable(), event.is_writable()))
    }

    #[test]
    fn a_peer_that_talks_and_does_not_read_is_reported_once_and_room_whenever_it_is_there() {
        let mut poll = Poll::new().unwrap();
        let (ours, mut theirs) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut connections = Connections::default();
        let link = LinkId::OUTSIDE;
        connections
            .add(link, UnixStream::from_std(ours), poll.registry())
            .unwrap();
        theirs.write_all(b"not read").unwrap();
        for _ in 0..2 {
            let mut written = 0;
            while let Moved::Bytes(n) = connections.get_mut(link).unwrap().write(&[0; 4096]) {
                written += n;
            }
            connections.await_room(link, poll.registry()).unwrap();
            assert_eq!(reports(&mut poll), Some((true, false)));
            connections.await_room(link, poll.registry()).unwrap();
            assert_eq!(reports(&mut poll), None);
            theirs.read_exact(&mut vec![0; written]).unwrap();
            assert_eq!(reports(&mut poll), Some((true, true)));
            theirs.write_all(b"nor this").unwrap();
        }
    }

    #[test]
    fn busy_links_take_turns_after_all_others() {
        let poll = Poll::new().unwrap();
        let mut connections = Connections::default();
        let links = [1, 2, 3, 4].map(LinkId);
        let mut peers = Vec::new();
        for link in links {
            let (ours, theirs) = StdStream::pair().unwrap();
            let stream = UnixStream::from_std(ours);
            connections.add(link, stream, poll.registry()).unwrap();
            peers.push(theirs);
        }
        let [a, b, c, d] = links;
        for busy in [b, a, b] {
            connections.set_busy(busy);
        }
        for ready in [d, a, c, d] {
            connections.set_ready(ready, false);
        }
        assert_eq!(connections.count_ready(), 4);
        let next = |connections: &mut Connections| {
            let next = connections.next_ready();
            next.map(|Ready { link, is_busy }| (link, is_busy))
        };
        assert_eq!(next(&mut connections), Some((d, false)));
        connections.set_busy(d);
        assert_eq!(next(&mut connections), Some((c, false)));
        assert_eq!(next(&mut connections), Some((a, true)), "it waited longest");
        connections.set_idle(d);
        connections.set_ready(a, true);
        connections.set_busy_first(true);
        assert_eq!(next(&mut connections), Some((b, true)));
        connections.remove(a);
        assert_eq!(connections.count_ready(), 0);
        assert_eq!(next(&mut connections), None);
    }
}

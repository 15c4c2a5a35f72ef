//! All connections: which link each serves, and which of them have work to do.

use std::io;

use litemap::LiteMap;
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
    ready: LiteMap<LinkId, ()>,
}

/// A connection in the loop.
#[derive(Debug)]
struct Held {
    connection: Connection,
    /// Whether the loop reports that there is room to write.
    is_room_reported: bool,
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
        let held = self.by_link.remove(link)?;
        self.ready.remove(&link);
        Some(held.connection)
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
        if let Some(connection) = self.get_mut(link) {
            if may_read {
                connection.set_readable();
            }
            self.ready.insert(link, ());
        }
    }

    /// Forgets that a link has work to do.
    pub(super) fn set_idle(&mut self, link: LinkId) {
        self.ready.remove(&link);
    }

    /// The links that have work to do, which are asked once.
    pub(super) fn take_ready(&mut self) -> impl Iterator<Item = LinkId> + use<> {
        std::mem::take(&mut self.ready)
            .into_iter()
            .map(|(link, ())| link)
    }

    pub(super) fn is_any_ready(&self) -> bool {
        !self.ready.is_empty()
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
}

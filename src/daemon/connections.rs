//! All connections: which link each serves, and which of them have work to do.

use std::collections::BTreeSet;
use std::io;

use litemap::LiteMap;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};

use super::connection::Connection;
use crate::manager::LinkId;

/// The connections that the core knows as links.
#[derive(Debug)]
pub(super) struct Connections {
    by_link: LiteMap<LinkId, Held>,
    by_token: LiteMap<Token, LinkId>,
    /// Links with work to do, which the loop will not report again.
    ready: BTreeSet<LinkId>,
    last_token: Token,
}

/// A connection in the loop.
#[derive(Debug)]
struct Held {
    token: Token,
    connection: Connection,
    /// Whether the loop reports that there is room to write.
    is_room_reported: bool,
}

impl Connections {
    /// No connections; their tokens will come after `reserved`.
    pub(super) fn new(reserved: Token) -> Self {
        Self {
            by_link: LiteMap::new(),
            by_token: LiteMap::new(),
            ready: BTreeSet::new(),
            last_token: reserved,
        }
    }

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
        let token = self.new_token();
        registry.register(&mut stream, token, Interest::READABLE)?;
        self.by_token.insert(token, link);
        let held = Held {
            token,
            connection: Connection::new(stream),
            is_room_reported: false,
        };
        self.by_link.insert(link, held);
        Ok(())
    }

    /// A token that nothing in the loop has or had.
    pub(super) fn new_token(&mut self) -> Token {
        self.last_token.0 += 1;
        self.last_token
    }

    pub(super) fn get_mut(&mut self, link: LinkId) -> Option<&mut Connection> {
        self.by_link.get_mut(&link).map(|held| &mut held.connection)
    }

    pub(super) fn by_token(&self, token: Token) -> Option<LinkId> {
        self.by_token.get(&token).copied()
    }

    /// From now on the loop reports, too, that there is room to write.
    ///
    /// It is told once. Whenever it is, it reports anew what is there to read, and reading may be
    /// what waits for room: told again each time, it would never come to rest.
    pub(super) fn await_room(&mut self, link: LinkId, registry: &Registry) -> io::Result<()> {
        let Some(held) = self.by_link.get_mut(&link) else {
            return Ok(());
        };
        if !held.is_room_reported {
            let interest = Interest::READABLE | Interest::WRITABLE;
            registry.reregister(held.connection.stream_mut(), held.token, interest)?;
            held.is_room_reported = true;
        }
        Ok(())
    }

    /// Takes a connection out; the loop forgets it when it is dropped.
    pub(super) fn remove(&mut self, link: LinkId) -> Option<Connection> {
        let held = self.by_link.remove(&link)?;
        self.by_token.remove(&held.token);
        self.ready.remove(&link);
        Some(held.connection)
    }

    /// Remembers that a link has work to do: something to write, and perhaps something to read.
    pub(super) fn set_ready(&mut self, link: LinkId, may_read: bool) {
        if let Some(connection) = self.get_mut(link) {
            if may_read {
                connection.set_readable();
            }
            self.ready.insert(link);
        }
    }

    /// Forgets that a link has work to do.
    pub(super) fn set_idle(&mut self, link: LinkId) {
        self.ready.remove(&link);
    }

    /// The links that have work to do, which are asked once.
    pub(super) fn take_ready(&mut self) -> BTreeSet<LinkId> {
        std::mem::take(&mut self.ready)
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
        let mut connections = Connections::new(Token(0));
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

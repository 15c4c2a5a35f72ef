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
    by_link: LiteMap<LinkId, (Token, Connection)>,
    by_token: LiteMap<Token, LinkId>,
    /// Links with work to do, which the loop will not report again.
    ready: BTreeSet<LinkId>,
    last_token: Token,
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
        self.by_link.insert(link, (token, Connection::new(stream)));
        Ok(())
    }

    /// A token that nothing in the loop has or had.
    pub(super) fn new_token(&mut self) -> Token {
        self.last_token.0 += 1;
        self.last_token
    }

    pub(super) fn get_mut(&mut self, link: LinkId) -> Option<&mut Connection> {
        self.by_link
            .get_mut(&link)
            .map(|(_, connection)| connection)
    }

    pub(super) fn by_token(&self, token: Token) -> Option<LinkId> {
        self.by_token.get(&token).copied()
    }

    /// From now on the loop reports, too, that there is room to write.
    pub(super) fn await_room(&mut self, link: LinkId, registry: &Registry) -> io::Result<()> {
        let Some((token, connection)) = self.by_link.get_mut(&link) else {
            return Ok(());
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.reregister(connection.stream_mut(), *token, interest)
    }

    /// Takes a connection out; the loop forgets it when it is dropped.
    pub(super) fn remove(&mut self, link: LinkId) -> Option<Connection> {
        let (token, connection) = self.by_link.remove(&link)?;
        self.by_token.remove(&token);
        self.ready.remove(&link);
        Some(connection)
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

//! Somebody who was let in: a connection to a simulated plugin.

use mio::Token;
use mio::event::Event;
use mio::net::UnixStream;

use crate::daemon::clock::Clock;
use crate::daemon::connection::{Connection, Moved};
use crate::simulate::{LinkId, Plugin};

/// A connection, and what the plugin knows it as.
#[derive(Debug)]
pub(super) struct Guest {
    token: Token,
    link: LinkId,
    connection: Connection,
}

impl Guest {
    /// A guest whom the loop knows by this token.
    pub(super) fn new(token: Token, link: LinkId, stream: UnixStream) -> Self {
        Self {
            token,
            link,
            connection: Connection::new(stream),
        }
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    /// Whether there is nothing more to hear from or to say to it, but for a last word.
    pub(super) fn is_leaving(&self, plugin: &Plugin) -> bool {
        plugin.is_closed(self.link)
    }

    /// Takes in what the loop has to report.
    pub(super) fn report(&mut self, event: &Event) {
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.connection.set_readable();
        }
    }

    /// Writes once and reads once, where that is possible; answers whether it was.
    pub(super) fn serve(&mut self, plugin: &mut Plugin, clock: Clock) -> bool {
        self.write(plugin, clock) | self.read(plugin, clock)
    }

    /// Closes the connection, with the last words that there are.
    pub(super) fn leave(self, plugin: &mut Plugin) {
        self.connection.hang_up(plugin.transmit(self.link));
        plugin.forget(self.link);
    }

    fn write(&mut self, plugin: &mut Plugin, clock: Clock) -> bool {
        let octets = plugin.transmit(self.link);
        if octets.is_empty() || self.connection.is_broken() {
            return false;
        }
        match self.connection.write(octets) {
            Moved::Bytes(n) => plugin.sent(self.link, n, clock.now()),
            Moved::NotNow => return false,
            Moved::Ended(_) => {} // Reading says when that is all.
        }
        true
    }

    fn read(&mut self, plugin: &mut Plugin, clock: Clock) -> bool {
        if !self.connection.is_readable() {
            return false;
        }
        let room = plugin.recv_buf(self.link);
        let moved = match room.len() {
            // What waits to be written comes first, unless nobody will ever take it.
            0 if !self.connection.is_broken() => return false,
            0 => Moved::Ended(None),
            _ => self.connection.read(room),
        };
        match moved {
            Moved::Bytes(n) => plugin.received(self.link, n, clock.now()),
            Moved::NotNow => return false,
            Moved::Ended(_) => plugin.eof(self.link, clock.now()),
        }
        true
    }
}

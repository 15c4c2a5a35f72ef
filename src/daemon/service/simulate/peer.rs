//! A connection to a simulated plugin, or from one to kubelet.

use mio::Token;
use mio::event::Event;
use mio::net::UnixStream;

use crate::daemon::clock::Clock;
use crate::daemon::connection::Connection;
use crate::http2::Endpoint as _;
use crate::simulate::{ConnectionId, Plugin};

/// A connection, and the id by which the plugin knows it.
#[derive(Debug)]
pub(super) struct Peer {
    token: Token,
    conn: ConnectionId,
    connection: Connection,
}

impl Peer {
    /// Returns the peer of a new connection, which the loop knows by this token.
    pub(super) fn new(token: Token, conn: ConnectionId, stream: UnixStream) -> Self {
        Self {
            token,
            conn,
            connection: Connection::new(stream),
        }
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    /// Returns whether the connection is over, except for its final bytes.
    pub(super) fn is_done(&self, plugin: &Plugin) -> bool {
        plugin.is_closed(self.conn)
    }

    /// Records what the loop has reported about the connection.
    pub(super) fn report(&mut self, event: &Event) {
        self.connection.report(event);
    }

    /// Writes once and reads once. Returns whether there may be more to do without another report
    /// of the loop.
    pub(super) fn serve(&mut self, plugin: &mut Plugin, clock: Clock) -> bool {
        let now = clock.now();
        let has_moved = if let Some(client) = plugin.client(self.conn) {
            self.connection.pump(client, now)
        } else {
            let end = plugin.endpoint(self.conn);
            end.is_some_and(|end| self.connection.pump(end, now))
        };
        if has_moved {
            plugin.advance(now);
        }
        has_moved
    }

    /// Writes the final bytes and closes the connection.
    pub(super) fn close(self, plugin: &mut Plugin) {
        let final_bytes = if let Some(client) = plugin.client(self.conn) {
            client.transmit()
        } else {
            let end = plugin.endpoint(self.conn);
            end.map_or(&[][..], |end| end.transmit())
        };
        self.connection.hang_up(final_bytes);
        plugin.forget(self.conn);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream as StdStream;
    use std::path::PathBuf;
    use std::time::Duration;

    use mio::{Events, Interest, Poll};

    use super::*;
    use crate::simulate::{Faults, Profile, Socket};

    fn plugin(clock: Clock) -> Plugin {
        let profile = Profile {
            kind: "CSIPlugin".to_owned(),
            name: "a".to_owned(),
            versions: Vec::new(),
            socket: PathBuf::new(),
            is_legacy: false,
            endpoint: None,
            toggle_health: None,
            faults: Faults::default(),
        };
        Plugin::new(&profile, Duration::ZERO, clock.now())
    }

    #[test]
    fn a_peer_whose_end_comes_with_its_last_words_is_leaving() {
        let clock = Clock::start();
        let mut plugin = plugin(clock);
        let mut poll = Poll::new().unwrap();
        let (ours, mut theirs) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut stream = UnixStream::from_std(ours);
        poll.registry()
            .register(&mut stream, Token(0), Interest::READABLE)
            .unwrap();
        let conn = plugin.accept(Socket::Common, clock.now());
        let mut peer = Peer::new(Token(0), conn, stream);
        // Sends the first bytes of the plugin. From here on the plugin only receives.
        while peer.serve(&mut plugin, clock) {}

        theirs.write_all(b"PRI").unwrap();
        drop(theirs);
        let mut events = Events::with_capacity(4);
        poll.poll(&mut events, None).unwrap();
        events.iter().for_each(|event| peer.report(event));
        for _ in 0..3 {
            peer.serve(&mut plugin, clock);
        }
        assert!(peer.is_done(&plugin));
    }
}

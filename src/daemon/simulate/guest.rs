//! Somebody who was let in: a connection to a simulated plugin.

use mio::Token;
use mio::event::Event;
use mio::net::UnixStream;

use crate::daemon::clock::Clock;
use crate::daemon::connection::Connection;
use crate::http2::Endpoint as _;
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
        let is_ending = event.is_read_closed() || event.is_error();
        if is_ending {
            self.connection.set_ending();
        }
        if event.is_readable() || is_ending {
            self.connection.set_readable();
        }
    }

    /// Writes once and reads once, where that is possible; answers whether it was.
    pub(super) fn serve(&mut self, plugin: &mut Plugin, clock: Clock) -> bool {
        let now = clock.now();
        let end = plugin.endpoint(self.link);
        let has_moved = end.is_some_and(|end| self.connection.pump(end, now));
        if has_moved {
            plugin.advance(now);
        }
        has_moved
    }

    /// Closes the connection, with the last words that there are.
    pub(super) fn leave(self, plugin: &mut Plugin) {
        let end = plugin.endpoint(self.link);
        let final_bytes = end.map_or(&[][..], |end| end.transmit());
        self.connection.hang_up(final_bytes);
        plugin.forget(self.link);
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
            endpoint: None,
            toggle_health: None,
            faults: Faults::default(),
        };
        Plugin::new(&profile, Duration::ZERO, clock.now())
    }

    #[test]
    fn whose_end_is_reported_together_with_its_last_words_is_leaving() {
        let clock = Clock::start();
        let mut plugin = plugin(clock);
        let mut poll = Poll::new().unwrap();
        let (ours, mut theirs) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut stream = UnixStream::from_std(ours);
        poll.registry()
            .register(&mut stream, Token(0), Interest::READABLE)
            .unwrap();
        let link = plugin.accept(Socket::Common, clock.now());
        let mut guest = Guest::new(Token(0), link, stream);
        // What the plugin says first is said: from here on it only listens.
        while guest.serve(&mut plugin, clock) {}

        theirs.write_all(b"PRI").unwrap();
        drop(theirs);
        let mut events = Events::with_capacity(4);
        poll.poll(&mut events, None).unwrap();
        events.iter().for_each(|event| guest.report(event));
        for _ in 0..3 {
            guest.serve(&mut plugin, clock);
        }
        assert!(guest.is_leaving(&plugin));
    }
}

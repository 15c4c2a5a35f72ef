//! A connected client of the API, with non-blocking reads and writes.

use std::io::{self, Read as _, Write as _};

use mio::event::Event;
use mio::net::UnixStream;
use mio::{Interest, Registry};

use crate::api::{ClientId, Server};
use crate::config::API_HEAD;
use crate::daemon::connection::{Connection, Transfer};
use crate::daemon::source::Source;
use crate::time::Time;

/// A connected client, and what the loop has reported about it.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) connection: Connection,
    /// The process ID and the user ID of the client, if they are known.
    pub(super) peer: Option<(i32, u32)>,
    /// Whether there may be room to write: readiness is reported once per change only.
    is_writable: bool,
    /// Whether the connection is to be removed.
    pub(super) is_broken: bool,
}

impl Client {
    /// Adds a client to the loop.
    pub(super) fn open(
        id: ClientId,
        mut stream: UnixStream,
        peer: Option<(i32, u32)>,
        registry: &Registry,
    ) -> io::Result<Self> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, Source::ApiClient(id).token(), interest)?;
        let mut connection = Connection::new(stream);
        connection.is_readable = true;
        Ok(Self {
            id,
            connection,
            peer,
            is_writable: true,
            is_broken: false,
        })
    }

    /// Records an event that the loop has reported.
    pub(super) fn record_event(&mut self, event: &Event) {
        self.connection.record_event(event);
        self.is_writable |= event.is_writable();
        // The client has closed its end, or its process has ended. Reading would not notice that
        // while a response is in progress, such as that of `/v1/watch`.
        self.is_broken |= event.is_write_closed() || event.is_error();
    }

    /// Returns whether there is something to read or to write, or the client is to be removed.
    pub(super) fn is_ready(&self, server: &Server) -> bool {
        self.connection.is_readable && server.wants_input(self.id)
            || self.is_writable && !server.pending_output(self.id).is_empty()
            || self.is_broken
            || server.is_finished(self.id)
    }

    /// Reads once, if input is wanted. Not inlined, because the loop would keep room for the buffer
    /// on its stack.
    #[inline(never)]
    pub(super) fn read(&mut self, server: &mut Server, now: Time) {
        if !self.connection.is_readable || !server.wants_input(self.id) {
            return;
        }
        let mut buffer = [0; API_HEAD]; // No request may be longer.
        match self.connection.read(&mut buffer) {
            Transfer::Bytes(n) => {
                self.connection.is_readable = true; // More may follow what came with descriptors.
                server.receive(self.id, &buffer[..n], now);
            }
            Transfer::Closed(None) => server.eof(self.id),
            Transfer::Closed(Some(_)) => self.is_broken = true,
            Transfer::Nothing | Transfer::WouldBlock => {}
        }
    }

    /// Writes what is to be written, a few times at most.
    pub(super) fn write(&mut self, server: &mut Server, now: Time) {
        for _ in 0..WRITES_AT_ONCE {
            let pending = server.pending_output(self.id);
            if pending.is_empty() || !self.is_writable || self.is_broken {
                return;
            }
            match self.connection.write(pending) {
                Transfer::Bytes(n) => server.sent(self.id, n, now),
                Transfer::Closed(_) => self.is_broken = true,
                Transfer::Nothing | Transfer::WouldBlock => self.is_writable = false,
            }
        }
    }
}

/// Responds to a client beyond the limit, and closes its connection.
pub(super) fn refuse(mut stream: UnixStream) {
    discard_input(&mut stream);
    // There is room for the response: nothing was written before.
    let _ = stream.write(&Server::busy_response());
}

/// Discards what has arrived, at most [`API_HEAD`] bytes. If input is unread when a connection
/// is closed, the client gets an error after the last response.
pub(super) fn discard_input(stream: &mut UnixStream) {
    let _ = stream.read(&mut [0; API_HEAD]);
}

/// The maximum number of writes to a client in one turn. Usually one is enough.
const WRITES_AT_ONCE: usize = 4;

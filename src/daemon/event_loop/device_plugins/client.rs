//! A connection to `kubelet.sock`.

use std::io;

use mio::event::Event;
use mio::net::UnixStream;
use mio::{Interest, Registry};

use crate::daemon::connection::Connection;
use crate::daemon::source::Source;
use crate::http2::Endpoint as _;
use crate::registration::{ClientId, Registrar};
use crate::time::Time;

/// A connection, and the number by which the service knows it.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: ClientId,
    connection: Connection,
}

impl Client {
    /// Adds an accepted connection to the loop.
    pub(super) fn register(
        id: ClientId,
        mut stream: UnixStream,
        registry: &Registry,
    ) -> io::Result<Self> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Source::RegistrationClient(id).token();
        registry.register(&mut stream, token, interest)?;
        let connection = Connection::new(stream);
        Ok(Self { id, connection })
    }

    /// Records an event that the loop has reported.
    pub(super) fn report(&mut self, event: &Event) {
        self.connection.report(event);
    }

    /// Writes once and reads once. Returns whether there may be more to do without another report
    /// of the loop.
    pub(super) fn serve(&mut self, registrar: &mut Registrar, now: Time) -> bool {
        let end = registrar.endpoint(self.id);
        let has_moved = end.is_some_and(|end| self.connection.pump(end, now));
        if has_moved {
            registrar.advance(self.id, now);
        }
        has_moved
    }

    /// Writes the final bytes and closes the connection.
    pub(super) fn close(self, registrar: &mut Registrar) {
        let end = registrar.endpoint(self.id);
        let final_bytes = end.map_or(&[][..], |end| end.transmit());
        self.connection.hang_up(final_bytes);
        registrar.remove(self.id);
    }
}

//! Reading and writing connections, those of plugins within a budget for each turn, and those of
//! the clients of `kubelet.sock`.

use std::io;
use std::time::Duration;

use super::PluginManager;
use crate::daemon::connection::Transfer;
use crate::http2::Endpoint as _;
use crate::manager::{self, ConnectionEvent, ConnectionId};
use crate::time::Time;

impl PluginManager {
    /// Serves connections that have work to do, a piece of each in turn, until none is left or the
    /// time is used up.
    pub(super) fn serve_connections(&mut self, now: Time) {
        if !self.connections.is_any_ready() {
            return;
        }
        let until = (now + SERVE_TIME).max(self.clock.now() + LEAST_SERVE_TIME);
        while let Some(conn) = self.connections.pop_next() {
            if self.connections.is_room_reported(conn) {
                self.write_connection(conn, now);
            }
            self.read_connection(conn, now);
            if self.connections.is_any_ready() && self.clock.now() >= until {
                return;
            }
        }
    }

    /// Writes once. The core handles what that has made possible, and emits another `Transmit` if
    /// output is left.
    pub(super) fn write_connection(&mut self, conn: ConnectionId, now: Time) {
        let (Some(connection), Some(end)) =
            (self.connections.get_mut(conn), self.manager.endpoint(conn))
        else {
            return;
        };
        let deadline = end.poll_timeout();
        match connection.write_from(end, now) {
            Transfer::Bytes(_) => {
                // Reading may have waited for room for the replies.
                if connection.is_readable {
                    self.connections.queue_ready(conn);
                }
                if end.has_work() || end.poll_timeout() != deadline {
                    self.manager.handle_io(conn, now);
                }
            }
            Transfer::Nothing => {}
            Transfer::WouldBlock => {
                let registry = self.poll.registry();
                if let Err(error) = self.connections.request_writable(conn, registry) {
                    self.close_connection(conn, Some(&error), now);
                }
            }
            Transfer::Closed(error) => {
                log::trace!("{conn}: cannot write: {}", close_reason(error.as_ref()));
                self.connections.queue_ready(conn);
            }
        }
    }

    /// Reads one piece. A connection that may have more to read is served again after the others.
    /// Messages left over from an earlier read are handled first.
    fn read_connection(&mut self, conn: ConnectionId, now: Time) {
        if self.connections.take_has_messages(conn) {
            self.manager.handle_io(conn, now);
            self.drain_manager(now);
        }
        let mut budget = READ_PIECE;
        while let Some(connection) = self.connections.get_mut(conn) {
            if !connection.is_readable {
                return;
            }
            let Some(end) = self.manager.endpoint(conn) else {
                return;
            };
            match connection.read_into(end, budget, now) {
                Transfer::Bytes(n) => {
                    self.manager.handle_io(conn, now);
                    self.drain_manager(now);
                    budget -= n;
                    if budget == 0 {
                        return self.connections.queue_busy(conn);
                    }
                }
                Transfer::Nothing => return, // The core has to write, or to handle messages, first.
                Transfer::WouldBlock => {}
                Transfer::Closed(error) => return self.close_connection(conn, error.as_ref(), now),
            }
        }
    }

    fn close_connection(&mut self, conn: ConnectionId, error: Option<&io::Error>, now: Time) {
        log::trace!("{conn}: closed: {}", close_reason(error));
        self.connections.remove(conn);
        let closed = manager::Input::Connection(conn, ConnectionEvent::Closed);
        self.manager.handle_input(closed, now);
    }

    /// Serves the clients of `kubelet.sock`, and passes their announcements on to the manager.
    pub(super) fn serve_registrations(&mut self, now: Time) {
        let Some(device_plugins) = &mut self.device_plugins else {
            return;
        };
        let announced = device_plugins.serve(self.poll.registry(), now);
        for announced in announced {
            self.manager.handle_input(announced, now);
            self.drain_manager(now);
        }
    }
}

/// The time after the beginning of a turn at which connections that were not served yet are left to
/// the next turn.
const SERVE_TIME: Duration = Duration::from_millis(2);

/// The least time for serving connections in one turn, however much time the watch has used.
const LEAST_SERVE_TIME: Duration = Duration::from_millis(1);

/// The number of bytes that are read from a connection before the others are served: at most a
/// hundred lists of one device, each of which takes several microseconds if it differs from the
/// list before.
const READ_PIECE: usize = 2 * 1024;

/// Returns why a connection has ended.
fn close_reason(error: Option<&io::Error>) -> String {
    error.map_or_else(|| "the peer has closed it".to_owned(), io::Error::to_string)
}

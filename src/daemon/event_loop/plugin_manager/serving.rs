//! Reading and writing connections, within a budget for each turn.

use std::io;
use std::time::Duration;

use super::PluginManager;
use crate::daemon::connection::Transfer;
use crate::daemon::event_loop::connections::Ready;
use crate::manager::{self, ConnectionId};
use crate::time::Time;

impl PluginManager {
    /// Serves each connection that has work to do, once. Connections for which there is not enough
    /// time are left to the next turn.
    pub(super) fn serve_ready(&mut self, now: Time) {
        let count = self.connections.count_ready();
        let until = (now + SERVE_TIME).max(self.clock.now() + LEAST_SERVE_TIME);
        let mut is_any_busy_served = false;
        for served in 1..=count {
            let Some(ready) = self.connections.next_ready() else {
                return;
            };
            self.serve(ready, now);
            is_any_busy_served |= ready.is_busy;
            if served < count && self.clock.now() >= until {
                self.connections.set_busy_first(!is_any_busy_served);
                return;
            }
        }
    }

    /// Writes pending output of a connection, and then reads input within the budget.
    fn serve(&mut self, Ready { conn, is_busy }: Ready, now: Time) {
        self.write(conn, now);
        self.read(conn, is_busy, now);
    }

    /// Writes once. If output is left, the core emits another `Transmit`.
    pub(super) fn write(&mut self, conn: ConnectionId, now: Time) {
        let Some(connection) = self.connections.get_mut(conn) else {
            return;
        };
        let Some(end) = self.manager.endpoint(conn) else {
            return;
        };
        match connection.write_from(end, now) {
            Transfer::Bytes(_) => {
                // Reading may have waited for room for the replies.
                if connection.is_readable() {
                    self.connections.set_ready(conn, true);
                }
                self.manager.handle_io(conn, now);
            }
            Transfer::Nothing => {}
            Transfer::WouldBlock => {
                let registry = self.poll.registry();
                if let Err(error) = self.connections.await_room(conn, registry) {
                    self.close(conn, Some(&error), now);
                }
            }
            Transfer::Closed(error) => {
                log::trace!("{conn}: cannot write: {}", cause(error.as_ref()));
                self.connections.set_ready(conn, true);
            }
        }
    }

    /// Reads one piece, or, from a busy connection, as many pieces as fit in [`READ_TIME`]. A
    /// connection that may have more to read afterwards is busy. Messages that were left of an
    /// earlier read are handled first.
    fn read(&mut self, conn: ConnectionId, is_busy: bool, now: Time) {
        let until = is_busy.then(|| self.clock.now() + READ_TIME);
        if self.connections.take_has_messages(conn) {
            self.manager.handle_io(conn, now);
            self.drain_manager(now);
        }
        let mut budget = READ_PIECE;
        while let Some(connection) = self.connections.get_mut(conn) {
            if !connection.is_readable() {
                self.connections.set_idle(conn);
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
                        if until.is_none_or(|until| until <= self.clock.now()) {
                            self.connections.set_busy(conn);
                            return;
                        }
                        budget = READ_PIECE;
                    }
                }
                Transfer::Nothing => return, // The core has to write, or to handle messages, first.
                Transfer::WouldBlock => {}
                Transfer::Closed(error) => {
                    self.close(conn, error.as_ref(), now);
                    return;
                }
            }
        }
    }

    fn close(&mut self, conn: ConnectionId, error: Option<&io::Error>, now: Time) {
        log::trace!("{conn}: closed: {}", cause(error));
        self.connections.remove(conn);
        self.manager
            .handle_input(manager::Input::Closed { conn }, now);
    }
}

/// The time after the beginning of a turn at which connections that were not served yet are left to
/// the next turn.
const SERVE_TIME: Duration = Duration::from_millis(2);

/// The least time for serving connections in one turn, however much time the watch has used.
const LEAST_SERVE_TIME: Duration = Duration::from_millis(1);

/// The time for reading one busy connection in one turn, so that the connection does not delay
/// other plugins.
const READ_TIME: Duration = Duration::from_millis(1);

/// The size of the pieces in which connections are read (bytes). A list of one device takes 20
/// bytes, and several microseconds if each list differs from the one before.
const READ_PIECE: usize = 2 * 1024;

/// Returns why a connection has ended.
fn cause(error: Option<&io::Error>) -> String {
    error.map_or_else(|| "the peer has closed it".to_owned(), io::Error::to_string)
}

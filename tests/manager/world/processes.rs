//! The processes behind the sockets, and those that are watched.

use std::path::Path;

use plugind::manager::{ConnectionId, Input};
use plugind::watch::Identity;

use super::World;

impl World {
    /// Watches the process of a plugin, if that is wanted, or its connection: a process that has
    /// ended cannot be watched.
    pub(super) fn watch_peer(&mut self, conn: ConnectionId) {
        let connection = self.connections.get(&conn).filter(|it| it.is_open);
        if let Some(connection) = connection.filter(|_| self.watches_processes) {
            self.watched_processes.insert(conn, connection.identity);
            let watched = Input::PeerWatched { conn };
            self.manager.handle_input(watched, self.now);
        }
    }

    /// Removes the socket at `path` and ends its process. Only the end of the process is reported
    /// yet.
    pub(crate) fn kill_and_remove(&mut self, path: &str) {
        let identity = self.sockets.remove(Path::new(path));
        let identity = identity.expect("it is a socket");
        let of_it = self
            .watched_processes
            .iter()
            .filter(|(_, watched)| **watched == identity);
        for conn in of_it.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.watched_processes.remove(&conn);
            let ended = Input::ProcessEnded { conn };
            self.manager.handle_input(ended, self.now);
        }
        self.run();
    }

    /// Ends every watched process; other processes answer in their place.
    pub(crate) fn lose_processes(&mut self) {
        for (conn, _) in std::mem::take(&mut self.watched_processes) {
            let ended = Input::ProcessEnded { conn };
            self.manager.handle_input(ended, self.now);
        }
        self.run();
    }

    /// Kills the process behind the socket at `path`, which leaves the socket behind.
    pub(crate) fn kill(&mut self, path: &str) {
        let Some(identity) = self.identity(Path::new(path)) else {
            return;
        };
        self.plugins.insert(identity, None);
        let of_it = |it: &Identity| *it == identity;
        let watched_processes: Vec<_> = self
            .watched_processes
            .iter()
            .filter(|(_, it)| of_it(it))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in watched_processes {
            self.watched_processes.remove(&conn);
            self.manager
                .handle_input(Input::ProcessEnded { conn }, self.now);
        }
        let connections: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, it)| of_it(&it.identity))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in connections {
            self.break_connection(conn);
        }
        self.run();
    }
}

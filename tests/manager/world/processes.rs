//! The processes behind the sockets, and those that are watched.

use std::collections::BTreeMap;
use std::path::Path;

use plugind::manager::{ConnectionEvent, ConnectionId, Input};
use plugind::watch::Identity;

use super::World;

impl World {
    /// Watches the process of a plugin, if that is wanted, or its connection: a process that has
    /// ended cannot be watched.
    pub(super) fn watch_peer(&mut self, conn: ConnectionId) {
        let connection = self.connections.get(&conn).filter(|it| it.is_open);
        if let Some(connection) = connection.filter(|_| self.watches_processes) {
            self.watched_processes.insert(conn, connection.identity);
            let watched = Input::Connection(conn, ConnectionEvent::Watched);
            self.manager.handle_input(watched, self.now);
        }
    }

    /// Removes the socket at `path` and ends its process. Only the end of the process is reported
    /// yet.
    pub(crate) fn kill_and_remove(&mut self, path: &str) {
        let identity = self.sockets.remove(Path::new(path));
        self.end_processes(identity.expect("it is a socket"));
        self.run();
    }

    /// Reports the end of the process behind a socket, if it is watched.
    fn end_processes(&mut self, identity: Identity) {
        let all = std::mem::take(&mut self.watched_processes).into_iter();
        let (ended, left): (BTreeMap<_, _>, _) = all.partition(|(_, it)| *it == identity);
        self.watched_processes = left;
        for conn in ended.into_keys() {
            let ended = Input::Connection(conn, ConnectionEvent::ProcessEnded);
            self.manager.handle_input(ended, self.now);
        }
    }

    /// Ends every watched process; other processes answer in their place.
    pub(crate) fn lose_processes(&mut self) {
        for (conn, _) in std::mem::take(&mut self.watched_processes) {
            let ended = Input::Connection(conn, ConnectionEvent::ProcessEnded);
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
        self.end_processes(identity);
        let of_it = |it: &&ConnectionId| self.connections[it].identity == identity;
        let connections: Vec<_> = self.connections.keys().filter(of_it).copied().collect();
        for conn in connections {
            self.break_connection(conn);
        }
        self.run();
    }
}

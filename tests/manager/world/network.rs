//! The connections of the world, and what is in flight on them.

use std::path::Path;
use std::sync::Arc;

use plugind::handler::DialError;
use plugind::http2::Endpoint as _;
use plugind::manager::{ConnectionEvent, ConnectionId, Input, Process};
use plugind::time::Time;
use plugind::watch::Identity;

use super::{Connection, Delivery, World};
use crate::script::Serving;

impl World {
    /// The type of the file systems that may not answer.
    pub(crate) const HUNG: &'static str = "fuse.hung";

    pub(super) fn send(&mut self, conn: ConnectionId, delivery: Delivery) {
        self.in_flight.entry(conn).or_default().push_back(delivery);
    }

    /// Returns the connections on which something is in flight.
    pub(crate) fn busy_connections(&self) -> Vec<ConnectionId> {
        self.in_flight.keys().copied().collect()
    }

    /// Returns the sockets that were dialed since the last call, and the time of each dial.
    pub(crate) fn take_dials(&mut self) -> Vec<(Identity, Time)> {
        std::mem::take(&mut self.dialed)
    }

    /// Returns the number of processes that are watched.
    pub(crate) fn watched_processes(&self) -> usize {
        self.watched_processes.len()
    }

    /// Returns the connections that the manager has not hung up.
    pub(crate) fn open_connections(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    /// Delivers what is in flight first on this connection.
    pub(crate) fn deliver(&mut self, conn: ConnectionId) {
        let Some(queue) = self.in_flight.get_mut(&conn) else {
            return;
        };
        let delivery = queue.pop_front();
        if queue.is_empty() {
            self.in_flight.remove(&conn);
        }
        match delivery {
            Some(Delivery::Dialed(path, wanted)) => self.dialed(conn, path, wanted),
            Some(Delivery::Bytes(bytes)) => self.receive(conn, &bytes),
            Some(Delivery::Close) => {
                let closed = Input::Connection(conn, ConnectionEvent::Closed);
                self.manager.handle_input(closed, self.now);
            }
            None => {}
        }
    }

    /// Delivers what is in flight, one after the other, until the operation at a path is in this
    /// state.
    pub(crate) fn deliver_until(&mut self, path: &str, state: &str) {
        while self.operation(Path::new(path)) != Some(state) {
            self.deliver(self.busy_connections()[0]);
            self.run();
        }
    }

    /// Splits what is in flight first on this connection in two at `at`, if that is possible.
    pub(crate) fn split(&mut self, conn: ConnectionId, at: usize) {
        let Some(queue) = self.in_flight.get_mut(&conn) else {
            return;
        };
        if let Some(Delivery::Bytes(bytes)) = queue.front_mut() {
            if at < bytes.len() {
                let rest = bytes.split_off(at);
                queue.insert(1, Delivery::Bytes(rest));
            }
        }
    }

    /// Closes the plugin's end of this connection.
    pub(crate) fn break_connection(&mut self, conn: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&conn).filter(|it| it.is_open) {
            connection.is_open = false;
            self.send(conn, Delivery::Close);
        }
    }

    /// Sends one more message on each open stream of the plugin behind the socket at `path`.
    pub(crate) fn push(&mut self, path: &str, message: &[u8]) {
        self.push_all(path, &[message]);
    }

    /// Sends several messages in one frame on each open stream of that plugin.
    pub(crate) fn push_all(&mut self, path: &str, messages: &[impl AsRef<[u8]>]) {
        self.write_to(path, |serving| serving.push(messages));
    }

    /// Sends the beginning of a message of 4 MiB on each open stream of that plugin.
    pub(crate) fn push_part(&mut self, path: &str, part: &[u8]) {
        self.write_to(path, |serving| serving.push_part(part));
    }

    /// Ends each open stream of the plugin behind the socket at `path` with this status.
    pub(crate) fn end_streams(&mut self, path: &str, code: u16) {
        self.write_to(path, |serving| serving.end(code));
    }

    fn write_to(&mut self, path: &str, write: impl Fn(&mut Serving) -> Vec<u8>) {
        let path = Path::new(path);
        let identity = self.identity(path);
        let of_it = |it: &(&ConnectionId, &mut Connection)| {
            it.1.is_open && (*it.1.path == *path || Some(it.1.identity) == identity)
        };
        let open = self.connections.iter_mut().filter(of_it);
        let written: Vec<_> = open
            .map(|(conn, it)| (*conn, write(&mut it.serving)))
            .collect();
        for (conn, bytes) in written {
            if !bytes.is_empty() {
                self.send(conn, Delivery::Bytes(bytes));
            }
        }
        self.run();
    }

    /// Closes the plugin's end of every connection to the socket at `path`.
    pub(crate) fn cut(&mut self, path: &str) {
        let of_it = |it: &&ConnectionId| *self.connections[it].path == *Path::new(path);
        let connections: Vec<_> = self.connections.keys().filter(of_it).copied().collect();
        for conn in connections {
            self.break_connection(conn);
        }
        self.run();
    }

    /// Returns the number of open connections to the socket at `path`.
    pub(crate) fn open_to(&self, path: &str) -> usize {
        let of_it = |it: &&Connection| it.is_open && *it.path == *Path::new(path);
        self.connections.values().filter(of_it).count()
    }

    pub(super) fn dialed(&mut self, conn: ConnectionId, path: Arc<Path>, wanted: Option<Identity>) {
        let connected = match (self.identity(&path), self.listener(&path)) {
            _ if !self.has_descriptors => Err(DialError::NoDescriptors),
            _ if !self.answers(&path) => Err(DialError::MayNotAnswer(Self::HUNG.to_owned())),
            (None, _) => Err(DialError::Gone),
            (Some(there), _) if wanted.is_some_and(|wanted| wanted != there) => {
                Err(DialError::Replaced)
            }
            (Some(_), None) => Err(DialError::Refused),
            (Some(identity), Some(plugin)) => Ok((identity, plugin.uid)),
        };
        let event = match connected {
            Err(error) => ConnectionEvent::DialFailed(error),
            Ok((identity, uid)) => {
                let connection = Connection {
                    path,
                    identity,
                    serving: Serving::default(),
                    is_open: true,
                };
                if !self.hung_up.contains(&conn) {
                    self.connections.insert(conn, connection);
                }
                ConnectionEvent::Connected(Some(Process { pid: None, uid }))
            }
        };
        let input = Input::Connection(conn, event);
        self.manager.handle_input(input, self.now);
    }

    pub(super) fn transmit(&mut self, conn: ConnectionId) {
        let Some(end) = self.manager.endpoint(conn) else {
            return;
        };
        let bytes = end.transmit().to_vec();
        end.sent(bytes.len(), self.now);
        self.manager.handle_io(conn, self.now);
        let Some(connection) = self.connections.get_mut(&conn).filter(|it| it.is_open) else {
            return;
        };
        let is_there = self.sockets.values().any(|it| *it == connection.identity);
        let plugin = self.plugins.get_mut(&connection.identity);
        let Some(plugin) = plugin.and_then(Option::as_mut).filter(|_| is_there) else {
            return;
        };
        let reaction = connection.serving.read(plugin, &bytes);
        connection.is_open = !reaction.close;
        if !reaction.write.is_empty() {
            self.send(conn, Delivery::Bytes(reaction.write));
        }
        if reaction.close {
            self.send(conn, Delivery::Close);
        }
    }

    pub(super) fn receive(&mut self, conn: ConnectionId, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = self.manager.endpoint(conn);
            let n = end.map_or(0, |end| end.receive_from(bytes, self.now));
            if n == 0 {
                return;
            }
            bytes = &bytes[n..];
            self.manager.handle_io(conn, self.now);
        }
    }
}

//! The dials of the plugin manager, and the processes behind the connections.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::PluginManager;
use crate::daemon::connection;
use crate::daemon::fs::dial::{dial_foreign, dial_within};
use crate::daemon::fs::stat::Stat;
use crate::escape;
use crate::handler::DialError;
use crate::manager::{self, ConnectionId, LivenessSource, Process};
use crate::watch::Identity;

impl PluginManager {
    /// Dials a socket, as the plugin manager has asked for, and adds the connection to the loop.
    pub(super) fn dial(
        &mut self,
        conn: ConnectionId,
        path: &Path,
        identity: Option<Identity>,
    ) -> Result<Option<Process>, DialError> {
        let device_plugins = self.device_plugins.as_ref();
        let within = device_plugins.map(|it| &**it.dir());
        let stream = match within.filter(|dir| identity.is_none() && path.parent() == Some(dir)) {
            Some(dir) => dial_within(dir, path, &self.mounts)?,
            None => dial_foreign(path, identity, &self.mounts)?,
        };
        let process = connection::process(&stream);
        if let Some(process) = &process {
            let (pid, uid) = (process.pid.unwrap_or_default(), process.uid);
            log::debug!(
                "{}: connected to the peer process pid={pid} uid={uid}",
                escape::path(path)
            );
        }
        let added = self.connections.add(conn, stream, self.poll.registry());
        added.map_err(|error| DialError::Other(error.to_string()))?;
        Ok(process)
    }

    /// Hands the socket at a path to the manager, as if a watched directory had it. Returns whether
    /// the file is a socket.
    pub(crate) fn find_socket(&mut self, path: &Arc<Path>) -> io::Result<bool> {
        let found = Stat::follow(path)?;
        if found.is_socket() {
            let above = path.parent().map(Path::to_owned);
            self.mounts.set_roots(above.as_slice());
            self.handle_input(manager::Input::Found {
                path: path.clone(),
                identity: found.identity,
            });
        }
        Ok(found.is_socket())
    }

    /// Connects to an endpoint as the manager does, and closes the connection.
    pub(crate) fn try_endpoint(&self, path: &Path) -> Result<(), DialError> {
        dial_foreign(path, None, &self.mounts).map(drop)
    }

    /// Watches the peer process of a connection, or the connection itself if that is impossible.
    pub(super) fn watch_peer(&mut self, conn: ConnectionId) -> LivenessSource {
        let Some(connection) = self.connections.get_mut(conn) else {
            return LivenessSource::Connection;
        };
        match self
            .peer_processes
            .add(conn, connection, self.poll.registry())
        {
            Ok(()) => LivenessSource::Process,
            Err(error) => {
                log::debug!(
                    "{conn}: cannot watch the peer process, watching the connection instead: \
                     {error}"
                );
                LivenessSource::Connection
            }
        }
    }
}

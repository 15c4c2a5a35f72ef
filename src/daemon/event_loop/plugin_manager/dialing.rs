//! Connects to sockets for the plugin manager, and watches the peer processes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use nix::sys::stat::SFlag;

use super::PluginManager;
use crate::config::Distrust;
use crate::daemon::connection;
use crate::daemon::fs::dial::{Opened, dial_foreign, dial_within};
use crate::daemon::fs::stat::Stat;
use crate::escape;
use crate::handler::DialError;
use crate::manager::{self, ConnectionId, Process};
use crate::watch::Identity;

impl PluginManager {
    /// Dials a socket, as the manager has requested, and adds the connection to the loop.
    /// `identity` is `None` for an endpoint. Returns the peer process, and the reasons why the
    /// socket is not trusted. In strict mode, an endpoint that is not trusted is refused: for its
    /// file before it is dialed, for its peer process afterwards. A registration socket is dialed
    /// nevertheless, so that its plugin can be notified.
    pub(super) fn dial(
        &mut self,
        conn: ConnectionId,
        path: &Path,
        identity: Option<Identity>,
    ) -> Result<(Option<Process>, Vec<Distrust>), DialError> {
        let is_refused = identity.is_none() && self.trust.is_strict();
        let mut found = Vec::new();
        let examine = &mut |socket: Option<&Opened>| {
            found = self.distrust_reasons(socket);
            match found.first() {
                Some(why) if is_refused => Err(DialError::Untrusted(why.clone())),
                _ => Ok(()),
            }
        };
        let stream = match self.device_plugins_dir() {
            Some(dir) if identity.is_none() && path.parent() == Some(dir) => {
                dial_within(dir, path, &self.mounts, examine)
            }
            _ => dial_foreign(path, identity, &self.mounts, examine),
        };
        // In strict mode the sandbox may have dropped CAP_DAC_OVERRIDE, so the kernel refuses to
        // connect to another user's socket with EACCES. The reason to report is that the socket is
        // not trusted.
        let stream = stream.map_err(|error| match found.first() {
            Some(why) if error == DialError::Denied && self.trust.is_strict() => {
                DialError::Untrusted(why.clone())
            }
            _ => error,
        })?;
        let process = connection::peer_process(&stream);
        let uid = process.map_or(u32::MAX, |process| process.uid);
        if let Err(why) = self.trust.check_user(uid) {
            if is_refused {
                return Err(DialError::Untrusted(why));
            }
            found.push(why);
        }
        if let Some(process) = &process {
            let pid = process.pid.unwrap_or_default();
            log::debug!(
                "{}: connected to the peer process pid={pid} uid={uid}",
                escape::path(path)
            );
        }
        let added = self.connections.add(conn, stream, self.poll.registry());
        added.map_err(|error| DialError::Other(error.to_string()))?;
        Ok((process, found))
    }

    /// Hands the socket at a path to the manager, as if it had been found in a watched directory.
    /// Returns whether the file is a socket.
    pub(crate) fn add_socket(&mut self, path: &Arc<Path>) -> io::Result<bool> {
        let found = Stat::of_path(path)?;
        let is_socket = found.file_type == SFlag::S_IFSOCK;
        if is_socket {
            let above = path.parent().map(Path::to_owned);
            self.mounts.set_roots(above.as_slice());
            self.handle_input(manager::Input::Found {
                path: path.clone(),
                identity: found.identity,
            });
        }
        Ok(is_socket)
    }

    /// Connects to an endpoint, whether or not it is trusted, and closes the connection.
    pub(crate) fn try_endpoint(&self, path: &Path) -> Result<(), DialError> {
        dial_foreign(path, None, &self.mounts, &mut |_| Ok(())).map(drop)
    }

    /// Watches the peer process of a connection. Returns whether the process is watched.
    pub(super) fn watch_peer(&mut self, conn: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(conn) else {
            return false;
        };
        let registry = self.poll.registry();
        let watched = self.peer_processes.add(conn, connection, registry);
        if let Err(error) = &watched {
            log::debug!(
                "{conn}: cannot watch the peer process, watching the connection instead: {error}"
            );
        }
        watched.is_ok()
    }
}

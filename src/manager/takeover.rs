//! Plugins that take over a name from a plugin of another user.
//!
//! Pure. Every process that may create sockets in a watched directory may register under any name,
//! and the newest plugin of a name is the one to use. In a rolling update the old and the new
//! plugin run as the same user, so another user is worth a warning.

use std::sync::Arc;

use super::Manager;
use super::actual::Registered;
use crate::escape;
use crate::handler::Plugin;

impl Manager {
    /// Records a plugin that leaves the actual state as the predecessor of the socket that is at
    /// its path already, whose plugin may take its name.
    pub(super) fn keep_predecessor(&mut self, left: &Registered) {
        let socket = self.desired.get_mut(&left.plugin.socket);
        if let (Some(socket), Some(process)) = (socket, left.health.process) {
            socket.predecessor = Some((left.plugin.clone(), process.uid));
        }
    }

    /// Warns if a plugin that was registered runs as another user than the plugin that had its
    /// name: that is `current`, or else `predecessor`, which was at the same path.
    pub(super) fn warn_of_takeover(
        &self,
        plugin: &Plugin,
        current: Option<Arc<Plugin>>,
        predecessor: Option<(Arc<Plugin>, u32)>,
    ) {
        let current = current.and_then(|it| self.uid_of(&it).map(|uid| (it, uid)));
        let at_path = predecessor.filter(|(before, _)| before.key() == plugin.key());
        let Some((before, old)) = current.or(at_path) else {
            return;
        };
        let Some(new) = self.uid_of(plugin) else {
            return;
        };
        if old != new {
            log::warn!(
                "{}: {plugin} takes the place of a plugin of another user; \
                 uid={new} previous-uid={old} previous-socket={}",
                escape::path(&plugin.socket),
                escape::path(&before.socket)
            );
        }
    }

    /// Returns the user ID of a registered plugin's process.
    fn uid_of(&self, plugin: &Plugin) -> Option<u32> {
        let process = self.actual.get(&plugin.socket)?.health.process?;
        Some(process.uid)
    }
}

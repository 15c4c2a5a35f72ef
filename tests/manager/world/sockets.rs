//! The sockets of the world, and what is reported of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plugind::manager::Input;
use plugind::watch::Identity;

use super::World;
use crate::script::{Answer, Script};

/// Returns the identity of the socket with this inode number.
pub(crate) fn identity(inode: u64) -> Identity {
    Identity {
        device: 1,
        inode,
        btime: 0,
    }
}

impl World {
    /// Creates a socket, with or without a plugin behind it, and reports it.
    pub(crate) fn appear(&mut self, path: &str, plugin: impl Into<Option<Script>>) -> Identity {
        let identity = self.create(path, plugin);
        self.notice(path);
        self.run();
        identity
    }

    /// Creates a socket, which is not reported yet.
    pub(crate) fn create(&mut self, path: &str, plugin: impl Into<Option<Script>>) -> Identity {
        self.last_inode += 1;
        let identity = identity(self.last_inode);
        self.plugins.insert(identity, plugin.into());
        self.sockets.insert(Path::new(path).into(), identity);
        identity
    }

    /// Makes another path lead to a socket, which is not reported yet.
    pub(crate) fn link(&mut self, from: &str, to: &str) {
        let identity = self.sockets[Path::new(from)];
        self.sockets.insert(Path::new(to).into(), identity);
    }

    /// Returns the socket at the path.
    pub(crate) fn identity(&self, path: &Path) -> Option<Identity> {
        self.sockets.get(path).copied()
    }

    /// Returns the plugin behind the socket at `path`, if a process listens there.
    pub(crate) fn script(&self, path: &str) -> Option<&Script> {
        self.listener(Path::new(path))
    }

    /// Returns whether a path is on file systems that answer.
    pub(crate) fn answers(&self, path: &Path) -> bool {
        let mut unanswering = self.unanswering.iter();
        !unanswering.any(|dir| path.starts_with(dir))
    }

    pub(super) fn listener(&self, path: &Path) -> Option<&Script> {
        let identity = self.sockets.get(path)?;
        self.plugins.get(identity)?.as_ref()
    }

    /// Reports what is at the path, as the watch does.
    pub(crate) fn notice(&mut self, path: &str) {
        let path: Arc<Path> = Path::new(path).into();
        let input = match self.identity(&path) {
            Some(identity) => Input::Found { path, identity },
            None => Input::Lost { path },
        };
        self.manager.handle_input(input, self.now);
    }

    /// Removes a socket, and reports its removal. Connections to the socket stay open.
    pub(crate) fn vanish(&mut self, path: &str) {
        self.remove(path);
        self.notice(path);
        self.run();
    }

    /// Removes a socket, which is not reported yet.
    pub(crate) fn remove(&mut self, path: &str) {
        self.sockets.remove(Path::new(path));
    }

    /// Moves the sockets at and below `from` to `to`, or removes them if `to` is `None`.
    pub(crate) fn rename(&mut self, from: &Path, to: Option<&Path>) {
        let all = std::mem::take(&mut self.sockets);
        let (moved, stay) = all
            .into_iter()
            .partition(|(path, _)| path.starts_with(from));
        self.sockets = stay;
        let moved: BTreeMap<Arc<Path>, Identity> = moved;
        let Some(to) = to else { return };
        for (path, listener) in moved {
            let rest = path.strip_prefix(from).expect("the path is below `from`");
            let path: PathBuf = to.iter().chain(rest).collect();
            self.sockets.insert(path.into(), listener);
        }
    }

    /// Returns the paths of all sockets.
    pub(crate) fn paths(&self) -> Vec<String> {
        let paths = self.sockets.keys().map(|path| path.to_str());
        paths
            .map(|path| path.expect("every path is text").to_owned())
            .collect()
    }

    /// Returns the last status that the plugin at the path received.
    pub(crate) fn notification_of(&self, path: &Path) -> Option<(bool, &str)> {
        self.listener(path)?.last_notified()
    }

    /// Makes the plugin behind the path do everything right from now on, or starts one if no
    /// process listens. Its services stay as they are. Returns whether it describes itself in
    /// another way than before.
    pub(crate) fn behave(&mut self, path: &str) -> bool {
        let identity = self.identity(Path::new(path));
        let Some(plugin) = identity.and_then(|it| self.plugins.get_mut(&it)) else {
            return false;
        };
        let before = plugin.as_ref().map(|plugin| plugin.info.clone());
        let good = match plugin.take() {
            None => Script::csi("late"),
            Some(before) => {
                let name = &before.info.name;
                let name = if name.is_empty() { "named" } else { name };
                let mut good = Script::csi(name);
                if !["CSIPlugin", "Unknown"].contains(&before.info.r#type.as_str()) {
                    good.info = before.info;
                    good.services = before.services;
                }
                good.notified = before.notified;
                good
            }
        };
        *plugin = Some(good);
        before != plugin.as_ref().map(|plugin| plugin.info.clone())
    }

    /// Returns the plugin behind the socket at `path`.
    pub(crate) fn plugin(&mut self, path: &str) -> &mut Script {
        let identity = self.identity(Path::new(path)).expect("it is a socket");
        let plugin = self.plugins.get_mut(&identity).and_then(Option::as_mut);
        plugin.expect("a process listens on the socket")
    }

    /// Has the plugin behind the socket at `path` answer another call so from now on.
    pub(crate) fn serve(&mut self, path: &str, method: &'static str, answer: Answer) {
        self.plugin(path).services.insert(method, answer);
    }

    /// Makes a plugin listen on the socket at `path`.
    pub(crate) fn listen(&mut self, path: &str, plugin: Script) {
        let identity = self.identity(Path::new(path)).expect("it is a socket");
        self.plugins.insert(identity, Some(plugin));
    }
}

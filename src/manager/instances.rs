//! Plugins of one type and name, side by side.
//!
//! Pure. A rolling update runs the new plugin beside the old one for a while, each with its own
//! sockets. The newest registered plugin is the one to use; the others are its fallbacks, in
//! reverse order of registration. A plugin that goes removes only itself.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::by_path::ByPath;
use crate::handler::{Plugin, line};

/// The registered plugins.
#[derive(Debug, Default)]
pub struct Instances {
    /// The plugins by name and type, and for each name the oldest first.
    plugins: Vec<Arc<Plugin>>,
    /// The sockets to retry when another plugin goes, each with the socket of that plugin.
    blocked: ByPath<Arc<Path>>,
}

/// The consequences of removing an instance.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    /// The instance to use from now on, if that has changed.
    pub(super) promoted: Option<Arc<Plugin>>,
    /// The sockets to retry because the instance has gone.
    pub(super) unblocked: Vec<Arc<Path>>,
}

impl Instances {
    /// Returns the instance to use for plugins of that type and name: the newest.
    pub fn current(&self, kind: &str, name: &str) -> Option<&Arc<Plugin>> {
        self.all(kind, name).last()
    }

    /// Returns every instance of that type and name, oldest first.
    pub fn all(&self, kind: &str, name: &str) -> &[Arc<Plugin>] {
        &self.plugins[self.range(kind, name)]
    }

    /// Adds a plugin as the newest instance of its name. Returns the one that was the newest
    /// before.
    pub(super) fn add(&mut self, plugin: Arc<Plugin>) -> Option<Arc<Plugin>> {
        let others = self.range(&plugin.kind, &plugin.name);
        let before = self.plugins[others.clone()].last().cloned();
        self.plugins.insert(others.end, plugin);
        before
    }

    /// Removes a plugin that is not registered any more.
    pub(super) fn remove(&mut self, plugin: &Plugin) -> Removed {
        let range = self.range(&plugin.kind, &plugin.name);
        let mut line = self.plugins[range.clone()].iter();
        let Some(place) = line.position(|it| it.has_socket_of(plugin)) else {
            return Removed::default();
        };
        let was_current = line.next().is_none();
        self.plugins.remove(range.start + place);
        let others = &self.plugins[range.start..range.end - 1];
        let promoted = others.last().filter(|_| was_current).cloned();
        Removed {
            promoted,
            unblocked: self.unblocked(&plugin.socket),
        }
    }

    /// Returns the sockets of the other plugins of the same type and name that have the same
    /// endpoint.
    pub(super) fn holders_of_endpoint(&self, plugin: &Plugin) -> impl Iterator<Item = &Arc<Path>> {
        let others = self.all(&plugin.kind, &plugin.name).iter();
        let holders = others.filter(|it| it.has_endpoint_of(plugin) && !it.has_socket_of(plugin));
        holders.map(|it| &it.socket)
    }

    /// Has `socket` retried when the plugin behind `holder` goes.
    pub(super) fn block(&mut self, socket: Arc<Path>, holder: Arc<Path>) {
        self.blocked.insert(socket, holder);
    }

    /// Forgets that `socket` is to be retried, because the socket has gone.
    pub(super) fn unblock(&mut self, socket: &Path) {
        self.blocked.remove(socket);
    }

    /// Removes and returns the sockets to retry when the plugin behind `holder` goes.
    pub(super) fn unblocked(&mut self, holder: &Path) -> Vec<Arc<Path>> {
        let blocked = self.blocked.iter();
        let by_it = blocked.filter(|(_, by)| by.as_os_str() == holder.as_os_str());
        let unblocked: Vec<_> = by_it.map(|(socket, _)| socket.clone()).collect();
        for socket in &unblocked {
            self.blocked.remove(socket);
        }
        unblocked
    }

    /// Returns the range of the plugins of that type and name; if there are none, where to insert
    /// one.
    fn range(&self, kind: &str, name: &str) -> Range<usize> {
        line(&self.plugins, |it| it.key().cmp(&(name, kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::pluginregistration::PluginInfo;

    fn plugin(socket: &str, endpoint: &str) -> Arc<Plugin> {
        let info = PluginInfo {
            name: "a".into(),
            endpoint: endpoint.into(),
            ..PluginInfo::default()
        };
        Arc::new(Plugin::from_info(info, Path::new(socket).into()).expect("it has a name"))
    }

    #[test]
    fn the_newest_is_the_one_to_use_and_the_one_before_it_is_promoted_when_it_goes() {
        let (old, new) = (plugin("/r/old", ""), plugin("/r/new", ""));
        let mut instances = Instances::default();
        instances.add(old.clone());
        instances.add(new.clone());
        assert_eq!(instances.current("", "a"), Some(&new));
        assert_eq!(instances.remove(&new).promoted, Some(old.clone()));
        assert_eq!(instances.current("", "a"), Some(&old));
        assert_eq!(instances.remove(&old).promoted, None);
        assert_eq!(instances.current("", "a"), None);
    }

    #[test]
    fn the_removal_of_a_replaced_one_changes_nothing_for_the_newest() {
        let (old, new) = (plugin("/r/old", ""), plugin("/r/new", ""));
        let mut instances = Instances::default();
        instances.add(old.clone());
        instances.add(new.clone());
        assert_eq!(instances.remove(&old).promoted, None);
        assert_eq!(instances.current("", "a"), Some(&new));
    }

    #[test]
    fn an_endpoint_has_one_holder_and_who_was_refused_for_it_hears_when_that_one_goes() {
        let holder = plugin("/r/old", "/p/a.sock");
        let late = plugin("/r/new", "/p/a.sock");
        let mut instances = Instances::default();
        let holders = |instances: &Instances, plugin| {
            let holders = instances.holders_of_endpoint(plugin);
            holders.cloned().collect::<Vec<_>>()
        };
        assert!(holders(&instances, &late).is_empty());
        instances.add(holder.clone());
        assert!(holders(&instances, &holder).is_empty());
        assert_eq!(
            holders(&instances, &late),
            std::slice::from_ref(&holder.socket)
        );
        instances.block(late.socket.clone(), holder.socket.clone());
        instances.block(Path::new("/r/gone").into(), holder.socket.clone());
        instances.unblock(Path::new("/r/gone"));
        let removed = instances.remove(&holder);
        assert!(removed.unblocked.into_iter().eq([late.socket.clone()]));
    }
}

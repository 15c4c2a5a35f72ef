//! What a handler knows of its plugins, for whoever wants to look.
//!
//! Pure. A handler is given away when it is put into its table; its store stays readable. Plugins
//! of one name live side by side, told apart by their registration sockets: the newest is the one
//! to use, the others are its fallback.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use litemap::LiteMap;

use super::Plugin;

/// What is known of each plugin. Clones show the same plugins.
///
/// It holds at most one entry for each registered plugin, and what one entry may grow to is its
/// handler's to limit.
#[derive(Debug)]
pub struct Store<T> {
    plugins: Arc<Mutex<Plugins<T>>>,
}

/// By name; of one name the oldest first, each with its registration socket.
type Plugins<T> = LiteMap<String, Vec<(Arc<Path>, T)>>;

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        let plugins = self.plugins.clone();
        Self { plugins }
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        let plugins = Arc::default();
        Self { plugins }
    }
}

impl<T: Clone> Store<T> {
    /// What is known of the plugin to use under that name.
    pub fn get(&self, name: &str) -> Option<T> {
        let plugins = self.lock();
        let (_, known) = plugins.get(name)?.last()?;
        Some(known.clone())
    }

    /// What is known of every plugin of that name, the one to use last.
    pub fn all(&self, name: &str) -> Vec<T> {
        let plugins = self.lock();
        let all = plugins.get(name).into_iter().flatten();
        all.map(|(_, known)| known.clone()).collect()
    }

    /// Every name that there is something to know about, sorted.
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}

impl<T> Store<T> {
    /// From now on this is known of the plugin: a new one is the one to use under its name.
    pub fn set(&self, plugin: &Plugin, known: T) {
        let mut plugins = self.lock();
        let line = plugins.entry(plugin.name.clone()).or_default();
        if let Some((_, before)) = line.iter_mut().find(|entry| is_about(entry, plugin)) {
            *before = known;
        } else {
            // Nearly every name has one plugin: no room is kept for others.
            line.reserve_exact(1);
            line.push((plugin.socket.clone(), known));
        }
    }

    /// Looks at what is known of the plugin, or changes it.
    pub fn with<R>(&self, plugin: &Plugin, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut plugins = self.lock();
        let line = plugins.get_mut(&plugin.name)?;
        let entry = line.iter_mut().find(|entry| is_about(entry, plugin));
        entry.map(|(_, known)| look(known))
    }

    /// Nothing is known of the plugin any more.
    pub fn remove(&self, plugin: &Plugin) -> Option<T> {
        let mut plugins = self.lock();
        let line = plugins.get_mut(&plugin.name)?;
        let place = line.iter().position(|entry| is_about(entry, plugin))?;
        let (_, known) = line.remove(place);
        if line.is_empty() {
            plugins.remove(&plugin.name);
        }
        Some(known)
    }

    /// The plugin is the one to use under its name from now on.
    pub fn promote(&self, plugin: &Plugin) {
        let mut plugins = self.lock();
        let Some(line) = plugins.get_mut(&plugin.name) else {
            return;
        };
        if let Some(place) = line.iter().position(|entry| is_about(entry, plugin)) {
            line[place..].rotate_left(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Plugins<T>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_about<T>((socket, _): &(Arc<Path>, T), plugin: &Plugin) -> bool {
    *socket == plugin.socket
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::pluginregistration::PluginInfo;

    fn plugin(socket: &str) -> Plugin {
        let info = PluginInfo {
            name: "a".into(),
            ..PluginInfo::default()
        };
        Plugin::from_info(info, Path::new(socket).into()).expect("it has a name")
    }

    #[test]
    fn csi3_a_driver_is_absent_then_set_then_present_then_deleted_then_absent() {
        let store = Store::default();
        assert_eq!(store.get("a"), None);
        store.set(&plugin("/r/a"), 1);
        assert_eq!(store.get("a"), Some(1));
        assert_eq!(store.remove(&plugin("/r/a")), Some(1));
        assert_eq!(store.get("a"), None);
        assert_eq!(store.names(), [""; 0]);
    }

    #[test]
    fn the_newest_of_a_name_is_the_one_to_use_until_another_is_promoted() {
        let store = Store::default();
        for (socket, known) in [("/r/a", 1), ("/r/b", 2), ("/r/c", 3)] {
            store.set(&plugin(socket), known);
        }
        assert_eq!(store.get("a"), Some(3));
        store.set(&plugin("/r/a"), 10);
        assert_eq!(store.all("a"), [10, 2, 3], "what is known keeps its place");
        store.promote(&plugin("/r/a"));
        assert_eq!(store.all("a"), [2, 3, 10]);
        store.promote(&plugin("/r/gone"));
        assert_eq!(store.remove(&plugin("/r/a")), Some(10));
        assert_eq!(store.get("a"), Some(3));
    }

    #[test]
    fn a_clone_shows_what_the_handler_changes() {
        let store = Store::default();
        let reader = store.clone();
        store.set(&plugin("/r/a"), 1);
        assert_eq!(store.with(&plugin("/r/a"), |known| *known += 1), Some(()));
        assert_eq!(store.with(&plugin("/r/b"), |known| *known += 1), None);
        assert_eq!(reader.get("a"), Some(2));
    }
}

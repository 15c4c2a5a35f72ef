//! The data that a handler keeps about its plugins, readable from outside.
//!
//! A handler is given away when it is put into its table; its store stays readable. Plugins of one
//! name coexist, distinguished by their registration sockets: the newest is current, and the others
//! are its fallback.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::plugin::Plugin;

/// The entries of plugins: a `T` for each, which names its plugin. Clones share the same entries.
///
/// The store holds at most one entry for each registered plugin; the handler has to limit the size
/// of an entry. A reader receives an entry as it is at that moment.
#[derive(Debug)]
pub struct Store<T> {
    /// The entries of each name, from the oldest to the current one.
    by_name: Arc<Mutex<ByName<T>>>,
}

type ByName<T> = BTreeMap<String, SmallVec<[Arc<T>; 1]>>;

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        let by_name = self.by_name.clone();
        Self { by_name }
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        let by_name = Arc::default();
        Self { by_name }
    }
}

impl<T: AsRef<Plugin>> Store<T> {
    /// Returns the entry of the current plugin of that name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.lock().get(name)?.last().cloned()
    }

    /// Returns the entries of all plugins of that name, the current one last.
    pub fn all(&self, name: &str) -> Vec<Arc<T>> {
        self.lock()
            .get(name)
            .map_or_else(Vec::new, |all| all.to_vec())
    }

    /// Returns the names of all entries, sorted.
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Sets the entry of its plugin. A new plugin becomes the current one of its name.
    pub fn set(&self, known: impl Into<Arc<T>>) {
        let known = known.into();
        let plugin = T::as_ref(&known);
        let mut by_name = self.lock();
        let entries = by_name.entry(plugin.name.clone()).or_default();
        match place(entries, plugin) {
            Some(place) => entries[place] = known,
            None => entries.push(known),
        }
    }

    /// Calls `look` with the entry of the plugin, which it may change: copies that readers hold
    /// stay as they are. Returns its result, or `None` if the plugin has none.
    pub fn with<R>(&self, plugin: &Plugin, look: impl FnOnce(&mut T) -> R) -> Option<R>
    where
        T: Clone,
    {
        let mut by_name = self.lock();
        let entries = by_name.get_mut(&plugin.name)?;
        // planted: a list of devices is kept for the newest plugin of its name
        let place = place(entries, plugin)?;
        Some(look(Arc::make_mut(&mut entries[place])))
    }

    /// Removes the entry of the plugin, and returns it.
    pub fn remove(&self, plugin: &Plugin) -> Option<Arc<T>> {
        let mut by_name = self.lock();
        let entries = by_name.get_mut(&plugin.name)?;
        let removed = entries.remove(place(entries, plugin)?);
        if entries.is_empty() {
            by_name.remove(&plugin.name);
        }
        Some(removed)
    }

    /// Makes the plugin the current one of its name.
    pub fn promote(&self, plugin: &Plugin) {
        if let Some(entries) = self.lock().get_mut(&plugin.name) {
            if let Some(place) = place(entries, plugin) {
                entries[place..].rotate_left(1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ByName<T>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the place of the plugin's entry.
fn place<T: AsRef<Plugin>>(entries: &[Arc<T>], plugin: &Plugin) -> Option<usize> {
    let is_its = |it: &Arc<T>| T::as_ref(it).has_socket_of(plugin);
    entries.iter().position(is_its)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::proto::pluginregistration::PluginInfo;

    /// A plugin, and a number as its entry.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Known(Plugin, u32);

    impl AsRef<Plugin> for Known {
        fn as_ref(&self) -> &Plugin {
            &self.0
        }
    }

    fn plugin(socket: &str) -> Plugin {
        named("a", socket)
    }

    fn named(name: &str, socket: &str) -> Plugin {
        let info = PluginInfo {
            name: name.into(),
            ..PluginInfo::default()
        };
        Plugin::from_info(info, Path::new(socket).into()).expect("it has a name")
    }

    /// Returns the numbers of that name, the current one last.
    fn numbers(store: &Store<Known>, name: &str) -> Vec<u32> {
        let all = store.all(name);
        assert_eq!(store.get(name), all.last().cloned());
        all.iter().map(|known| known.1).collect()
    }

    #[test]
    fn csi3_a_driver_is_absent_then_set_then_present_then_deleted() {
        let store = Store::default();
        assert_eq!(numbers(&store, "a"), [0; 0]);
        store.set(Known(plugin("/r/a"), 1));
        assert_eq!(numbers(&store, "a"), [1]);
        assert_eq!(store.remove(&plugin("/r/a")).map(|known| known.1), Some(1));
        assert_eq!(numbers(&store, "a"), [0; 0]);
        assert_eq!(store.names(), [""; 0]);
    }

    #[test]
    fn the_newest_of_a_name_is_the_one_to_use() {
        let store = Store::default();
        store.set(Known(named("b", "/r/d"), 4));
        for (socket, known) in [("/r/a", 1), ("/r/b", 2), ("/r/c", 3)] {
            store.set(Known(plugin(socket), known));
        }
        store.set(Known(named("0", "/r/e"), 5));
        assert_eq!(store.names(), ["0", "a", "b"]);
        store.set(Known(plugin("/r/a"), 10));
        assert_eq!(numbers(&store, "a"), [10, 2, 3], "it keeps its place");
        store.promote(&plugin("/r/a"));
        assert_eq!(numbers(&store, "a"), [2, 3, 10]);
        store.promote(&plugin("/r/gone"));
        assert_eq!(store.remove(&plugin("/r/a")).map(|known| known.1), Some(10));
        assert_eq!(numbers(&store, "a"), [2, 3]);
        assert_eq!(
            (numbers(&store, "0"), numbers(&store, "b")),
            (vec![5], vec![4])
        );
    }

    #[test]
    fn a_clone_shows_what_the_handler_changes() {
        let store = Store::default();
        let reader = store.clone();
        store.set(Known(plugin("/r/a"), 1));
        let seen = reader.get("a").expect("it was set");
        assert_eq!(store.with(&plugin("/r/a"), |known| known.1 += 1), Some(()));
        assert_eq!(store.with(&plugin("/r/b"), |known| known.1 += 1), None);
        assert_eq!((numbers(&reader, "a"), seen.1), (vec![2], 1));
    }
}

//! The data that a handler keeps about its plugins, readable from outside of the handler.
//!
//! A handler is moved into its table, but its store stays readable through a clone. Plugins of one
//! name can coexist, distinguished by their registration sockets: the newest is current, and the
//! others are its fallbacks.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::plugin::Plugin;

/// One entry of type `T` for each plugin; `AsRef` returns the plugin of an entry. Clones share the
/// same entries.
///
/// The handler has to limit the size of an entry. A reader receives a snapshot of an entry.
#[derive(Debug)]
pub struct Store<T> {
    /// Sorted by name; of the entries of one name, the current one is the last.
    entries: Arc<Mutex<Vec<Arc<T>>>>,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        let entries = self.entries.clone();
        Self { entries }
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        let entries = Arc::default();
        Self { entries }
    }
}

impl<T: AsRef<Plugin>> Store<T> {
    /// Returns the entry of the current plugin of that name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        let entries = self.lock();
        entries[range_of_name(&entries, name)].last().cloned()
    }

    /// Returns the entries of all plugins of that name, the current one last.
    pub fn all(&self, name: &str) -> Vec<Arc<T>> {
        let entries = self.lock();
        entries[range_of_name(&entries, name)].to_vec()
    }

    /// Returns the names of all entries, sorted, each once.
    pub fn names(&self) -> Vec<String> {
        let entries = self.lock();
        let names = entries.iter().map(|it| T::as_ref(it).name.clone());
        let mut names: Vec<String> = names.collect();
        names.dedup();
        names
    }

    /// Adds an entry, or replaces the one of the same plugin. A new plugin becomes the current one
    /// of its name.
    pub fn set(&self, known: impl Into<Arc<T>>) {
        let known = known.into();
        let plugin = T::as_ref(&known);
        let mut entries = self.lock();
        if let Some(index) = index_of(&entries, plugin) {
            entries[index] = known;
        } else {
            let end = range_of_name(&entries, &plugin.name).end;
            entries.insert(end, known);
        }
    }

    /// Calls `look` with the entry of the plugin. `look` may change the entry; the snapshots that
    /// readers hold stay unchanged. Returns the result of `look`, or `None` if the plugin has no
    /// entry.
    pub fn with<R>(&self, plugin: &Plugin, look: impl FnOnce(&mut T) -> R) -> Option<R>
    where
        T: Clone,
    {
        let mut entries = self.lock();
        // mutation: a list of devices is kept for the newest plugin of its name
        let index = index_of(&entries, plugin)?;
        Some(look(Arc::make_mut(&mut entries[index])))
    }

    /// Removes the entry of the plugin, and returns it.
    pub fn remove(&self, plugin: &Plugin) -> Option<Arc<T>> {
        let mut entries = self.lock();
        let index = index_of(&entries, plugin)?;
        Some(entries.remove(index))
    }

    /// Makes the plugin the current one of its name.
    pub fn promote(&self, plugin: &Plugin) {
        let mut entries = self.lock();
        if let Some(index) = index_of(&entries, plugin) {
            let end = range_of_name(&entries, &plugin.name).end;
            entries[index..end].rotate_left(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the range of the entries of a name.
fn range_of_name<T: AsRef<Plugin>>(entries: &[Arc<T>], name: &str) -> Range<usize> {
    let start = entries.partition_point(|it| *T::as_ref(it).name < *name);
    let of_name = entries[start..].partition_point(|it| T::as_ref(it).name == name);
    start..start + of_name
}

/// Returns the index of the plugin's entry.
fn index_of<T: AsRef<Plugin>>(entries: &[Arc<T>], plugin: &Plugin) -> Option<usize> {
    let is_its = |index: &usize| T::as_ref(&entries[*index]).has_socket_of(plugin);
    range_of_name(entries, &plugin.name).find(is_its)
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

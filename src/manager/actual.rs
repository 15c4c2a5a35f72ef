//! The plugins that the handlers know about: the actual state of the world.
//!
//! Pure. A plugin enters it before its handler registers the plugin, so that a removal in the
//! meantime becomes a deregistration, and leaves it before its handler deregisters the plugin.

use std::path::Path;
use std::sync::Arc;

use super::by_path::ByPath;
use super::desired::EmptyPath;
use super::liveness::Health;
use crate::handler::Plugin;
use crate::watch::Identity;

/// Every plugin that a handler knows about, by the path of its registration socket.
#[derive(Debug, Default)]
pub struct Actual {
    plugins: ByPath<Registered>,
    /// The number of changes so far.
    revision: u64,
}

/// A plugin that a handler knows about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The socket on which the plugin described itself.
    pub identity: Identity,
    /// The plugin, as it described itself.
    pub plugin: Arc<Plugin>,
    /// Whether the plugin is up, as far as is known.
    pub health: Health,
}

impl Actual {
    /// Adds a plugin that is about to be registered. Replaces the entry under its path.
    pub fn add(&mut self, plugin: Arc<Plugin>, identity: Identity) -> Result<(), EmptyPath> {
        if plugin.socket.as_os_str().is_empty() {
            return Err(EmptyPath);
        }
        let path = plugin.socket.clone();
        let registered = Registered {
            identity,
            plugin,
            health: Health::default(),
        };
        self.plugins.insert(path, registered);
        self.revision += 1;
        Ok(())
    }

    /// Removes and returns the plugin behind `path`, which is about to be deregistered.
    pub fn remove(&mut self, path: &Path) -> Option<Registered> {
        let removed = self.plugins.remove(path)?;
        self.revision += 1;
        Some(removed)
    }

    /// Returns the plugin behind `path`.
    pub fn get(&self, path: &Path) -> Option<&Registered> {
        self.plugins.get(path)
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut Registered> {
        self.plugins.get_mut(path)
    }

    /// Returns whether the plugin of exactly this socket is known, not of another under the same
    /// path.
    pub fn holds(&self, path: &Path, identity: Identity) -> bool {
        self.get(path)
            .is_some_and(|registered| registered.identity == identity)
    }

    /// Returns a number that changes whenever a plugin is added or removed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns every plugin and the path of its registration socket, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Path>, &Registered)> {
        self.plugins.iter()
    }

    /// Returns the number of plugins.
    pub fn len(&self) -> usize {
        self.plugins.len()
    }

    /// Returns whether no plugin is known.
    pub fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::proto::pluginregistration::PluginInfo;

    #[test]
    fn no_revision_repeats_whatever_comes_and_goes() {
        let identity = Identity {
            device: 1,
            inode: 1,
            born: (0, 0),
        };
        let path = Path::new("/r/a.sock");
        let plugin = Arc::new(Plugin::unchecked(PluginInfo::default(), path.into()));
        let mut actual = Actual::default();
        let mut seen = BTreeSet::from([actual.revision()]);
        for _ in 0..3 {
            actual.add(plugin.clone(), identity).unwrap();
            assert!(seen.insert(actual.revision()), "a plugin came");
            actual.add(plugin.clone(), identity).unwrap();
            assert!(seen.insert(actual.revision()), "another one took its place");
            assert!(actual.remove(path).is_some());
            assert!(seen.insert(actual.revision()), "a plugin went");
            let before = actual.revision();
            assert!(actual.remove(path).is_none());
            assert_eq!(actual.revision(), before, "nothing changed");
        }
    }
}

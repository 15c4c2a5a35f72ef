//! Sockets to which several paths lead: hard links and symbolic links to one socket.
//!
//! Pure. One socket is one plugin, however many paths lead to it. The socket is known under one of
//! them, its key, and is dialled and registered through that path alone. The other paths are its
//! aliases, which are neither dialled nor reported to handlers.
//!
//! - Until the first attempt on a socket fails or is committed, a better path becomes its key,
//!   once: the socket itself is better than a symbolic link to it, and a path with fewer components
//!   than a longer one.
//! - When the key is removed, the best alias becomes the key: the socket was renamed. However, a
//!   plugin that is registered or being registered, and is up, keeps its key if another path has
//!   led to the socket for [`RENAME_TIME`] or longer: handlers, programs and the state file know
//!   the plugin by its key. From then on the key is only a name, and the best alias is dialled
//!   instead.
//! - When a new socket takes the key, the plugin of the first one is deregistered, as without
//!   aliases. The first socket is then found again under its best alias and waits for its backoff,
//!   so that the plugin that was restarted goes first.
//! - A plugin whose key was removed and that does not answer has ended, and is deregistered
//!   whatever the on-down policy is.

use std::path::Path;
use std::sync::Arc;

use super::Manager;
use super::desired::Desired;
use super::event::{EventKind, PluginEvent};
use super::messages::Output;
use super::state::State;
use crate::by_path::{ByPath, Octets, octets};
use crate::config::RENAME_TIME;
use crate::escape;
use crate::handler::Plugin;
use crate::sorted_map::SortedMap;
use crate::time::Time;
use crate::watch::Identity;

/// The sockets that have, or had, aliases.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    paths: SortedMap<Identity, Paths>,
    /// The socket that each alias leads to.
    identities: ByPath<Identity>,
}

/// The paths that lead to one socket. They are kept until the last one is lost, so that a link that
/// is made and removed all the time does not have its socket searched for each time.
#[derive(Debug)]
struct Paths {
    /// The path under which the socket is known.
    key: Arc<Path>,
    /// Whether that path still leads to the socket.
    is_at_key: bool,
    /// Whether the socket was known under another path before.
    is_renamed: bool,
    /// All other paths, the best one first.
    aliases: Vec<Alias>,
}

/// A path that leads to a socket. The better of two is the smaller one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alias {
    is_link: bool,
    depth: usize,
    path: Arc<Path>,
    since: Time,
}

impl Alias {
    fn new(path: Arc<Path>, is_link: bool, since: Time) -> Self {
        Self {
            is_link,
            depth: path.components().count(),
            path,
            since,
        }
    }
}

impl Aliases {
    fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns the path that leads to a socket, if its key does not.
    pub(super) fn alternative(&self, identity: Identity) -> Option<&Arc<Path>> {
        if self.is_empty() {
            return None;
        }
        let paths = self.paths.get(&identity).filter(|it| !it.is_at_key)?;
        paths.aliases.first().map(|alias| &alias.path)
    }

    /// Returns the path that leads to the socket known under a path, if that path does not.
    pub(super) fn alternative_for_key(&self, key: &Path) -> Option<&Arc<Path>> {
        let mut paths = self.paths.values();
        let paths = paths.find(|it| !it.is_at_key && it.key.as_os_str() == key.as_os_str())?;
        paths.aliases.first().map(|alias| &alias.path)
    }

    /// Returns the path under which the socket is known to which an alias leads.
    fn key_of_alias(&self, path: &Path) -> Option<&Arc<Path>> {
        let identity = self.identities.get(octets(path))?;
        self.paths.get(identity).map(|paths| &paths.key)
    }

    fn add(&mut self, identity: Identity, alias: Alias) {
        let Some(paths) = self.paths.get_mut(&identity) else {
            return;
        };
        self.identities.insert(Octets(alias.path.clone()), identity);
        let index = paths.aliases.partition_point(|it| *it < alias);
        paths.aliases.insert(index, alias);
    }

    /// Removes an alias. Returns the key of its socket if it was the last path to that socket.
    fn remove(&mut self, path: &Path, identity: Identity) -> Option<Arc<Path>> {
        self.identities.remove(octets(path));
        let paths = self.paths.get_mut(&identity)?;
        let is_this = |it: &Alias| it.path.as_os_str() == path.as_os_str();
        paths.aliases.retain(|it| !is_this(it));
        if paths.is_at_key || !paths.aliases.is_empty() {
            return None;
        }
        self.paths.remove(&identity).map(|paths| paths.key)
    }

    /// Removes and returns the best alias of a socket.
    fn take_best(&mut self, identity: Identity) -> Option<Alias> {
        let paths = self.paths.get_mut(&identity)?;
        let best = (!paths.aliases.is_empty()).then(|| paths.aliases.remove(0))?;
        self.identities.remove(octets(&best.path));
        Some(best)
    }

    fn set_key(&mut self, identity: Identity, key: Arc<Path>) {
        if let Some(paths) = self.paths.get_mut(&identity) {
            (paths.key, paths.is_at_key, paths.is_renamed) = (key, true, true);
        }
    }
}

impl Manager {
    /// Returns a path that leads to the socket known under `path`: `path` itself or, if it was
    /// removed, an alias. Returns `None` if no socket is known under `path`.
    pub fn dial_path(&self, path: &Path) -> Option<Arc<Path>> {
        let socket = self.sockets.at(path)?;
        let identity = socket.desired.as_ref()?.identity;
        let alternative = self.context.aliases.alternative(identity);
        Some(alternative.unwrap_or(&socket.path).clone())
    }

    /// Returns whether a plugin is registered through the socket that is known under this path, or
    /// to which this path leads.
    pub fn is_registered_at(&self, path: &Path) -> bool {
        let key = self.context.aliases.key_of_alias(path);
        let socket = self.sockets.at(key.map_or(path, |key| key));
        socket.is_some_and(|socket| socket.registered.is_some())
    }

    /// Processes a socket that was found, to which no other known path leads.
    pub(super) fn found(&mut self, path: &Arc<Path>, identity: Identity, is_link: bool) {
        if self.context.aliases.is_empty() {
            return self.found_socket(path, identity, is_link);
        }
        self.lose_alias(path);
        let before = self.sockets.desired_at(path).map(|it| it.identity);
        self.found_socket(path, identity, is_link);
        if let Some(before) = before.filter(|before| *before != identity) {
            self.leave_behind(before);
        }
    }

    fn found_socket(&mut self, path: &Arc<Path>, identity: Identity, is_link: bool) {
        let context = &mut self.context;
        self.departed.forgive_path(path, context);
        self.sockets.found(path, identity, is_link, context);
    }

    /// Processes another path to a socket that was found.
    pub(super) fn found_alias(&mut self, path: &Arc<Path>, identity: Identity, is_link: bool) {
        self.lose_alias(path);
        match self.sockets.desired_at(path).map(|it| it.identity) {
            Some(current) if current == identity => {
                if let Some(paths) = self.context.aliases.paths.get_mut(&identity) {
                    paths.is_at_key = true;
                }
                return;
            }
            Some(other) if self.context.aliases.alternative(other).is_none() => self.lost(path),
            _ => {}
        }
        let Some(key) = self.key_of(identity) else {
            return self.found(path, identity, is_link);
        };
        log::debug!(
            "{}: is another name for {}",
            escape::path(path),
            escape::path(&key)
        );
        let restored = self
            .sockets
            .take_restored(path, identity, &mut self.context);
        let is_free = self.sockets.desired_at(path).is_none() && self.may_rename(&key, identity);
        let alias = Alias::new(path.clone(), is_link, self.context.now);
        if is_free && (restored.is_some() || self.is_better(&alias, &key)) {
            return self.rename(identity, &key, &alias, restored);
        }
        self.context.aliases.add(identity, alias);
        if let Some(restored) = restored {
            // It was registered through this path before a restart.
            let context = &mut self.context;
            self.sockets
                .deregister_restored(restored, identity, context);
        }
    }

    /// Processes a path that does not lead to a socket any more.
    pub(super) fn lost(&mut self, path: &Arc<Path>) {
        if self.context.aliases.is_empty() || !self.lose_path(path) {
            self.sockets.lost(path, &mut self.context);
        }
    }

    /// Removes one of several paths of a socket. Returns false if the path is not one of several.
    fn lose_path(&mut self, path: &Arc<Path>) -> bool {
        if self.lose_alias(path) {
            return true;
        }
        let Some(identity) = self.sockets.desired_at(path).map(|it| it.identity) else {
            return false;
        };
        let Some(paths) = self.context.aliases.paths.get_mut(&identity) else {
            return false;
        };
        if !std::mem::replace(&mut paths.is_at_key, false) {
            return true; // The key was removed before.
        }
        let Some(best) = paths.aliases.first().cloned() else {
            self.context.aliases.paths.remove(&identity);
            return false;
        };
        let now = self.context.now;
        let is_new = |alias: &Alias| now < alias.since + RENAME_TIME;
        let is_renamed = paths.aliases.iter().all(is_new);
        let registered = self.sockets.at(path).and_then(|it| it.registered.as_ref());
        let registered = registered.filter(|it| it.identity == identity);
        let is_up = registered.is_some_and(|it| it.health.down_since().is_none());
        if is_renamed || !is_up {
            self.context.aliases.take_best(identity);
            self.context.aliases.set_key(identity, best.path.clone());
            self.sockets.lost(path, &mut self.context);
            self.examine_link(&best);
            self.found(&best.path, identity, best.is_link);
            return true;
        }
        // While the plugin is being registered, its registration is yet to be reported.
        let state = self
            .sockets
            .at(path)
            .map_or_else(State::default, |socket| socket.summary().state);
        if let (Some(registered), State::Registered) = (registered, state) {
            let alias = best.path.clone();
            let renamed = EventKind::SocketRenamed { alias };
            let event = PluginEvent::of_plugin(&registered.plugin, renamed);
            self.context.emit(event);
        }
        self.examine_link(&best);
        true
    }

    /// Has a symbolic link examined again: it may lead to the path that was removed, or to another
    /// socket by now, and the kernel reports no event for that.
    fn examine_link(&mut self, alias: &Alias) {
        if alias.is_link {
            self.examine(alias.path.clone());
        }
    }

    fn examine(&mut self, path: Arc<Path>) {
        self.context.outputs.push_back(Output::Examine { path });
    }

    /// Removes a path if it is an alias, and its socket if that was the last path. Returns whether
    /// the path is an alias.
    fn lose_alias(&mut self, path: &Path) -> bool {
        let Some(identity) = self.context.aliases.identities.get(octets(path)).copied() else {
            return false;
        };
        let alternative = self.context.aliases.alternative(identity);
        let was_dialled = alternative.is_some_and(|it| **it == *path);
        if let Some(key) = self.context.aliases.remove(path, identity) {
            self.sockets.lost(&key, &mut self.context);
            return true;
        }
        // The path through which the socket is dialled may lead to the one that was removed.
        let Some(paths) = self.context.aliases.paths.get(&identity) else {
            return true;
        };
        if was_dialled {
            if let Some(next) = paths.aliases.first().cloned() {
                self.examine_link(&next);
            }
        } else if paths.is_at_key {
            let key = paths.key.clone();
            if self.sockets.desired_at(&key).is_some_and(|it| it.is_link) {
                self.examine(key);
            }
        }
        true
    }

    /// Finds a socket again under its best alias, because another socket has taken its key or the
    /// key was given up.
    fn leave_behind(&mut self, identity: Identity) {
        let Some(best) = self.context.aliases.take_best(identity) else {
            self.context.aliases.paths.remove(&identity);
            return;
        };
        let path = best.path.clone();
        self.context.aliases.set_key(identity, path.clone());
        self.examine_link(&best);
        self.found(&path, identity, best.is_link);
        self.sockets.back_off(&path, self.context.now);
    }

    /// Deregisters a plugin that has ended after its key was removed, and finds its socket again
    /// under the best alias.
    pub(super) fn give_up_key(&mut self, key: &Arc<Path>, identity: Identity) {
        if self.sockets.desired_at(key).map(|it| it.identity) != Some(identity) {
            return; // Another socket has taken the key meanwhile.
        }
        self.sockets.lost(key, &mut self.context);
        self.leave_behind(identity);
    }

    /// Asserts what must hold whenever the manager is at rest.
    pub(super) fn check_aliases(&self) {
        let mut count = 0;
        for (identity, paths) in self.context.aliases.paths.iter() {
            let socket = self.sockets.desired_at(&paths.key).map(|it| it.identity);
            assert_eq!(socket, Some(*identity), "{paths:?}");
            assert!(paths.is_at_key || !paths.aliases.is_empty(), "{paths:?}");
            assert!(paths.aliases.is_sorted(), "{paths:?}");
            for alias in &paths.aliases {
                let of = self.context.aliases.identities.get(octets(&alias.path));
                assert_eq!(of, Some(identity), "{alias:?}");
            }
            count += paths.aliases.len();
        }
        assert_eq!(count, self.context.aliases.identities.len());
    }

    /// Returns the key of a socket, and starts to keep the paths of the socket.
    fn key_of(&mut self, identity: Identity) -> Option<Arc<Path>> {
        if let Some(paths) = self.context.aliases.paths.get(&identity) {
            return Some(paths.key.clone());
        }
        let has_identity = |desired: &Desired| desired.identity == identity;
        let mut sockets = self.sockets.iter();
        let socket = sockets.find(|it| it.desired.as_ref().is_some_and(has_identity))?;
        let key = socket.path.clone();
        let paths = Paths {
            key: key.clone(),
            is_at_key: true,
            is_renamed: false,
            aliases: Vec::new(),
        };
        self.context.aliases.paths.insert(identity, paths);
        Some(key)
    }

    /// Returns whether a socket may get another key: no attempt on it has failed or is committed
    /// yet, and its key is the path under which it was found.
    fn may_rename(&self, key: &Path, identity: Identity) -> bool {
        let paths = self.context.aliases.paths.get(&identity);
        let Some(socket) = self.sockets.at(key) else {
            return false;
        };
        let is_new = socket.desired.as_ref().is_some_and(|it| {
            it.attempts <= 1 && it.last_failure.is_none() && it.restored.is_none()
        });
        is_new
            && paths.is_some_and(|paths| paths.is_at_key && !paths.is_renamed)
            && !socket.is_committed()
            && socket.registered.is_none()
    }

    fn is_better(&self, alias: &Alias, key: &Arc<Path>) -> bool {
        let is_link = self.sockets.desired_at(key).is_some_and(|it| it.is_link);
        *alias < Alias::new(key.clone(), is_link, alias.since)
    }

    /// Makes an alias the key of a socket, and its key an alias. Exactly the plugin `restored` was
    /// registered through the alias before a restart.
    fn rename(
        &mut self,
        identity: Identity,
        key: &Arc<Path>,
        alias: &Alias,
        restored: Option<Arc<Plugin>>,
    ) {
        let now = self.context.now;
        let was_link = self.sockets.desired_at(key).is_some_and(|it| it.is_link);
        self.sockets.lost(key, &mut self.context);
        self.context.aliases.set_key(identity, alias.path.clone());
        self.context
            .aliases
            .add(identity, Alias::new(key.clone(), was_link, now));
        self.found_socket(&alias.path, identity, alias.is_link);
        self.sockets.set_restored(&alias.path, restored);
    }
}

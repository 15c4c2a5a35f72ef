//! Plugin names: which operation may ask a handler about a name, and which plugin of the name to
//! use.
//!
//! Pure: names keep the IDs of sockets, and never change a socket.
//!
//! The handler's contract holds per plugin name, whatever sockets the plugins of that name have: an
//! operation acquires the name before its first question, and keeps it until the operation ends or
//! has only to notify the plugin of a refusal. A question that stays open for
//! [`STALLED_AFTER`](crate::config::STALLED_AFTER) holds up no other socket: the next operation in
//! the queue acquires the name, too, and the stalled one continues when its answer arrives.
//!
//! A rolling update runs the new plugin beside the old one for a while, each with its own sockets.
//! The newest registered plugin is current; the others are its fallbacks, in reverse order of
//! registration. A plugin that is deregistered removes only itself, and a plugin that is down stays
//! current. When the current one is deregistered, the next one becomes current, and its handler's
//! `promoted` is called after that.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::ids::SocketId;
use crate::handler::{NameKey, Plugin};

/// Every plugin name that an operation has acquired or waits for, or that is registered.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: HashMap<NameKey, Name>,
    /// The sockets that are blocked, each with the socket of the plugin that blocks it.
    pub(super) blocked: BTreeMap<SocketId, SocketId>,
}

/// A plugin name of one type.
#[derive(Debug, Default)]
struct Name {
    /// The registered plugins, oldest first.
    instances: SmallVec<[Instance; 1]>,
    /// The sockets whose operations have acquired the name or wait for it, in the order of arrival.
    /// At most one is [`Lock::Held`]; if none is, none is [`Lock::Queued`].
    queue: SmallVec<[(SocketId, Lock); 1]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// The operation waits for the name.
    Queued,
    /// The operation has acquired the name, and the others wait for it.
    Held,
    /// The operation has acquired the name, and the others do not wait for it.
    Stalled,
}

/// A registered plugin.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) plugin: Arc<Plugin>,
    pub(super) socket: SocketId,
    /// The user ID of its process, if the daemon can see the process.
    pub(super) uid: Option<u32>,
}

impl Names {
    /// Adds a socket to the queue for a name. Returns whether it has acquired the name at once.
    pub(super) fn acquire_lock(&mut self, plugin: &Arc<Plugin>, socket: SocketId) -> bool {
        let key = NameKey(plugin.clone());
        let queue = &mut self.names.entry(key).or_default().queue;
        // mutation: two operations speak to a handler about one name
        let is_free = queue.iter().all(|(_, lock)| *lock == Lock::Stalled);
        let lock = if is_free { Lock::Held } else { Lock::Queued };
        queue.push((socket, lock));
        is_free
    }

    /// Removes a socket from the queue for a name. Returns the socket that acquires the name
    /// because of that.
    pub(super) fn release_lock(
        &mut self,
        plugin: &Arc<Plugin>,
        socket: SocketId,
    ) -> Option<SocketId> {
        let Entry::Occupied(mut entry) = self.names.entry(NameKey(plugin.clone())) else {
            return None;
        };
        let name = entry.get_mut();
        let place = name.queue.iter().position(|(it, _)| *it == socket)?;
        let (_, lock) = name.queue.remove(place);
        let next = match lock {
            // mutation: a name that is released is given to no other operation
            Lock::Held => name.grant_next(),
            Lock::Queued | Lock::Stalled => None,
        };
        if name.instances.is_empty() && name.queue.is_empty() {
            entry.remove();
        }
        next
    }

    /// Lets other sockets pass one whose question is stalled. Returns the socket that acquires the
    /// name because of that.
    pub(super) fn let_others_pass(
        &mut self,
        plugin: &Arc<Plugin>,
        socket: SocketId,
    ) -> Option<SocketId> {
        let name = self.names.get_mut(&NameKey(plugin.clone()))?;
        let mut queue = name.queue.iter_mut();
        queue.find(|it| **it == (socket, Lock::Held))?.1 = Lock::Stalled;
        name.grant_next()
    }

    /// Returns whether a socket has acquired a name.
    pub(super) fn is_held(&self, plugin: &Arc<Plugin>, socket: SocketId) -> bool {
        let name = self.names.get(&NameKey(plugin.clone()));
        let mut queue = name.iter().flat_map(|name| &name.queue);
        queue.any(|(it, lock)| *it == socket && *lock != Lock::Queued)
    }

    /// Returns the number of operations that have acquired a name or wait for one.
    pub(super) fn queue_len(&self) -> usize {
        self.names.values().map(|it| it.queue.len()).sum()
    }

    /// Returns the number of registered plugins of all names.
    pub(super) fn instance_count(&self) -> usize {
        self.names.values().map(|it| it.instances.len()).sum()
    }

    /// Returns the registered plugins of a name, oldest first; the last one is the one to use.
    pub(super) fn instances(&self, plugin: &Arc<Plugin>) -> &[Instance] {
        match self.names.get(&NameKey(plugin.clone())) {
            Some(name) => &name.instances,
            None => &[],
        }
    }

    /// Adds a registered plugin as the newest of its name. Returns the plugin that was the newest
    /// before.
    pub(super) fn add_instance(&mut self, instance: Instance) -> Option<&Instance> {
        let key = NameKey(instance.plugin.clone());
        let instances = &mut self.names.entry(key).or_default().instances;
        instances.push(instance);
        let before = instances.len().checked_sub(2)?;
        instances.get(before)
    }

    /// Removes a plugin that was deregistered. Returns the plugin to use from now on, if that has
    /// changed.
    pub(super) fn remove_instance(
        &mut self,
        plugin: &Arc<Plugin>,
        socket: SocketId,
    ) -> Option<Arc<Plugin>> {
        let Entry::Occupied(mut entry) = self.names.entry(NameKey(plugin.clone())) else {
            return None;
        };
        let name = entry.get_mut();
        let place = name.instances.iter().position(|it| it.socket == socket)?;
        name.instances.remove(place);
        let was_current = place == name.instances.len();
        let promoted = name.instances.last().filter(|_| was_current);
        let promoted = promoted.map(|instance| instance.plugin.clone());
        if name.instances.is_empty() && name.queue.is_empty() {
            entry.remove();
        }
        promoted
    }

    /// Returns the registered plugins of a name that have another socket, oldest first.
    pub(super) fn other_instances(
        &self,
        plugin: &Arc<Plugin>,
        own: SocketId,
    ) -> impl Iterator<Item = &Instance> {
        let instances = self.instances(plugin).iter();
        instances.filter(move |it| it.socket != own)
    }
}

impl Name {
    /// Gives the name to the operation that has waited for it longest, and returns its socket.
    fn grant_next(&mut self) -> Option<SocketId> {
        let mut queue = self.queue.iter_mut();
        let (socket, lock) = queue.find(|(_, lock)| *lock == Lock::Queued)?;
        *lock = Lock::Held;
        Some(*socket)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::proto::pluginregistration::PluginInfo;

    fn plugin(kind: &str, name: &str, endpoint: &str) -> Arc<Plugin> {
        let info = PluginInfo {
            r#type: kind.into(),
            name: name.into(),
            endpoint: endpoint.into(),
            ..PluginInfo::default()
        };
        Arc::new(Plugin::from_info(info, Path::new("/r/a").into()).expect("it has a name"))
    }

    fn add_plugin(names: &mut Names, plugin: &Arc<Plugin>, number: u64) -> Option<SocketId> {
        let before = names.add_instance(Instance {
            plugin: plugin.clone(),
            socket: SocketId(number),
            uid: None,
        });
        before.map(|before| before.socket)
    }

    #[test]
    fn one_socket_at_a_time_holds_a_name_of_a_type() {
        let keys = [("K", "a"), ("L", "a"), ("K", "b")];
        let [a, other_type, other_name] = keys.map(|(kind, name)| plugin(kind, name, ""));
        let mut names = Names::default();
        assert!(names.acquire_lock(&a, SocketId(1)));
        assert!(
            names.acquire_lock(&other_type, SocketId(2))
                && names.acquire_lock(&other_name, SocketId(3))
        );
        assert!(!names.acquire_lock(&a, SocketId(4)) && !names.acquire_lock(&a, SocketId(5)));
        assert!(names.is_held(&a, SocketId(1)) && !names.is_held(&a, SocketId(5)));
        assert_eq!(names.release_lock(&a, SocketId(4)), None, "it waited");
        assert_eq!(names.release_lock(&a, SocketId(1)), Some(SocketId(5)));
        assert_eq!(
            names.release_lock(&a, SocketId(1)),
            None,
            "it was released before"
        );
        assert_eq!(names.release_lock(&a, SocketId(5)), None, "no other waits");
        assert!(names.is_held(&other_type, SocketId(2)));
        assert_eq!((names.queue_len(), names.names.len()), (2, 2));
    }

    #[test]
    fn a_stalled_socket_keeps_its_name_and_the_next_acquires_it_too() {
        let a = plugin("K", "a", "");
        let mut names = Names::default();
        assert!(names.acquire_lock(&a, SocketId(1)));
        assert!(!names.acquire_lock(&a, SocketId(2)) && !names.acquire_lock(&a, SocketId(3)));
        assert_eq!(names.let_others_pass(&a, SocketId(2)), None, "it waits");
        assert_eq!(names.let_others_pass(&a, SocketId(1)), Some(SocketId(2)));
        assert_eq!(
            names.let_others_pass(&a, SocketId(1)),
            None,
            "it is stalled"
        );
        assert!(names.is_held(&a, SocketId(1)) && names.is_held(&a, SocketId(2)));
        assert_eq!(
            names.release_lock(&a, SocketId(1)),
            None,
            "another holds it"
        );
        assert_eq!(names.release_lock(&a, SocketId(2)), Some(SocketId(3)));
        assert_eq!(
            names.let_others_pass(&a, SocketId(3)),
            None,
            "no other waits"
        );
        assert!(
            names.acquire_lock(&a, SocketId(4)),
            "only stalled ones are before it"
        );
    }

    #[test]
    fn the_newest_plugin_is_current_and_the_older_one_promoted() {
        let (old, new) = (plugin("K", "a", "/old"), plugin("K", "a", "/new"));
        let mut names = Names::default();
        assert_eq!(add_plugin(&mut names, &old, 1), None);
        assert_eq!(add_plugin(&mut names, &new, 2), Some(SocketId(1)));
        assert_eq!(
            names.instances(&old).last().map(|it| it.socket),
            Some(SocketId(2))
        );
        assert_eq!(names.remove_instance(&new, SocketId(2)), Some(old.clone()));
        assert_eq!(names.remove_instance(&old, SocketId(1)), None);
        assert!(names.names.is_empty());
        add_plugin(&mut names, &old, 1);
        add_plugin(&mut names, &new, 2);
        assert_eq!(
            names.remove_instance(&old, SocketId(1)),
            None,
            "it was replaced"
        );
        assert_eq!(
            names.instances(&old).last().map(|it| it.socket),
            Some(SocketId(2))
        );
    }

    #[test]
    fn a_plugin_is_not_among_the_others_of_its_name() {
        let a = plugin("K", "a", "/p/a.sock");
        let mut names = Names::default();
        add_plugin(&mut names, &a, 1);
        let other = |names: &Names, own| {
            let mut others = names.other_instances(&a, own);
            others.next().map(|it| it.socket)
        };
        assert_eq!(other(&names, SocketId(1)), None, "its own");
        assert_eq!(other(&names, SocketId(2)), Some(SocketId(1)));
        names.remove_instance(&a, SocketId(1));
        assert_eq!(other(&names, SocketId(2)), None);
        assert!(names.names.is_empty());
    }
}

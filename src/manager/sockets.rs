//! The sockets, by ID and by path.

use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use foldhash::HashMap;

use super::changes::{Seen, State, Summary};
use super::context::{Context, Work};
use super::desired::Desired;
use super::event::{EventKind, PluginEvent};
use super::ids::{self, SocketId};
use super::names::Names;
use super::operation::Event;
use super::registered::KnownBy;
use super::socket::{Claims, Permit, Socket};
use super::timers::Scheduled;
use crate::config::{DEVICE_GRACE, OnDown};
use crate::handler::HandlerTable;
use crate::octets::PathKey;
use crate::time::Time;
use crate::watch::Identity;

/// Every path at which a socket exists, a plugin is registered or an operation runs.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// Sorted by ID; `None` for a socket that is taken out.
    pub(super) by_id: Vec<(SocketId, Option<Box<Socket>>)>,
    by_path: HashMap<PathKey, SocketId>,
    /// The ID of the last path that was added.
    last: u64,
}

impl Sockets {
    /// Returns the socket with that path, which is added if it is new; `None` while the socket is
    /// taken out.
    pub(super) fn get_or_insert(&mut self, path: &Arc<Path>) -> Option<&mut Socket> {
        let id = match self.by_path.entry(PathKey(path.clone())) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(entry) => {
                self.last += 1;
                let id = *entry.insert(SocketId(self.last));
                let socket = Box::new(Socket {
                    id,
                    path: path.clone(),
                    desired: None,
                    registered: None,
                    active: None,
                    applied: Claims {
                        name: None,
                        handler: None,
                        deadline: Scheduled::default(),
                    },
                    permit: Permit::None,
                    is_dirty: false,
                    seen: Seen {
                        generation: 0,
                        created: 0,
                        since: Time::ZERO,
                        summary: None,
                    },
                });
                self.by_id.push((id, Some(socket)));
                id
            }
        };
        self.get_mut(id)
    }

    /// Returns the socket with that path, unless it is taken out.
    pub(super) fn get_by_path(&self, path: &Arc<Path>) -> Option<&Socket> {
        self.get(*self.by_path.get(&PathKey(path.clone()))?)
    }

    /// Returns the socket with that path, unless it is taken out.
    pub(super) fn get_by_path_mut(&mut self, path: &Arc<Path>) -> Option<&mut Socket> {
        let id = *self.by_path.get(&PathKey(path.clone()))?;
        self.get_mut(id)
    }

    /// Returns the socket with that ID, unless it is taken out.
    #[inline]
    pub(super) fn get(&self, id: SocketId) -> Option<&Socket> {
        self.by_id[self.index_of(id)?].1.as_deref()
    }

    /// Returns the socket with that ID, unless it is taken out.
    #[inline]
    pub(super) fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let at = self.index_of(id)?;
        self.by_id[at].1.as_deref_mut()
    }

    /// Takes a socket out of the table, so that the manager can be changed together with the
    /// socket. Returns the socket and its index. The caller must put the socket back, and no socket
    /// is added or removed before that. Returns `None` if the socket is taken out already or does
    /// not exist.
    #[inline]
    pub(super) fn take_out(&mut self, id: SocketId) -> Option<(usize, Box<Socket>)> {
        let at = self.index_of(id)?;
        Some((at, self.by_id[at].1.take()?))
    }

    #[inline]
    fn index_of(&self, id: SocketId) -> Option<usize> {
        ids::position(&self.by_id, id, self.last.wrapping_sub(id.0), |it| it.0).ok()
    }

    /// Puts back a socket that was taken out, and queues its examination if it is dirty. If nothing
    /// is known about its path any more, removes the path instead.
    #[inline]
    pub(super) fn put_back(&mut self, at: usize, socket: Box<Socket>, context: &mut Context) {
        debug_assert_eq!(self.by_id[at].0, socket.id);
        if socket.is_empty() {
            self.by_path.remove(&PathKey(socket.path));
            self.by_id.remove(at);
            return;
        }
        if socket.is_dirty {
            context.dirty.push(socket.id);
        }
        self.by_id[at].1 = Some(socket);
    }

    /// Returns the first socket after the one with that ID, or the first of all.
    pub(super) fn first_after(&self, id: Option<SocketId>) -> Option<&Socket> {
        let start = self.by_id.partition_point(|(it, _)| Some(*it) <= id);
        let mut after = self.by_id[start..].iter();
        after.find_map(|(_, socket)| socket.as_deref())
    }

    /// Returns every socket that is not taken out, in the order in which their paths were added.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Socket> {
        self.by_id.iter().filter_map(|(_, it)| it.as_deref())
    }

    /// Returns every socket that is not taken out, in the order in which their paths were added.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        let sockets = self.by_id.iter_mut();
        sockets.filter_map(|(_, it)| it.as_deref_mut())
    }

    /// Marks every socket dirty.
    pub(super) fn mark_all_dirty(&mut self, context: &mut Context) {
        for socket in self.iter_mut() {
            socket.mark_dirty(context);
        }
    }

    /// Notes that a plugin has become the current one of its name, or is not the current one any
    /// more.
    pub(super) fn note_standby_change(&mut self, id: SocketId, context: &mut Context) {
        if let Some(socket) = self.get_mut(id) {
            // The record changes between `Registered` and `Standby`, unless the plugin is down.
            if let Some(Summary {
                state: State::Registered,
                ..
            }) = socket.seen.summary
            {
                socket.seen.since = context.now;
            }
            context.changes.note_change(socket.id, &mut socket.seen);
        }
    }

    /// Queues the event that the operation of a socket has acquired the lock of its plugin name.
    pub(super) fn queue_lock_acquired(&self, id: SocketId, context: &mut Context) {
        if let Some(active) = self.get(id).and_then(|it| it.active.as_ref()) {
            let work = Work::Operation(id, active.id, Event::LockAcquired);
            context.work.push_back(work);
        }
    }

    /// Returns whether a socket has a registered plugin that is up.
    pub(super) fn is_up(&self, id: SocketId) -> bool {
        let registered = self.get(id).and_then(Socket::registered);
        registered.is_some_and(|it| it.health.is_up())
    }

    /// Retries the sockets that are blocked by the plugin of the socket `by`, which is deregistered
    /// or down.
    pub(super) fn retry_blocked(&mut self, by: SocketId, names: &Names, context: &mut Context) {
        let blocked = names.blocked.iter().filter(|(_, it)| **it == by);
        for (id, _) in blocked {
            if let Some(socket) = self.get_mut(*id) {
                socket.retry_now(context);
            }
        }
    }

    /// Retries every socket whose last attempt failed, that was observed in a dry run, or on which
    /// an operation runs ([`Socket::retry_now`]), because handlers or the configuration have
    /// changed.
    pub(super) fn retry_failed(&mut self, context: &mut Context) {
        for socket in self.iter_mut() {
            let desired = socket.desired.as_ref();
            let has_failed = |it: &Desired| it.last_failure.is_some() || it.observed.is_some();
            if socket.active.is_some() || desired.is_some_and(has_failed) {
                socket.retry_now(context);
            }
        }
    }

    /// Deregisters every plugin whose type is not assigned any more to the handler that registered
    /// it. If its socket exists, the plugin is then registered with the new handler of its type, or
    /// refused if there is none.
    pub(super) fn deregister_reassigned(&mut self, handlers: &HandlerTable, context: &mut Context) {
        for socket in self.iter_mut() {
            let Some(registered) = &mut socket.registered else {
                continue;
            };
            let current = handlers.find(&registered.plugin.kind);
            let current = current.map(KnownBy::Handler);
            let is_ours = matches!(registered.known_by, KnownBy::Handler(_));
            if is_ours && current != Some(registered.known_by) {
                // mutation: a plugin stays with a handler that was replaced
                registered.health.must_deregister = true;
                socket.mark_dirty(context);
            }
        }
    }

    /// Applies the policy for plugins that are down to those that are down already.
    pub(super) fn apply_down_policy(&mut self, context: &mut Context) {
        for socket in self.iter_mut() {
            let Some(registered) = &mut socket.registered else {
                continue;
            };
            let is_announced = registered.identity.is_of_announcement();
            let health = &mut registered.health;
            let Some(down) = health.down.as_mut().filter(|_| !health.must_deregister) else {
                continue;
            };
            down.grace_until = match context.policy.on_down {
                OnDown::Keep => is_announced.then(|| down.since + DEVICE_GRACE),
                OnDown::Deregister(grace) => Some(down.since + grace),
            };
            socket.mark_dirty(context);
        }
    }

    // --- Sockets that are found and lost ---

    /// Records that a socket exists.
    pub(super) fn record_found(
        &mut self,
        path: &Arc<Path>,
        identity: Identity,
        context: &mut Context,
    ) {
        if path.as_os_str().is_empty() {
            return log::debug!("ignored a socket with an empty path");
        }
        let Some(socket) = self.get_or_insert(path) else {
            return;
        };
        let mut restored = None;
        if let Some(registered) = socket.registered.as_mut().filter(|it| it.is_restored()) {
            registered.known_by = KnownBy::Predecessor; // Unless it is registered again.
            if registered.identity == identity {
                restored = socket.take_registered(context);
            }
            socket.mark_dirty(context);
        }
        if socket.announced().is_some() {
            return; // A plugin that has announced itself is not affected.
        }
        // mutation: a socket in the place of another one is taken for the same
        let before = socket.desired.take_if(|before| before.identity != identity);
        if socket.desired.is_some() {
            return;
        }
        socket.desired = Some(Desired {
            identity,
            found: context.now,
            existed_at_start: context.policy.is_starting,
            wanted_since: context.now,
            restored: restored.map(|it| it.plugin),
            ..Desired::default()
        });
        socket.mark_dirty(context);
        if let Some(before) = before {
            context.emit(PluginEvent::of_socket(path, EventKind::SocketReplaced));
            socket.deregister_restored(before.restored, before.identity, context);
        } else {
            context.emit(PluginEvent::of_socket(path, EventKind::SocketFound));
        }
    }

    /// Records that a socket does not exist any more.
    pub(super) fn record_lost(&mut self, path: &Arc<Path>, context: &mut Context) {
        let Some(socket) = self.get_by_path_mut(path) else {
            return;
        };
        socket.mark_dirty(context);
        let is_watched = |it: &mut Desired| it.announced.is_none();
        let gone = socket.desired.take_if(is_watched);
        let restored = socket.registered.as_mut().filter(|it| it.is_restored());
        if let Some(registered) = restored {
            registered.known_by = KnownBy::Predecessor;
            let missing = EventKind::SocketMissing;
            context.emit(PluginEvent::of_plugin(&registered.plugin, missing));
        }
        if let Some(gone) = gone {
            context.emit(PluginEvent::of_socket(path, EventKind::SocketLost));
            socket.deregister_restored(gone.restored, gone.identity, context);
        }
    }
}

impl Socket {
    /// Marks the socket dirty: it is examined in the next pass.
    pub(super) fn mark_dirty(&mut self, context: &mut Context) {
        self.is_dirty = true;
        context.dirty.push(self.id);
    }

    /// Ends the backoff, because the cause of the last failure may have been removed. If an attempt
    /// runs and fails, the next one follows without a delay.
    pub(super) fn retry_now(&mut self, context: &mut Context) {
        if let Some(desired) = &mut self.desired {
            desired.backoff.reset();
            desired.is_retried = true;
            desired.observed = None;
            desired.is_blocked = false;
            self.mark_dirty(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Plugin;
    use crate::manager::registered::{Down, Registered};

    fn add_socket(sockets: &mut Sockets, path: &str) -> SocketId {
        let path = Path::new(path).into();
        let socket = sockets.get_or_insert(&path).expect("it is not taken out");
        socket.desired = Some(Desired::default());
        socket.id
    }

    #[test]
    fn sockets_are_retried_that_the_plugin_has_blocked() {
        let (mut sockets, mut context) = <(Sockets, Context)>::default();
        let mut names = Names::default();
        let [holder, blocked, by_another] =
            ["/a", "/b", "/c"].map(|path| add_socket(&mut sockets, path));
        for (id, holder) in [
            (blocked, by_another),
            (blocked, holder),
            (by_another, blocked),
        ] {
            let socket = sockets.get_mut(id).unwrap();
            socket.request_retry_after(holder, &mut names);
        }
        sockets.retry_blocked(holder, &names, &mut context);
        assert_eq!(context.dirty, [blocked]);
        let is_blocked = |id| sockets.get(id).unwrap().desired().unwrap().is_blocked;
        assert!(!is_blocked(blocked) && is_blocked(by_another));
    }

    #[test]
    fn a_plugin_that_is_down_or_must_be_deregistered_is_not_up() {
        let (mut sockets, mut context) = <(Sockets, Context)>::default();
        let id = add_socket(&mut sockets, "/a");
        assert!(!sockets.is_up(id), "it is not registered");
        let plugin = Arc::new(Plugin::named("K", "a"));
        let registered = Registered::new(plugin, Identity::default(), KnownBy::Predecessor);
        let socket = sockets.get_mut(id).unwrap();
        socket.set_registered(registered, &mut context);
        assert!(sockets.is_up(id));
        let mut health = |change: &dyn Fn(&mut Registered)| {
            let socket = sockets.get_mut(id).unwrap();
            change(socket.registered.as_mut().unwrap());
            sockets.is_up(id)
        };
        assert!(!health(&|it| it.health.must_deregister = true));
        assert!(health(&|it| it.health.must_deregister = false));
        assert!(!health(&|it| it.health.down = Some(Box::new(Down {
            since: Time::ZERO,
            grace_until: None,
            is_given_up: false,
        }))));
    }
}

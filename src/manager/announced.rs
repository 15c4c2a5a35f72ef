//! Plugins that announce themselves by calling the daemon, instead of by a socket in a watched
//! directory: kubelet's service `v1beta1.Registration` for device plugins.
//!
//! Such a plugin has a [`Socket`] like every other one, with [`Desired::announced`]: its endpoint
//! is dialed, its name is locked, and its handler is asked. GetInfo and NotifyRegistrationStatus
//! are not called, because the plugin describes itself in its call, and the reply to this call
//! reports the outcome:
//!
//! ```text
//!   Input::Announced --> Dialing --> AwaitingLock --> Validating --> Registering --> registered
//!                           |                             |               |              |
//!                           v                             v               v              v
//!                    Output::AnnouncementAnswered, and the socket is forgotten    ...Answered(Ok)
//! ```
//!
//! - A plugin that is refused or cannot be dialed is not tried again: it has to call again, as with
//!   kubelet.
//! - A plugin that is announced again with the same endpoint replaces the earlier one, which is
//!   deregistered first and not notified. With another endpoint, both serve the name, as with
//!   kubelet since 1.37: the newest one is used, and when that is deregistered, the one before it.
//! - A plugin whose process has ended stays registered for
//!   [`DEVICE_GRACE`](crate::config::DEVICE_GRACE), unless [`OnDown`](crate::config::OnDown) names
//!   another time or another plugin serves its name: plugins announce themselves again when they
//!   restart.
//! - A plugin that its handler gives up while the plugin's process lives is down for the same time:
//!   it has to announce itself again.
//! - After a restart of the daemon, its predecessor's plugins have `DEVICE_GRACE` to announce
//!   themselves again, whatever `OnDown` is.

use std::path::Path;
use std::sync::Arc;

use super::context::Context;
use super::desired::{Announced, Desired};
use super::event::{EventKind, PluginEvent};
use super::ids::{Process, SocketId};
use super::messages::{AnnouncementError, AnnouncementId, Output};
use super::registered::KnownBy;
use super::socket::Socket;
use super::sockets::Sockets;
use super::visit::Visit;
use crate::config::{MAX_ANNOUNCED, MAX_ANNOUNCED_OF_PROCESS, MAX_REGISTRATIONS};
use crate::handler::Plugin;
use crate::watch::Identity;

impl Desired {
    /// Answers the call by which the plugin has announced itself, unless it was answered.
    pub(super) fn answer_announcement(
        &mut self,
        result: Result<(), AnnouncementError>,
        context: &mut Context,
    ) {
        let announced = self.announced.as_mut();
        if let Some(id) = announced.and_then(|it| it.call.take()) {
            let answer = Output::AnnouncementAnswered { id, result };
            context.outputs.push_back(answer);
        }
    }
}

impl Visit<'_> {
    /// Deregisters the announced plugins of the same name that this registered one replaces:
    /// plugins that are down, had its endpoint, or are from before a restart. The others stay as
    /// its fallbacks.
    pub(super) fn withdraw_superseded(&mut self, plugin: &Arc<Plugin>) {
        let (sockets, context) = (&mut self.manager.sockets, &mut self.manager.context);
        let others = self.manager.names.other_instances(plugin, self.socket.id);
        let gone =
            others.filter(|it| it.plugin.has_endpoint_of(plugin) || !sockets.is_up(it.socket));
        let mut earlier: Vec<_> = gone.map(|instance| instance.socket).collect();
        let restored = sockets.iter().filter(|socket| {
            let registered = socket.registered.as_ref();
            registered
                .is_some_and(|it| it.is_restored_announced() && it.plugin.key() == plugin.key())
        });
        earlier.extend(restored.map(|socket| socket.id));
        for id in earlier {
            sockets.withdraw_announcement(id, context);
        }
    }
}

impl Sockets {
    /// Checks the limits on announced plugins. A plugin whose name is announced already may exceed
    /// them, because it usually replaces the earlier one. But it may have another endpoint each
    /// time, so [`MAX_ANNOUNCED`] may be exceeded by no more than [`MAX_REGISTRATIONS`].
    fn check_announcement_limits(
        &self,
        plugin: &Plugin,
        caller: Option<Process>,
    ) -> Result<(), AnnouncementError> {
        let announced = || self.iter().filter_map(Socket::announced);
        let is_again = || announced().any(|it| it.plugin.key() == plugin.key());
        // Processes in other PID namespaces have no PID here, so they cannot be distinguished.
        let caller = caller.filter(|it| it.pid.is_some());
        let of_caller = announced().filter(|it| caller.is_some() && it.caller == caller);
        if of_caller.count() >= MAX_ANNOUNCED_OF_PROCESS && !is_again() {
            return Err(AnnouncementError::TooManyOfProcess);
        }
        let count = announced().count();
        if count >= MAX_ANNOUNCED + MAX_REGISTRATIONS || count >= MAX_ANNOUNCED && !is_again() {
            return Err(AnnouncementError::TooMany);
        }
        Ok(())
    }

    /// Returns the socket of the announced plugin that has been down for the longest time.
    fn longest_down(&self) -> Option<SocketId> {
        let down_since = |socket: &Socket| {
            socket.announced()?;
            Some((socket.registered()?.health.down_since()?, socket.id))
        };
        let longest = self.iter().filter_map(down_since).min();
        longest.map(|(_, id)| id)
    }

    /// Processes a plugin that has announced itself.
    pub(super) fn handle_announcement(
        &mut self,
        id: AnnouncementId,
        plugin: Plugin,
        caller: Option<Process>,
        context: &mut Context,
    ) {
        let checked = match self.check_announcement_limits(&plugin, caller) {
            _ if context.policy.is_stopping => Err(AnnouncementError::Stopping),
            // A plugin that is down gives way: its grace period must not keep out another plugin.
            Err(AnnouncementError::TooMany) => self
                .longest_down()
                .map(|id| self.withdraw_announcement(id, context))
                .ok_or(AnnouncementError::TooMany),
            within_limits => within_limits,
        };
        let Err(error) = checked else {
            return self.add_announced(id, plugin, caller, context);
        };
        let result = Err(error);
        let answer = Output::AnnouncementAnswered { id, result };
        context.outputs.push_back(answer);
    }

    /// Records a plugin that has announced itself. Its socket is known under the path of its
    /// endpoint or, if a plugin of another name or a watched socket has that path, under a path
    /// that only its name has.
    fn add_announced(
        &mut self,
        id: AnnouncementId,
        mut plugin: Plugin,
        caller: Option<Process>,
        context: &mut Context,
    ) {
        let is_taken = self.get_by_path(&plugin.endpoint).is_some_and(|socket| {
            let known = socket.announced().map(|announced| &announced.plugin);
            let is_watched = socket.desired.is_some() && known.is_none();
            let known = known.or_else(|| Some(&socket.registered.as_ref()?.plugin));
            is_watched || known.is_some_and(|known| known.key() != plugin.key())
        });
        if is_taken {
            let mut path = plugin.endpoint.as_os_str().to_owned();
            path.push("?resource=");
            path.push(&plugin.name);
            plugin.socket = Path::new(&path).into();
        }
        let plugin = Arc::new(plugin);
        let path = plugin.socket.clone();
        // mutation: a plugin that is announced again counts as the same one
        let identity = Identity::of_announcement(id.0);
        let Some(socket) = self.get_or_insert(&path) else {
            return;
        };
        let mut desired = Desired {
            identity,
            announced: Some(Box::new(Announced {
                plugin: plugin.clone(),
                caller,
                call: Some(id),
            })),
            found: context.now,
            wanted_since: context.now,
            ..Desired::default()
        };
        if let Some(registered) = socket.registered.as_mut().filter(|it| it.is_restored()) {
            if *registered.plugin == *plugin {
                let restored = socket.take_registered(context);
                desired.restored = restored.map(|registered| registered.plugin);
            } else {
                registered.known_by = KnownBy::Predecessor;
                registered.health.check_at = None;
                // The identity of an announced plugin is the number of its call, and numbers start
                // at 1 again after a restart. The restored plugin may therefore have the identity
                // of the new one, so its deregistration has to be forced.
                registered.health.must_deregister = true;
            }
        }
        if let Some(mut before) = socket.desired.take() {
            // mutation: a call that is overtaken by another one is not answered
            before.answer_announcement(Err(AnnouncementError::Superseded), context);
            // The plugin may call again before its first call is answered: it is still the one that
            // was restored.
            if before.restored.as_ref() == Some(&plugin) {
                desired.restored = before.restored;
            } else {
                socket.deregister_restored(before.restored, before.identity, context);
            }
        }
        socket.desired = Some(desired);
        socket.mark_dirty(context);
        context.emit(PluginEvent::of_plugin(&plugin, EventKind::Announced));
    }

    /// Withdraws the announcement of a plugin whose call has ended before it was answered.
    pub(super) fn handle_call_ended(&mut self, id: AnnouncementId, context: &mut Context) {
        for socket in self.iter_mut() {
            let desired = socket.desired.as_mut();
            let announced = desired.and_then(|it| it.announced.as_mut());
            if announced.is_some_and(|it| it.call.take_if(|call| *call == id).is_some()) {
                socket.withdraw_announcement(context);
                return socket.mark_dirty(context);
            }
        }
    }

    /// Withdraws the announcement of a socket's plugin, if there is one: the plugin is then
    /// deregistered. Marks the socket dirty in any case.
    pub(super) fn withdraw_announcement(&mut self, id: SocketId, context: &mut Context) {
        if let Some(socket) = self.get_mut(id) {
            socket.withdraw_announcement(context);
            socket.mark_dirty(context);
        }
    }
}

impl Socket {
    /// Withdraws the announcement of the plugin, if there is one, even from before a restart: the
    /// plugin is then deregistered.
    pub(super) fn withdraw_announcement(&mut self, context: &mut Context) {
        let is_announced = |desired: &mut Desired| desired.announced.is_some();
        if let Some(mut gone) = self.desired.take_if(is_announced) {
            gone.answer_announcement(Err(AnnouncementError::Withdrawn), context);
            self.deregister_restored(gone.restored, gone.identity, context);
        } else if let Some(registered) = &mut self.registered {
            if registered.is_restored_announced() {
                registered.known_by = KnownBy::Predecessor;
                registered.health.check_at = None;
            } else {
                return;
            }
        }
        self.is_dirty = true;
    }

    /// Returns the announcement of the plugin.
    pub(super) fn announced(&self) -> Option<&Announced> {
        self.desired.as_ref()?.announced.as_deref()
    }
}

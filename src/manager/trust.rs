//! Trust: the reasons not to trust a plugin, found in its process, its name, its socket or its
//! endpoint before its handler is asked.
//!
//! The daemon reports those that concern a socket when it connects. In strict mode, the plugin is
//! refused; otherwise each reason is recorded with the plugin's socket, and reported once.

use std::sync::Arc;

use super::actions::Execution;
use super::context::Context;
use super::event::{EventKind, PluginEvent};
use super::failure::Refusal;
use super::ids::SocketId;
use super::socket::Socket;
use super::visit::Visit;
use crate::config::Distrust;
use crate::handler::Plugin;

impl Visit<'_> {
    /// Records why the plugin of the socket is not trusted, and reports it the first time.
    pub(super) fn record_distrust(&mut self, why: Distrust) {
        let plugin = self.socket.known_plugin().cloned();
        let context = &mut self.manager.context;
        self.socket.record_distrust(why, plugin, context);
    }
}

impl Execution<'_> {
    /// Refuses an untrusted plugin that is about to be validated, if the mode is strict: a plugin
    /// whose name is taken is retried once the current plugin of that name is deregistered or down.
    /// Otherwise records the reasons not to trust the plugin, and returns `Ok`.
    pub(super) fn apply_trust_policy(&mut self, plugin: &Arc<Plugin>) -> Result<(), Refusal> {
        let mut found = std::mem::take(&mut self.active.distrust);
        let policy = &self.manager.context.policy;
        let (trust, is_strict) = (&policy.trust, policy.trust.is_strict());
        let caller = self.socket.announced().and_then(|it| it.caller);
        let (mut uid, mut pinned) = (None, None);
        for process in [self.active.process, caller].into_iter().flatten() {
            if uid.is_none() && !trust.is_always_trusted(process.uid) {
                uid = Some(process.uid);
            }
            if pinned.is_none() {
                let checked = trust.check_name(process.uid, &plugin.kind, &plugin.name);
                pinned = checked.err();
            }
        }
        found.extend(pinned);
        if let Some(uid) = uid {
            found.extend(self.find_taken_endpoint(uid, plugin));
        }
        if !is_strict {
            for why in found {
                let context = &mut self.manager.context;
                self.socket
                    .record_distrust(why, Some(plugin.clone()), context);
            }
            return Ok(());
        }
        let path = &self.socket.path;
        let mut dirs = policy.distrusted.iter();
        let dir = dirs.find(|(dir, _)| path.starts_with(dir));
        let dir = dir.map(|(_, why)| why.clone());
        let first = dir.or_else(|| found.into_iter().next());
        let why = first.or_else(|| {
            let (why, holder) = self.find_taken_name(uid?, plugin)?;
            let names = &mut self.manager.names;
            self.socket.request_retry_after(holder, names);
            Some(why)
        });
        why.map_or(Ok(()), |why| Err(Refusal::Untrusted(why)))
    }

    /// Returns a reason not to trust `plugin` if a registered plugin of another user has its
    /// endpoint and is up.
    fn find_taken_endpoint(&self, uid: u32, plugin: &Plugin) -> Option<Distrust> {
        let mut sockets = self.manager.sockets.iter();
        sockets.find_map(|socket| {
            let registered = socket.registered.as_ref()?;
            let (it, health) = (&registered.plugin, &registered.health);
            let other = health.process.filter(|it| it.uid != uid)?.uid;
            let is_up = health.down_since().is_none() && socket.id != self.socket.id;
            (is_up && it.endpoint == plugin.endpoint).then(|| taken_by("endpoint", other, it))
        })
    }

    /// Returns a reason not to trust `plugin` if the current plugin of its name runs as another
    /// user, and the socket of the current plugin.
    fn find_taken_name(&self, uid: u32, plugin: &Arc<Plugin>) -> Option<(Distrust, SocketId)> {
        let current = self.manager.names.instances(plugin).last()?;
        let other = current.uid.filter(|other| *other != uid)?;
        let why = taken_by("name", other, &current.plugin);
        Some((why, current.socket))
    }
}

impl Socket {
    /// Records a reason why the plugin would be refused in strict mode, and reports the reason the
    /// first time.
    fn record_distrust(
        &mut self,
        why: Distrust,
        plugin: Option<Arc<Plugin>>,
        context: &mut Context,
    ) {
        let Some(desired) = &mut self.desired else {
            return;
        };
        let recorded = &mut desired.distrust;
        if recorded.contains(&why) {
            return;
        }
        let excess = (recorded.len() + 1).saturating_sub(MAX_DISTRUST);
        let kept = recorded.iter().skip(excess);
        *recorded = kept.chain([&why]).cloned().collect();
        context.emit(PluginEvent {
            plugin,
            ..PluginEvent::of_socket(&self.path, EventKind::Untrusted(why))
        });
    }
}

/// Returns a reason not to trust a plugin: its `what`, the name or the endpoint, is that of
/// `plugin`, whose user is `uid`.
fn taken_by(what: &'static str, uid: u32, plugin: &Plugin) -> Distrust {
    let socket = plugin.socket.clone();
    Distrust::Taken { what, uid, socket }
}

/// The maximum number of reasons that are kept for a socket, the newest ones: enough for the owner
/// of the socket, the user of its process, and two about the endpoint.
const MAX_DISTRUST: usize = 4;

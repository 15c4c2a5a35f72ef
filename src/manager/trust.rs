//! Trust: the reasons not to trust a plugin, found in its process, its name, its socket or its
//! endpoint before its handler is asked.
//!
//! The daemon reports those that concern a socket when it connects. In strict mode, the plugin is
//! refused; otherwise each reason is recorded with the plugin's socket, and reported once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Manager;
use super::actions::Execution;
use super::connections::Owner;
use super::context::Context;
use super::event::{EventKind, PluginEvent};
use super::failure::Refusal;
use super::ids::{ConnectionId, SocketId};
use super::socket::Socket;
use crate::config::{Distrust, Trust};
use crate::handler::Plugin;
use crate::time::Time;

impl Manager {
    /// Sets which plugins are trusted from now on. Registered plugins stay registered. The reasons
    /// that were recorded are forgotten, and may be reported again.
    pub fn set_trust(&mut self, trust: Trust) {
        self.context.policy.trust = trust;
        for socket in self.sockets.iter_mut() {
            if let Some(desired) = &mut socket.desired {
                desired.distrust = Box::default();
            }
        }
        self.sockets.mark_all_dirty(&mut self.context);
    }

    /// Sets the directories below which no socket is trusted, each with the reason, and reports
    /// those that are new: other users can change the directory, or one that all plugins depend on.
    /// In strict mode, plugins with sockets below them are refused from now on.
    pub fn set_distrusted_directories(&mut self, dirs: Vec<(PathBuf, Distrust)>, now: Time) {
        self.context.now = now;
        for dir in &dirs {
            if !self.context.policy.distrusted.contains(dir) {
                self.emit_daemon_event(EventKind::Untrusted(dir.1.clone()));
            }
        }
        self.context.policy.distrusted = dirs;
    }

    /// Records that the endpoint of a socket's plugin is not trusted. Only for a dry run, which
    /// examines endpoints but does not connect to them.
    pub(crate) fn distrust_endpoint(&mut self, socket: &Arc<Path>, why: Distrust, now: Time) {
        self.context.now = now;
        if let Some(id) = self.sockets.get_by_path(socket).map(|socket| socket.id) {
            self.distrust_plugin(id, why);
        }
        self.run_until_idle();
    }

    /// Records why the socket of a connection is not trusted. If the connection is an operation's,
    /// the reason is kept until its plugin is validated.
    pub(super) fn distrust_connection(&mut self, conn: ConnectionId, why: Distrust) {
        match self.context.connections.owner(conn) {
            Some(Owner::Operation(id)) => self.visit(id, |visit| {
                if let Some(active) = &mut visit.socket.active {
                    active.distrust.push(why);
                }
            }),
            Some(Owner::Call(effect) | Owner::Stream(effect)) => {
                if let Some(id) = SocketId::of_owner(effect.owner) {
                    self.distrust_plugin(id, why);
                }
            }
            Some(Owner::Liveness(..)) | None => {}
        }
    }

    fn distrust_plugin(&mut self, id: SocketId, why: Distrust) {
        self.visit(id, |visit| {
            let plugin = visit.socket.known_plugin().cloned();
            let context = &mut visit.manager.context;
            visit.socket.record_distrust(why, plugin, context);
        });
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

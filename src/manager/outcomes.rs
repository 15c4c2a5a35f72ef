//! The outcomes of operations: what they mean for the socket, for other sockets of the name and for
//! handlers.
//!
//! Pure.

use std::sync::Arc;

use super::Manager;
use super::active::Active;
use super::announcement::AnnouncementError;
use super::event::{DownConsequence, EventKind, PluginEvent};
use super::failure::{Failure, Refusal};
use super::messages::Output;
use super::names::Instance;
use super::operation::Outcome;
use super::reconcile::Target;
use super::registered::By;
use super::socket::Socket;
use crate::config::{DEVICE_GRACE, OnDown};
use crate::grpc::CallError;
use crate::handler::{DialError, Plugin};

impl Manager {
    /// Records the outcome of an operation, and has its socket examined, unless the plugin was
    /// registered and the socket still exists.
    pub(super) fn ended(&mut self, socket: &mut Socket, outcome: Outcome) {
        let Some(active) = socket.active.take() else {
            return;
        };
        socket.is_dirty = true;
        match outcome {
            Outcome::Registered(plugin) => self.was_registered(socket, &active, &plugin),
            Outcome::Deregistered(plugin, answer) => {
                self.was_deregistered(&active, &plugin, answer);
            }
            Outcome::Observed(found) => self.was_observed(socket, &active, found),
            Outcome::Alive(plugin) => self.alive(socket, &plugin),
            Outcome::Changed(plugin) => {
                self.emit_of(&active, &plugin, EventKind::PluginChanged);
                self.names.set_up(&plugin, socket.id, false);
                let desired = socket.desired_of(&active);
                if let Some(restored) = desired.and_then(|it| it.restored.take()) {
                    socket.deregister_restored(restored, active.identity, &mut self.context);
                }
                if let Some(registered) = &mut socket.registered {
                    registered.health.must_deregister = true;
                }
            }
            Outcome::Failed(failure) if matches!(active.target, Target::Checked(_)) => {
                self.check_failed(socket, &failure);
            }
            Outcome::Cancelled => log::debug!("{}: cancelled", socket.label(active.number)),
            Outcome::Failed(failure) => self.failed(socket, &active, &failure),
        }
        if let Some(promoted) = active.promoted {
            self.announce_promoted(socket, &promoted);
        }
    }

    /// Emits an event of an operation's plugin.
    fn emit_of(&mut self, active: &Active, plugin: &Arc<Plugin>, kind: EventKind) {
        self.context.emit(PluginEvent {
            attempt: active.number,
            ..PluginEvent::of_plugin(plugin, kind)
        });
    }

    fn was_deregistered(
        &mut self,
        active: &Active,
        plugin: &Arc<Plugin>,
        answer: Result<(), Refusal>,
    ) {
        let kind = match answer {
            Ok(()) => EventKind::Deregistered,
            Err(refusal) => EventKind::NotUndone(refusal),
        };
        self.emit_of(active, plugin, kind);
    }

    fn was_registered(&mut self, socket: &mut Socket, active: &Active, plugin: &Arc<Plugin>) {
        let now = self.context.now;
        let desired = socket.desired_of(active);
        let since = desired.as_ref().map_or(now, |it| it.wanted_since);
        let took = now.saturating_since(since);
        let registered = EventKind::Registered { took };
        self.emit_of(active, plugin, registered);
        let mut predecessor = None;
        if let Some(desired) = desired {
            predecessor = desired.registered();
            socket.is_dirty = false;
        }
        let process = socket.registered.as_ref().and_then(|it| it.health.process);
        let uid = process.map(|process| process.uid);
        let current = self.names.add(Instance {
            plugin: plugin.clone(),
            socket: socket.id,
            uid,
            is_up: true,
        });
        let replaced = current.map(|it| it.socket);
        if let Some(kind) = takeover(plugin, uid, current, predecessor) {
            self.context.emit(PluginEvent::of_plugin(plugin, kind));
        }
        if let Some(replaced) = replaced {
            self.touch_instance(replaced);
        }
        if socket.announced().is_some() {
            self.supersede(plugin, socket.id);
        }
        let current = self.host.handlers().find(&plugin.kind);
        if let Some(registered) = socket
            .registered
            .as_mut()
            .filter(|_| active.handler != current)
        {
            // The handler was replaced meanwhile: the new one is to register the plugin.
            registered.health.must_deregister = true;
            socket.is_dirty = true;
        }
        if let Some(handler) = active.handler {
            let subject = (socket.id, plugin);
            self.host
                .notify(handler, subject, &mut self.context, |handler, context| {
                    handler.registered(plugin, context);
                });
        }
    }

    /// Reports to the handler which plugin of a name to use now, unless that plugin has gone, too.
    fn announce_promoted(&mut self, socket: &Socket, plugin: &Arc<Plugin>) {
        let current = self.names.current(plugin);
        let Some(current) = current.filter(|it| it.plugin == *plugin) else {
            return;
        };
        self.context
            .emit(PluginEvent::of_plugin(plugin, EventKind::Promoted));
        let of = if current.socket == socket.id {
            socket.registered.as_ref()
        } else {
            let socket = self.sockets.get(current.socket);
            socket.and_then(|socket| socket.registered.as_ref())
        };
        if let Some(By::Handler(handler)) = of.map(|registered| registered.by) {
            let subject = (current.socket, plugin);
            self.host
                .notify(handler, subject, &mut self.context, |handler, context| {
                    handler.promoted(plugin, context);
                });
        }
    }

    /// Records the outcome of a dry run.
    fn was_observed(
        &mut self,
        socket: &mut Socket,
        active: &Active,
        found: Result<Arc<Plugin>, Refusal>,
    ) {
        let now = self.context.now;
        let desired = socket.desired_of(active);
        if !desired.is_some_and(|desired| desired.observed(&found, active.plugin.as_ref(), now)) {
            return;
        }
        let (plugin, kind) = match found {
            Ok(plugin) => {
                let left_out = self.host.not_checked(&plugin);
                let kind = EventKind::WouldRegister(left_out.into_iter().collect());
                (Some(plugin), kind)
            }
            Err(refusal) => (active.plugin.clone(), EventKind::WouldRefuse(refusal)),
        };
        self.context.emit(PluginEvent {
            plugin,
            attempt: active.number,
            ..PluginEvent::of_socket(&socket.path, kind)
        });
    }

    fn failed(&mut self, socket: &mut Socket, active: &Active, failure: &Failure) {
        self.examine_replaced(socket, failure);
        let is_past = self.is_past(failure);
        let now = self.context.now;
        let Some(desired) = socket.desired_of(active) else {
            return;
        };
        let is_announced = desired.origin.announced().is_some();
        if is_announced {
            let error = AnnouncementError::Failed(failure.clone());
            desired.answer_announcement(Err(error), &mut self.context);
        }
        let is_news = desired.failed(active.plugin.as_ref(), failure, is_past, now);
        let pause = desired.backoff.delay().unwrap_or_default();
        let kind = EventKind::AttemptFailed {
            failure: Box::new(failure.clone()),
            retry_in: (!is_announced).then_some(pause),
            is_repeated: !is_news,
        };
        self.context.emit(PluginEvent {
            plugin: active.plugin.clone(),
            attempt: active.number,
            ..PluginEvent::of_socket(&socket.path, kind)
        });
        if is_announced {
            self.sockets.withdraw(socket, &mut self.context);
        }
    }

    /// Has the path examined again if another socket exists there than the watch has found: for a
    /// link, or on a file system without birth times, the kernel does not report such a change.
    fn examine_replaced(&mut self, socket: &Socket, failure: &Failure) {
        if *failure == Failure::Dial(DialError::Replaced) {
            let path = socket.path.clone();
            self.context.outputs.push_back(Output::Examine { path });
        }
    }

    /// Returns whether the cause of a failure has gone while the plugin was being notified.
    fn is_past(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Refused(Refusal::EndpointTaken { holder, .. }) => {
                let registered = self.sockets.at(holder).and_then(Socket::registered);
                let health = registered.map(|registered| &registered.health);
                health.is_none_or(|it| it.down_since().is_some() || it.must_deregister)
            }
            _ => false,
        }
    }

    /// Records that a registered plugin answered.
    fn alive(&mut self, socket: &mut Socket, plugin: &Arc<Plugin>) {
        let Some(registered) = &mut socket.registered else {
            return;
        };
        let was_down = registered.health.answered(self.context.now);
        self.names.set_up(plugin, socket.id, true);
        if was_down {
            self.context
                .emit(PluginEvent::of_plugin(plugin, EventKind::Up));
        }
    }

    /// Records that a registered plugin did not answer.
    fn check_failed(&mut self, socket: &mut Socket, failure: &Failure) {
        self.examine_replaced(socket, failure);
        let now = self.context.now;
        let slow_check = self.context.slow_check();
        let Some(registered) = &mut socket.registered else {
            return;
        };
        let health = &mut registered.health;
        if matches!(
            failure,
            Failure::Dial(DialError::NoDescriptors) | Failure::GetInfo(CallError::OverBudget)
        ) {
            health.check_at = Some(slow_check); // The plugin may well be up.
            return;
        }
        if !health.not_answered(failure.is_overtaken(), now) {
            return;
        }
        let identity = registered.identity;
        let consequence = match self.context.policy.on_down {
            OnDown::Keep if identity.is_of_announcement() => {
                health.set_grace(Some(now + DEVICE_GRACE));
                DownConsequence::Deregister(DEVICE_GRACE)
            }
            OnDown::Keep => DownConsequence::Keep,
            OnDown::Deregister(grace) => {
                if grace.is_zero() {
                    health.must_deregister = true;
                } else {
                    health.set_grace(Some(now + grace));
                }
                DownConsequence::Deregister(grace)
            }
        };
        let plugin = &registered.plugin;
        let down = EventKind::Down {
            process: health.process,
            failure: Box::new(failure.clone()),
            consequence,
        };
        self.context.emit(PluginEvent::of_plugin(plugin, down));
        for id in self.names.down(plugin, socket.id) {
            self.sockets.retry_now(id);
        }
    }
}

/// Returns a warning if a plugin that was registered runs as another user than the plugin that had
/// its name: the newest of that name or else `predecessor`, which was at the same path.
///
/// Every process that may create sockets in a watched directory may register under any name, and
/// the newest plugin of a name is the one to use. In a rolling update the old and the new plugin
/// run as the same user, so another user is worth a warning.
fn takeover(
    plugin: &Plugin,
    uid: Option<u32>,
    current: Option<&Instance>,
    predecessor: Option<Box<(Arc<Plugin>, u32)>>,
) -> Option<EventKind> {
    let current = current.and_then(|it| Some((it.plugin.clone(), it.uid?)));
    let at_path = predecessor.map(|before| *before);
    let at_path = at_path.filter(|(before, _)| before.key() == plugin.key());
    let ((before, previous_uid), uid) = (current.or(at_path)?, uid?);
    (previous_uid != uid).then(|| EventKind::TakenOver {
        uid,
        previous_uid,
        previous_socket: before.socket.clone(),
    })
}

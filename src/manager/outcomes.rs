//! The outcomes of operations: what they mean for the socket, for other sockets of the name and for
//! handlers.

use std::sync::Arc;
use std::time::Duration;

use super::Manager;
use super::context::Context;
use super::event::{EventKind, PluginEvent};
use super::failure::{Failure, Refusal};
use super::messages::{AnnouncementError, Output};
use super::names::Instance;
use super::operation::Outcome;
use super::reconcile::Target;
use super::registered::{Down, KnownBy};
use super::socket::{Active, Socket};
use super::visit::Visit;
use crate::config::{DEVICE_GRACE, OnDown};
use crate::grpc::CallError;
use crate::handler::{DialError, Plugin, Reason};

impl Visit<'_> {
    /// Records the outcome of an operation. Marks its socket dirty, unless the plugin was
    /// registered and neither its socket nor its handler was removed or replaced meanwhile.
    pub(super) fn record_outcome(&mut self, mut active: Active, outcome: Outcome) {
        let promoted = active.promoted.take();
        self.socket.is_dirty = true;
        match outcome {
            Outcome::Registered(plugin) => self.record_registered(&active, &plugin),
            Outcome::Deregistered(answer) => {
                let kind = answer.map_or_else(EventKind::NotUndone, |()| EventKind::Deregistered);
                active.emit_event(self.socket, kind, &mut self.manager.context);
            }
            Outcome::Observed(found) => self.record_observed(&active, found),
            Outcome::Alive(plugin) => self.record_alive(&plugin),
            Outcome::Changed(plugin) => {
                active.plugin = Some(plugin);
                self.record_changed(&active);
            }
            Outcome::Failed(failure) if active.target == Target::Checked => {
                self.record_check_failure(&failure);
            }
            Outcome::Cancelled => log::debug!(
                "{}: cancelled the operation",
                self.socket.label(active.number)
            ),
            Outcome::Failed(failure) => self.record_failure(&active, &failure, false),
            Outcome::Refused(refusal) => {
                self.record_failure(&active, &Failure::Refused(refusal), true);
            }
        }
        if let Some(promoted) = promoted {
            self.notify_promoted(&promoted);
        }
    }

    fn record_registered(&mut self, active: &Active, plugin: &Arc<Plugin>) {
        let now = self.manager.context.now;
        let desired = self.socket.desired_of(active);
        let since = desired.as_ref().map_or(now, |it| it.wanted_since);
        let mut predecessor = None;
        if let Some(desired) = desired {
            predecessor = desired.record_registered();
            self.socket.is_dirty = false;
        }
        let took = now.saturating_since(since);
        let kind = EventKind::Registered { took };
        active.emit_event(self.socket, kind, &mut self.manager.context);
        let health = self.socket.registered.as_ref().map(|it| &it.health);
        let uid = health.and_then(|it| it.process).map(|it| it.uid);
        let manager = &mut *self.manager;
        let context = &mut manager.context;
        let current = manager.names.add_instance(Instance {
            plugin: plugin.clone(),
            socket: self.socket.id,
            uid,
        });
        let replaced = current.map(|it| it.socket);
        if let Some(kind) = takeover_warning(plugin, uid, current, predecessor) {
            context.emit(PluginEvent::of_plugin(plugin, kind));
        }
        if let Some(replaced) = replaced {
            manager.sockets.note_standby_change(replaced, context);
        }
        if self.socket.announced().is_some() {
            // mutation: an older endpoint of a name that is announced again stays
            self.withdraw_superseded(plugin);
        }
        let handler = self.manager.host.handlers.find(&plugin.kind);
        if let (true, Some(registered)) = (active.handler != handler, &mut self.socket.registered) {
            // The handler was replaced or removed meanwhile: the old handler has to deregister the
            // plugin. After that, the new handler, if there is one, registers the plugin.
            registered.health.must_deregister = true;
            self.socket.is_dirty = true;
        }
        if let Some(handler) = active.handler {
            let Manager { host, context, .. } = &mut *self.manager;
            let subject = Some((self.socket.id.owner(), plugin));
            host.call_handler(handler, subject, context, |handler, context| {
                handler.registered(plugin, context);
            });
        }
    }

    /// Emits the event `Promoted` for a plugin that has become current, and notifies its handler,
    /// unless the plugin is not current any more.
    fn notify_promoted(&mut self, plugin: &Arc<Plugin>) {
        let current = self.manager.names.instances(plugin).last();
        let current = current.filter(|it| it.plugin == *plugin);
        let Some(id) = current.map(|it| it.socket) else {
            return;
        };
        let context = &mut self.manager.context;
        context.emit(PluginEvent::of_plugin(plugin, EventKind::Promoted));
        // Never the socket that is visited: another plugin has left the actual state there.
        let socket = self.manager.sockets.get(id);
        let registered = socket.and_then(Socket::registered);
        if let Some(KnownBy::Handler(handler)) = registered.map(|registered| registered.known_by) {
            let (host, subject) = (&mut self.manager.host, Some((id.owner(), plugin)));
            host.call_handler(handler, subject, context, |handler, context| {
                handler.promoted(plugin, context);
            });
        }
    }

    /// Records the result of a dry run, and emits an event if the result has changed.
    fn record_observed(&mut self, active: &Active, found: Result<Arc<Plugin>, Refusal>) {
        let now = self.manager.context.now;
        let Some(desired) = self.socket.desired_of(active) else {
            return;
        };
        if !desired.record_observed(&found, active.plugin.as_ref(), now) {
            return;
        }
        let handlers = &self.manager.host.handlers;
        let kind = match found {
            Ok(plugin) => EventKind::WouldRegister(handlers.not_checked(&plugin.kind)),
            Err(refusal) => EventKind::WouldRefuse(refusal),
        };
        active.emit_event(self.socket, kind, &mut self.manager.context);
    }

    /// Records that another plugin answers behind the socket of this one, which is registered or
    /// was registered before a restart, and has to be deregistered now.
    fn record_changed(&mut self, active: &Active) {
        let kind = EventKind::PluginChanged;
        active.emit_event(self.socket, kind, &mut self.manager.context);
        let desired = self.socket.desired_of(active);
        // mutation: a restored plugin is forgotten when another plugin answers on its socket
        let restored = desired.and_then(|it| it.restored.take());
        let context = &mut self.manager.context;
        self.socket
            .deregister_restored(restored, active.identity, context);
        if let Some(registered) = &mut self.socket.registered {
            registered.health.must_deregister = true;
        }
    }

    fn record_failure(&mut self, active: &Active, failure: &Failure, is_notified: bool) {
        self.request_reexamination(failure);
        let context = &mut self.manager.context;
        let Some(desired) = self.socket.desired_of(active) else {
            return;
        };
        let is_announced = desired.announced.is_some();
        let error = AnnouncementError::Failed(failure.clone());
        desired.answer_announcement(Err(error), context);
        let is_news = desired.record_failed(failure, context.now);
        if let Failure::Refused(refusal) = failure {
            desired.refused.clone_from(&active.plugin);
            desired.notified = is_notified.then(|| Box::new(refusal.clone()));
        }
        let pause = desired.backoff.delay().unwrap_or_default();
        let kind = EventKind::AttemptFailed {
            failure: Box::new(failure.clone()),
            retry_in: (!is_announced).then_some(pause),
            is_repeated: !is_news,
        };
        active.emit_event(self.socket, kind, &mut self.manager.context);
        if is_announced {
            let context = &mut self.manager.context;
            // mutation: a plugin that announced itself and was refused is tried again
            self.socket.withdraw_announcement(context);
        }
    }

    /// Requests another examination of the path if the socket there is not the one that the watch
    /// has found. inotify does not report that if the path is a symbolic link to the socket, or if
    /// the file system has no birth times and the modification time, which then identifies the
    /// socket, has changed.
    fn request_reexamination(&mut self, failure: &Failure) {
        if *failure == Failure::Dial(DialError::Replaced) {
            let path = self.socket.path.clone();
            let outputs = &mut self.manager.context.outputs;
            outputs.push_back(Output::Examine { path });
        }
    }

    /// Records that a registered plugin answered.
    fn record_alive(&mut self, plugin: &Arc<Plugin>) {
        let context = &mut self.manager.context;
        let Some(registered) = &mut self.socket.registered else {
            return;
        };
        if registered.health.record_answer(context.now) {
            context.emit(PluginEvent::of_plugin(plugin, EventKind::Up));
        }
    }

    /// Processes a failed check of a registered plugin, and sets the time of the next one. If the
    /// daemon lacked a descriptor or memory for the check, the plugin does not count as down.
    fn record_check_failure(&mut self, failure: &Failure) {
        self.request_reexamination(failure);
        let context = &mut self.manager.context;
        let slow_check = context.next_slow_check();
        let Some(registered) = &mut self.socket.registered else {
            return;
        };
        let health = &mut registered.health;
        if matches!(
            failure,
            Failure::Dial(DialError::NoDescriptors)
                | Failure::Driver(_, DialError::NoDescriptors)
                | Failure::GetInfo(CallError::OverBudget)
        ) {
            health.check_at = Some(slow_check); // The plugin may well be up.
            return;
        }
        if !health.record_no_answer(failure.is_socket_changed(), context.now) {
            return;
        }
        self.handle_down(failure);
    }

    /// Records that an announced plugin is down, because its handler has given the plugin up.
    pub(super) fn set_down(&mut self, plugin: &Arc<Plugin>, reason: Reason) {
        let announced = self.socket.announced();
        let is_it = announced.is_some_and(|it| Arc::ptr_eq(&it.plugin, plugin));
        let registered = self.socket.registered.as_mut().filter(|_| is_it);
        if registered.is_some_and(|it| it.health.record_given_up()) {
            self.handle_down(&Failure::GivenUp(reason));
        }
    }

    /// Records that a registered plugin is down from now on: applies the policy for such plugins,
    /// emits the event, and retries the sockets that the plugin has blocked.
    fn handle_down(&mut self, failure: &Failure) {
        let context = &mut self.manager.context;
        let Some(registered) = &mut self.socket.registered else {
            return;
        };
        let health = &mut registered.health;
        let is_announced = registered.identity.is_of_announcement();
        let sockets = &mut self.manager.sockets;
        let names = &self.manager.names;
        let has_fallback = names
            .other_instances(&registered.plugin, self.socket.id)
            .any(|it| sockets.is_up(it.socket));
        let grace = match context.policy.on_down {
            _ if is_announced && has_fallback => Some(Duration::ZERO),
            OnDown::Keep if is_announced => Some(DEVICE_GRACE),
            OnDown::Keep => None,
            OnDown::Deregister(grace) => Some(grace),
        };
        let is_over = grace == Some(Duration::ZERO);
        health.must_deregister |= is_over;
        let grace_until = grace.filter(|_| !is_over).map(|grace| context.now + grace);
        health.down = Some(Box::new(Down {
            since: context.now,
            grace_until,
            is_given_up: matches!(failure, Failure::GivenUp(_)),
        }));
        let is_process = !matches!(failure, Failure::Driver(..) | Failure::GivenUp(_));
        let down = EventKind::Down {
            process: health.process.filter(|_| is_process),
            failure: Box::new(failure.clone()),
            grace,
        };
        // mutation: a plugin that is down is not reported
        context.emit(PluginEvent::of_plugin(&registered.plugin, down));
        sockets.retry_blocked(self.socket.id, names, context);
        if is_announced && is_over {
            self.socket.withdraw_announcement(context);
        }
    }
}

impl Active {
    /// Emits an event of the operation, about its plugin if that is known.
    pub(super) fn emit_event(&self, socket: &Socket, kind: EventKind, context: &mut Context) {
        context.emit(PluginEvent {
            attempt: self.number,
            plugin: self.plugin.clone(),
            ..PluginEvent::of_socket(&socket.path, kind)
        });
    }
}

/// Returns a warning if a plugin that was registered runs as another user than the plugin that had
/// its name: the newest of that name or else `predecessor`, which was at the same path.
///
/// Unless trust is strict or the name is pinned, every process that may create sockets in a watched
/// directory may register under any name, and the newest plugin of a name is the one to use. In a
/// rolling update the old and the new plugin usually run as the same user, so another user is worth
/// a warning.
fn takeover_warning(
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

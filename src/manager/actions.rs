//! The actions of an operation, carried out on its socket and on the state that sockets share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

use super::Manager;
use super::connections::{Connection, Owner, SERVERS, Server};
use super::context::Context;
use super::event::{EventKind, Shortage};
use super::failure::Refusal;
use super::ids::SocketId;
use super::messages::Output;
use super::names::Names;
use super::operation::{Actions, Question, Reply};
use super::reconcile::Target;
use super::registered::{Driver, Health, KnownBy, Registered};
use super::socket::{Active, Label, Pending, Socket};
use crate::config::{
    DIAL_RETRY, DIAL_RETRY_AT_START, GET_INFO_TIMEOUT, MAX_GET_INFO_REPLY, MAX_SMALL_MESSAGE,
    READY_GRACE, STALLED_AFTER,
};
use crate::escape;
use crate::grpc::{CallError, Client};
use crate::handler::{Answer, DialError, HandlerId, Hints, Plugin, Reason};
use crate::proto::pluginregistration::{InfoRequest, RegistrationStatus, registration};
use crate::time::Time;

/// An operation that takes a step: its socket is taken out of the table, and its [`Active`] out of
/// the socket.
#[must_use = "an operation that is not finished is lost"]
pub(super) struct Execution<'a> {
    pub(super) manager: &'a mut Manager,
    pub(super) socket: &'a mut Socket,
    pub(super) active: Box<Active>,
}

impl Actions for Execution<'_> {
    fn now(&self) -> Time {
        self.manager.context.now
    }

    fn first_dial_pause(&self) -> Duration {
        match &self.socket.desired {
            Some(desired) if desired.existed_at_start => DIAL_RETRY_AT_START,
            _ => DIAL_RETRY.first,
        }
    }

    fn socket_path(&self) -> Arc<Path> {
        self.socket.path.clone()
    }

    fn dial(&mut self, endpoint_of: Option<&Plugin>) -> Result<(), DialError> {
        let (path, identity) = match endpoint_of {
            Some(plugin) => (self.manager.context.endpoint_path(&plugin.endpoint), None),
            None => (self.socket.path.clone(), Some(self.active.identity)),
        };
        log::debug!("{}: connecting path={}", self.label(), escape::path(&path));
        let context = &mut self.manager.context;
        if context.connections.room_for_operations() == 0 || !context.make_room() {
            context.warn_of_shortage(Shortage::Plugins);
            return Err(DialError::NoDescriptors);
        }
        let conn = context.connections.add(Owner::Operation(self.socket.id));
        self.active.connection = Some(Connection {
            id: conn,
            client: None,
        });
        context.outputs.push_back(Output::Dial {
            conn,
            path,
            identity,
        });
        Ok(())
    }

    fn call_get_info(&mut self) -> Option<Reply> {
        log::debug!("{}: calling GetInfo", self.label());
        let request = InfoRequest {}.encode_to_vec();
        let deadline = self.now() + GET_INFO_TIMEOUT;
        let method = registration::GET_INFO;
        self.call_plugin(method, &request, MAX_GET_INFO_REPLY, deadline)
    }

    fn notify_plugin(&mut self, refusal: Option<&Refusal>, deadline: Time) -> Option<Reply> {
        if self.active.identity.is_of_announcement() {
            log::debug!(
                "{}: answering the Register call plugin_registered={}",
                self.label(),
                refusal.is_none()
            );
            let desired = self.socket.desired_of(&self.active);
            // A refusal is the answer once the operation has ended.
            if let (None, Some(desired)) = (refusal, desired) {
                desired.answer_announcement(Ok(()), &mut self.manager.context);
            }
            return Some(Ok(Vec::new()));
        }
        let desired = self.socket.desired_of(&self.active);
        if let (Some(refusal), Some(desired)) = (refusal, desired) {
            if desired.is_notification_redundant(self.active.plugin.as_ref(), refusal) {
                return Some(Ok(Vec::new()));
            }
        }
        log::debug!(
            "{}: calling NotifyRegistrationStatus plugin_registered={}",
            self.label(),
            refusal.is_none()
        );
        let error = refusal.and_then(|why| why.status_error(&self.socket.path));
        let status = RegistrationStatus {
            plugin_registered: refusal.is_none(),
            error: error.unwrap_or_default(),
        };
        let method = registration::NOTIFY_REGISTRATION_STATUS;
        let request = status.encode_to_vec();
        self.call_plugin(method, &request, MAX_SMALL_MESSAGE, deadline)
    }

    fn hang_up(&mut self) {
        if let Some(connection) = self.active.connection.take() {
            self.manager.context.hang_up(connection);
        }
    }

    fn monitor_liveness(&mut self, server: Server) {
        let caller = self.socket.announced().and_then(|it| it.caller);
        let Some(registered) = &mut self.socket.registered else {
            return self.hang_up();
        };
        let context = &mut self.manager.context;
        // The endpoint of a plugin that has announced itself counts as its registration socket.
        let server = if registered.identity.is_of_announcement() {
            Server::Registration
        } else {
            server
        };
        let health = &mut registered.health;
        if matches!(server, Server::Registration) {
            health.process = self.active.process.or(caller);
        }
        match self.active.connection.take() {
            Some(connection) => {
                health.set_liveness_source(server, self.socket.id, connection, context);
            }
            None => health.check_at = Some(context.next_slow_check()),
        }
    }

    fn is_driver_lost(&self) -> bool {
        let registered = self.socket.registered.as_ref();
        registered.is_some_and(|it| matches!(it.health.driver, Driver::Lost))
    }

    fn acquire_lock(&mut self, plugin: &Arc<Plugin>) -> bool {
        if !matches!(self.active.target, Target::Gone) {
            log::debug!(
                "{}: identified the plugin as {plugin} endpoint={} versions={}",
                self.label(),
                escape::path(&plugin.endpoint),
                escape::text(&plugin.versions.join(","))
            );
        }
        self.active.plugin = Some(plugin.clone());
        let before = self.socket.applied.name.replace(plugin.clone());
        debug_assert_eq!(before, None, "an operation acquires one name");
        self.manager.names.acquire_lock(plugin, self.socket.id)
    }

    fn ask(&mut self, question: Question, plugin: &Arc<Plugin>) -> Option<Result<(), Refusal>> {
        if matches!(question, Question::Deregister) {
            if let Some(desired) = &mut self.socket.desired {
                // This also undoes the registration from before a restart.
                // mutation: a restored plugin is deregistered twice
                desired.restored.take_if(|known| known == plugin);
            }
            self.manager.context.revision += 1;
            // Deregistering a restored plugin would also undo its registration through another
            // socket.
            let mut others = self.manager.names.other_instances(plugin, self.socket.id);
            let is_restored = self.active.handler.is_none();
            if is_restored && others.any(|it| it.plugin.has_endpoint_of(plugin)) {
                log::debug!(
                    "{}: not asking the handler to deregister {plugin}: it is registered through \
                     another socket",
                    self.label()
                );
                return Some(Ok(()));
            }
        }
        log::debug!(
            "{}: asking the handler to {question} {plugin}",
            self.label()
        );
        self.ask_handler(question, plugin).transpose()
    }

    fn abandon_question(&mut self, plugin: &Arc<Plugin>) {
        let pending = self.active.question.take();
        if let (Some(Pending { ticket, .. }), Some(handler)) = (pending, self.active.handler) {
            let Manager { host, context, .. } = &mut *self.manager;
            let subject = Some((self.socket.id.owner(), plugin));
            host.call_handler(handler, subject, context, |handler, context| {
                handler.abandon(ticket, context);
            });
        }
    }

    fn enter_actual(&mut self, plugin: &Arc<Plugin>) {
        debug_assert!(self.active.handler.is_some(), "it has validated the plugin");
        let known_by = match self.active.handler {
            Some(handler) => KnownBy::Handler(handler),
            None => KnownBy::Predecessor,
        };
        let registered = Registered::new(plugin.clone(), self.active.identity, known_by);
        self.socket
            .set_registered(registered, &mut self.manager.context);
    }

    fn leave_actual(&mut self) {
        let manager = &mut *self.manager;
        let context = &mut manager.context;
        let Some(mut left) = self.socket.take_registered(context) else {
            return;
        };
        for server in SERVERS {
            if let Some(liveness) = left.health.liveness_source_mut(server) {
                // mutation: the source of liveness of a plugin that has gone is kept
                liveness.close_and_unwatch(context);
            }
        }
        if let Some(desired) = &mut self.socket.desired {
            desired.wanted_since = context.now;
            if let Some(process) = left.health.process {
                desired.predecessor = Some(Box::new((left.plugin.clone(), process.uid)));
            }
        }
        let (sockets, names) = (&mut manager.sockets, &mut manager.names);
        // mutation: a plugin that is deregistered stays the one to use of its name
        let promoted = names.remove_instance(&left.plugin, self.socket.id);
        sockets.retry_blocked(self.socket.id, names, context);
        let next = promoted.as_ref();
        if let Some(current) = next.and_then(|it| names.instances(it).last()) {
            sockets.note_standby_change(current.socket, context);
        }
        self.active.promoted = promoted;
    }

    fn emit_event(&mut self, kind: EventKind) {
        let context = &mut self.manager.context;
        self.active.emit_event(self.socket, kind, context);
    }
}

impl Execution<'_> {
    /// Returns the prefix of the operation's log lines.
    fn label(&self) -> Label<'_> {
        self.socket.label(self.active.number)
    }

    fn call_plugin(
        &mut self,
        method: &'static str,
        request: &[u8],
        max_reply: usize,
        deadline: Time,
    ) -> Option<Reply> {
        let context = &mut self.manager.context;
        let Some(client) = self.active.client() else {
            return Some(Err(CallError::Cancelled));
        };
        client.unary(method, request, max_reply, deadline, context.now);
        self.active.call = Some((method, context.now));
        self.active.poll_connection(context)
    }

    /// Asks the plugin's handler. Returns `None` if the answer is pending. Without asking, refuses
    /// a plugin that has no handler, is not valid or not trusted, or whose endpoint is taken.
    fn ask_handler(
        &mut self,
        question: Question,
        plugin: &Arc<Plugin>,
    ) -> Result<Option<()>, Refusal> {
        let host = &self.manager.host;
        let handler = host.find_handler(question, plugin, self.active.handler)?;
        if matches!(question, Question::Validate) {
            self.apply_trust_policy(plugin)?;
        }
        self.active.handler = Some(handler);
        let Manager { host, context, .. } = &mut *self.manager;
        host.set_handler(self.socket, Some(handler), context);
        let mut hints = Hints::default();
        if matches!(question, Question::Register) {
            if let Some(refusal) = self.refuse_taken_endpoint(handler, plugin) {
                return Err(refusal);
            }
            if let Some(desired) = &self.socket.desired {
                hints.was_registered = desired.restored.as_ref() == Some(plugin);
                hints.is_announced = desired.announced.is_some();
                hints.ready_by = Some(desired.found + READY_GRACE);
            }
        }
        let Manager { host, context, .. } = &mut *self.manager;
        let subject = (self.socket.id.owner(), plugin);
        match host.ask(handler, question, subject, hints, context) {
            (Answer::Done(Ok(())), _) => Ok(Some(())),
            (Answer::Done(Err(reason)), _) => {
                let names = &mut self.manager.names;
                Err(self.socket.refuse(question, plugin, reason, names))
            }
            (Answer::Pending, ticket) => {
                self.active.question = Some(Pending {
                    ticket,
                    question,
                    stalls_at: Some(context.now + STALLED_AFTER),
                });
                Ok(None)
            }
        }
    }

    /// Returns the refusal of a plugin if another plugin of its name has the same endpoint and is
    /// up, unless the handler allows that. The refused plugin is retried once the other one is
    /// deregistered or down.
    fn refuse_taken_endpoint(
        &mut self,
        handler: HandlerId,
        plugin: &Arc<Plugin>,
    ) -> Option<Refusal> {
        let manager = &*self.manager;
        // "An endpoint of a DRA driver is registered once" ([R32](crate::guide::kubelet)).
        let reason = manager.host.handlers.get(handler)?.endpoint_taken(plugin)?;
        let holder = manager
            .names
            .other_instances(plugin, self.socket.id)
            .find(|it| it.plugin.has_endpoint_of(plugin) && manager.sockets.is_up(it.socket))?;
        let (id, holder) = (holder.socket, holder.plugin.socket.clone());
        let names = &mut self.manager.names;
        self.socket.request_retry_after(id, names);
        Some(Refusal::EndpointTaken { holder, reason })
    }
}

impl Health {
    /// Makes an established connection the source of liveness of that server, in place of an
    /// earlier one. If descriptors run short, closes the connection: the plugin is checked at long
    /// intervals instead.
    pub(super) fn set_liveness_source(
        &mut self,
        server: Server,
        socket: SocketId,
        mut connection: Connection,
        context: &mut Context,
    ) {
        connection
            .client
            .get_or_insert_with(|| Box::new(Client::new(context.now).with_budget(&context.budget)));
        let connections = &context.connections;
        // The last quarter of all descriptors is reserved for operations, calls and streams.
        if connections.descriptors_in_use() >= connections.limit - connections.limit / 4 {
            context.hang_up(connection);
            if matches!(server, Server::Endpoint) {
                self.driver = Driver::Lost;
            }
            self.check_at = Some(context.next_slow_check());
            return;
        }
        if let Some(mut before) = self.take_liveness_source(server) {
            before.close_and_unwatch(context);
        }
        let conn = connection.id;
        match server {
            Server::Registration => self.liveness = Some(connection),
            Server::Endpoint => self.driver = Driver::Watched(connection),
        }
        if self.liveness.is_some() && !matches!(self.driver, Driver::Lost) {
            self.check_at = None;
        }
        let owner = Owner::Liveness(socket, server);
        context.connections.hand_over(conn, owner);
        context.outputs.push_back(Output::WatchPeer(conn));
    }
}

impl Socket {
    /// Requests a retry of the socket once the plugin of `holder` is deregistered or down.
    pub(super) fn request_retry_after(&mut self, holder: SocketId, names: &mut Names) {
        if let Some(desired) = &mut self.desired {
            desired.is_blocked = true;
            names.blocked.insert(self.id, holder);
        }
    }

    /// Returns the refusal that follows if a handler has answered a question with this error. A
    /// plugin that fails validation is retried once the current plugin of its name is deregistered
    /// or down, because the current plugin may be the reason for the failure, as for CSI drivers.
    pub(super) fn refuse(
        &mut self,
        question: Question,
        plugin: &Arc<Plugin>,
        reason: Reason,
        names: &mut Names,
    ) -> Refusal {
        match question {
            Question::Validate => {
                let holder = names.instances(plugin).last().map(|current| current.socket);
                if let Some(holder) = holder {
                    self.request_retry_after(holder, names);
                }
                Refusal::Validation(reason)
            }
            // Plugins are not notified of a failed deregistration.
            Question::Register | Question::Deregister => Refusal::Registration(reason),
        }
    }
}

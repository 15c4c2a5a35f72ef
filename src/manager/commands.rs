//! The commands of an operation: what a socket does by itself, and what it asks of the manager.
//!
//! Pure.

use std::path::Path;
use std::sync::Arc;

use prost::Message as _;

use super::active::Active;
use super::connections::{Connection, Owner};
use super::context::{Context, Request};
use super::event::{EventKind, PluginEvent};
use super::failure::Refusal;
use super::messages::Output;
use super::operation::{Command, Event, Question, Step};
use super::reconcile::Target;
use super::registered::{By, Liveness, Registered};
use super::socket::{Socket, hang_up};
use crate::config::{GET_INFO_TIMEOUT, MAX_GET_INFO_REPLY, MAX_NOTIFY_REPLY};
use crate::escape;
use crate::grpc::Client;
use crate::proto::pluginregistration::{InfoRequest, RegistrationStatus, registration};
use crate::time::Time;
use crate::watch::Identity;

impl Socket {
    /// Processes an event of the operation, and carries out its commands. Returns the next event of
    /// the operation, if that follows at once.
    pub(super) fn step(&mut self, event: Event, context: &mut Context) -> Option<Event> {
        let active = self.active.as_mut()?;
        let operation = active.operation.take()?;
        let number = active.number;
        let outcome = match operation.handle(event, context.now, &mut context.commands) {
            Step::Goes(operation) => {
                active.operation = Some(operation);
                None
            }
            Step::Ignores(operation, unexpected) => {
                active.operation = Some(operation);
                log::debug!("{}: {unexpected}", self.label(number));
                None
            }
            Step::Ends(outcome) => Some(outcome),
        };
        let next = self.execute_commands(context);
        let ended = outcome.map(Request::Ended);
        context.requests.extend(ended);
        next
    }

    /// Begins an operation, and carries out its first commands. Returns the first event, if that
    /// follows at once.
    pub(super) fn begin(&mut self, active: Active, context: &mut Context) -> Option<Event> {
        self.active = Some(Box::new(active));
        self.execute_commands(context)
    }

    /// Carries out the commands of the operation.
    fn execute_commands(&mut self, context: &mut Context) -> Option<Event> {
        let mut commands = std::mem::take(&mut context.commands);
        let mut next = None;
        for command in commands.drain(..) {
            self.log_command(&command);
            let event = self.execute_command(command, context);
            debug_assert!(next.is_none() || event.is_none(), "{next:?} {event:?}");
            next = next.or(event);
        }
        context.commands = commands;
        next
    }

    fn execute_command(&mut self, command: Command, context: &mut Context) -> Option<Event> {
        let active = self.active.as_mut()?;
        match command {
            Command::Dial => context.requests.push_back(Request::Dial),
            Command::GetInfo => return self.get_info(context),
            Command::Notify(result, until) => return self.notify(result, until, context),
            Command::Hangup => {
                if let Some(connection) = active.connection.take() {
                    hang_up(connection, context);
                }
            }
            Command::MonitorLiveness => self.monitor_liveness(context),
            Command::AcquireLock(plugin) => active.plugin = Some(plugin),
            Command::Ask(question, plugin) => {
                if question == Question::Deregister {
                    if let Some(desired) = &mut self.desired {
                        // What was registered before a restart is undone as well.
                        desired.restored.take_if(|known| *known == plugin);
                    }
                    context.revision += 1;
                }
                context.requests.push_back(Request::Ask(question, plugin));
            }
            Command::Abandon(plugin) => {
                if let Some(pending) = active.question.take() {
                    let abandon = Request::Abandon(pending.ticket, plugin);
                    context.requests.push_back(abandon);
                }
            }
            Command::ReportNotConnected {
                error,
                retry_for,
                is_first,
            } => {
                let kind = EventKind::NotConnected {
                    error,
                    retry_for,
                    is_first,
                };
                context.emit(PluginEvent {
                    attempt: active.number,
                    ..PluginEvent::of_socket(&self.path, kind)
                });
            }
            Command::ReportNotUndone(plugin, refusal) => {
                let kind = EventKind::FailureNotUndone(refusal);
                context.emit(PluginEvent {
                    attempt: active.number,
                    ..PluginEvent::of_plugin(&plugin, kind)
                });
            }
            Command::EnterActual(plugin) => {
                debug_assert!(active.handler.is_some(), "it has validated the plugin");
                let by = active.handler.map_or(By::Predecessor, By::Handler);
                let registered = Registered::new(plugin, active.identity, by);
                self.set_registered(registered, context);
            }
            Command::LeaveActual => {
                if let Some(left) = self.take_registered(context) {
                    context.requests.push_back(Request::Left(Box::new(left)));
                }
            }
        }
        None
    }

    /// Dials the socket at `path`.
    pub(super) fn dial(&mut self, path: Arc<Path>, context: &mut Context) {
        let Some(active) = &mut self.active else {
            return;
        };
        let conn = context.connections.add(Owner::Operation(self.id));
        active.connection = Some(Connection::dialling(conn));
        let is_found = !active.identity.is_of_announcement();
        let identity = is_found.then_some(active.identity);
        let dial = Output::Dial {
            conn,
            path,
            identity,
        };
        context.outputs.push_back(dial);
    }

    fn get_info(&mut self, context: &mut Context) -> Option<Event> {
        let request = InfoRequest {}.encode_to_vec();
        let deadline = context.now + GET_INFO_TIMEOUT;
        let method = registration::GET_INFO;
        self.call(method, &request, MAX_GET_INFO_REPLY, deadline, context)
    }

    fn notify(
        &mut self,
        result: Result<(), Refusal>,
        deadline: Time,
        context: &mut Context,
    ) -> Option<Event> {
        let active = self.active.as_ref();
        if let Some(active) = active.filter(|it| it.identity.is_of_announcement()) {
            return Some(self.answer_announcement(active.identity, &result, context));
        }
        if let (Err(refusal), Some(active)) = (&result, active) {
            let desired = self.desired.as_ref();
            let desired = desired.filter(|it| it.identity == active.identity);
            if desired.is_some_and(|it| it.was_notified(active.plugin.as_ref(), refusal)) {
                return Some(Event::AlreadyNotified);
            }
        }
        let status = RegistrationStatus {
            plugin_registered: result.is_ok(),
            error: result
                .err()
                .and_then(|why| why.status_error(&self.path))
                .unwrap_or_default(),
        };
        let method = registration::NOTIFY_REGISTRATION_STATUS;
        let request = status.encode_to_vec();
        self.call(method, &request, MAX_NOTIFY_REPLY, deadline, context)
    }

    /// Reports to a plugin that has announced itself that it is registered. A failure is reported
    /// when the operation ends.
    fn answer_announcement(
        &mut self,
        identity: Identity,
        result: &Result<(), Refusal>,
        context: &mut Context,
    ) -> Event {
        if result.is_err() {
            return Event::AlreadyNotified;
        }
        let desired = self.desired.as_mut();
        if let Some(desired) = desired.filter(|it| it.identity == identity) {
            desired.answer_announcement(Ok(()), context);
        }
        Event::Replied(Ok(Vec::new()))
    }

    fn call(
        &mut self,
        method: &'static str,
        request: &[u8],
        max_reply: usize,
        deadline: Time,
        context: &mut Context,
    ) -> Option<Event> {
        let Some(client) = self.operation_client() else {
            return Some(Event::ConnectionLost);
        };
        client.unary(method, request, max_reply, deadline, context.now);
        if let Some(active) = &mut self.active {
            active.call = Some((method, context.now));
        }
        self.poll_connection(context)
    }

    /// Makes the connection of the operation, which has registered or checked the plugin, the
    /// plugin's source of liveness.
    fn monitor_liveness(&mut self, context: &mut Context) {
        let caller = self.announced().and_then(|it| it.caller);
        let connection = self.active.as_mut().and_then(|it| it.connection.take());
        let registered = self.registered.as_mut();
        let (mut connection, health) = match (connection, registered) {
            (Some(connection), Some(registered)) => (connection, &mut registered.health),
            (Some(connection), None) => return hang_up(connection, context),
            (None, Some(registered)) => {
                registered.health.process = caller;
                registered.health.check_at = Some(context.slow_check());
                return;
            }
            (None, None) => return,
        };
        health.process = connection.process.or(caller);
        connection
            .client
            .get_or_insert_with(|| Box::new(Client::new(context.now).within(&context.budget)));
        if !context.connections.may_watch_peer() {
            hang_up(connection, context);
            health.check_at = Some(context.slow_check());
            return;
        }
        let (conn, client) = (connection.id, connection.client);
        let before = health.liveness.replace(Liveness { conn, client });
        health.check_at = None;
        if let Some(mut before) = before {
            before.give_up(context);
        }
        let owner = Owner::Liveness(self.id);
        context.connections.hand_over(conn, owner);
        context.outputs.push_back(Output::WatchPeer { conn });
    }

    /// Logs a command whose effect a plugin or its handler sees.
    fn log_command(&self, command: &Command) {
        let Some(active) = &self.active else {
            return;
        };
        let label = self.label(active.number);
        match command {
            Command::Dial => log::debug!("{label}: connecting"),
            Command::GetInfo => log::debug!("{label}: calling GetInfo"),
            Command::AcquireLock(plugin) if active.target != Target::Gone => log::debug!(
                "{label}: the plugin is {plugin}; endpoint={} versions={}",
                escape::path(&plugin.endpoint),
                escape::text(&plugin.versions.join(","))
            ),
            Command::Ask(question, plugin) => {
                log::debug!("{label}: asking the handler to {question} {plugin}");
            }
            Command::Notify(result, _) if self.announced().is_some() => log::debug!(
                "{label}: answering the call of Register; plugin_registered={}",
                result.is_ok()
            ),
            Command::Notify(result, _) => log::debug!(
                "{label}: calling NotifyRegistrationStatus; plugin_registered={}",
                result.is_ok()
            ),
            _ => {}
        }
    }
}

//! The effects that handlers request: calls, streams, connections, programs, timers, debts, events,
//! late answers, plugins to set down, and the cancellation of other effects.

use std::sync::Arc;

use super::call::EndpointCall;
use super::{Debt, EffectKind, HandlerHost, Idle, OpenEffect};
use crate::config::{MAX_AT_ONCE, MAX_PROGRAMS};
use crate::grpc::{CallError, Client, Code};
use crate::handler::{
    CallFailure, Effect, EffectId, EffectOwner, Event as HandlerEvent, HandlerId, Plugin,
    ProgramOutcome, Run,
};
use crate::http2::Endpoint as _;
use crate::manager::context::{Context, Recipient, Work};
use crate::manager::event::{EventKind, PluginEvent};
use crate::manager::ids::SocketId;
use crate::manager::messages::{
    CANCELLED, ConnectionEvent, Limit, Measurement, Output, program_result,
};
use crate::manager::timers::{Scheduled, Timer};
use crate::time::Time;

impl HandlerHost {
    /// Carries out an effect that a handler has requested when it was called about that plugin.
    pub(super) fn execute_effect(
        &mut self,
        handler: HandlerId,
        plugin: Option<&Arc<Plugin>>,
        effect: Effect,
        context: &mut Context,
    ) {
        let recipient = |id: EffectId| {
            let plugin = plugin.filter(|_| id.owner != EffectOwner::HANDLER);
            let plugin = plugin.cloned();
            Recipient { handler, plugin }
        };
        match effect {
            Effect::Emit { plugin, notice } => {
                context.emit(PluginEvent::of_plugin(&plugin, EventKind::Reported(notice)));
            }
            Effect::SetDown { plugin, reason } => {
                context.work.push_back(Work::SetDown(plugin, reason));
            }
            Effect::Answer { ticket, result } => {
                context.work.push_back(Work::Answer(ticket, result));
            }
            Effect::Request {
                id,
                request,
                ready_by,
            } => {
                let call = EndpointCall::new(id, request, ready_by, context.now);
                self.call_endpoint(id, recipient(id), call, context);
            }
            Effect::Spawn { id, program, run } => {
                self.add_effect(id, recipient(id), EffectKind::Program(None, run));
                self.waiting.push_back((id, handler, program));
                self.start_programs(context);
                if self.waiting.iter().any(|(waiting, ..)| *waiting == id) {
                    context.emit_limit_hit(Limit::Programs);
                }
            }
            Effect::SetTimer { id, at } => {
                let effect = self.add_effect(id, recipient(id), EffectKind::Timer);
                let timer = Timer::Effect(id);
                context.timers.set(timer, &mut effect.deadline, Some(at));
            }
            Effect::Owe { id, plugin } => {
                self.owed.push(Debt {
                    id,
                    handler,
                    plugin,
                });
                context.revision += 1;
            }
            Effect::Cancel { id } => self.cancel_effect(id, context),
        }
    }

    fn add_effect(
        &mut self,
        id: EffectId,
        recipient: Recipient,
        kind: EffectKind,
    ) -> &mut OpenEffect {
        self.effects.entry(id).or_insert(OpenEffect {
            recipient,
            deadline: Scheduled::default(),
            kind,
        })
    }

    /// Removes an effect, if it is open, and releases what it holds. Returns the recipient of its
    /// last event.
    fn close_effect(&mut self, id: EffectId, context: &mut Context) -> Option<Recipient> {
        let mut effect = self.effects.remove(&id)?;
        let timer = Timer::Effect(id);
        context.timers.set(timer, &mut effect.deadline, None);
        match effect.kind {
            EffectKind::Timer => {}
            EffectKind::Call(mut call) => call.hang_up(context),
            EffectKind::Program(None, _) => self.waiting.retain(|(waiting, ..)| *waiting != id),
            EffectKind::Program(Some(started), run) => {
                emit_run_measurement(started, run, CANCELLED, context);
                context.outputs.push_back(Output::Kill(id));
                self.record_program_end(effect.recipient.handler, context);
            }
        }
        Some(effect.recipient)
    }

    /// Cancels an effect or a debt, and drops the events that were not delivered yet.
    fn cancel_effect(&mut self, id: EffectId, context: &mut Context) {
        drop_events_of(context, &|effect| effect == id);
        if let Some(at) = self.owed.iter().position(|debt| debt.id == id) {
            self.owed.remove(at);
            context.revision += 1;
        }
        self.close_effect(id, context);
    }

    /// Cancels the open effects of an owner.
    pub(in crate::manager) fn cancel_effects_of(
        &mut self,
        owner: EffectOwner,
        context: &mut Context,
    ) {
        drop_events_of(context, &|effect| effect.owner == owner);
        let first = owner.first_effect();
        let next = |host: &Self| host.effects.range(first..).map(|(id, _)| *id).next();
        while let Some(id) = next(self).filter(|id| id.owner == owner) {
            self.close_effect(id, context);
        }
    }

    /// Ends an effect with its last event.
    fn end_effect(&mut self, event: HandlerEvent, context: &mut Context) {
        if let Some(recipient) = self.close_effect(event.effect(), context) {
            context.work.push_back(Work::Effect(recipient, event));
        }
    }

    /// Processes the deadline of an effect.
    pub(in crate::manager) fn handle_timeout(&mut self, id: EffectId, context: &mut Context) {
        let Some(effect) = self.effects.get_mut(&id) else {
            return;
        };
        effect.deadline = Scheduled::default();
        match &mut effect.kind {
            EffectKind::Timer => self.end_effect(HandlerEvent::TimerFired { id }, context),
            EffectKind::Call(call) => {
                let event = call.handle_timeout(context);
                self.advance_call(id, event, context);
            }
            // The daemon reports the end of the program, or that it was not started.
            EffectKind::Program(..) => context.outputs.push_back(Output::Kill(id)),
        }
    }

    // --- Calls ---

    fn call_endpoint(
        &mut self,
        id: EffectId,
        recipient: Recipient,
        mut call: EndpointCall,
        context: &mut Context,
    ) {
        let is_reused = self.reuse_idle(id, &mut call, context);
        let event = if is_reused { None } else { call.dial(context) };
        self.add_effect(id, recipient, EffectKind::Call(Box::new(call)));
        self.advance_call(id, event, context);
    }

    /// Opens a stream on the idle connection, if that is of the same plugin and endpoint. Otherwise
    /// hands over that connection, and returns false: the endpoint has to be dialed.
    fn reuse_idle(&mut self, id: EffectId, call: &mut EndpointCall, context: &mut Context) -> bool {
        let fits = |idle: &mut Idle| idle.owner == id.owner && idle.endpoint == call.endpoint;
        if let Some(idle) = self.idle.take_if(fits) {
            match call.reuse_connection(idle.connection, context) {
                None => return true,
                Some(connection) => self.idle = Some(Idle { connection, ..idle }),
            }
        }
        self.hand_over_idle(context);
        false
    }

    /// Offers the idle connection, if there is one, to its plugin as the driver's source of
    /// liveness. If the plugin needs none, or the call was made for no plugin, the connection is
    /// closed.
    pub(super) fn hand_over_idle(&mut self, context: &mut Context) {
        let Some(idle) = self.idle.take() else {
            return;
        };
        match SocketId::of_owner(idle.owner) {
            Some(id) => {
                let work = Work::Endpoint(id, idle.endpoint, idle.connection);
                context.work.push_back(work);
            }
            None => context.hang_up(idle.connection),
        }
    }

    fn call_mut(&mut self, id: EffectId) -> Option<&mut EndpointCall> {
        match &mut self.effects.get_mut(&id)?.kind {
            EffectKind::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Returns the client of an effect's connection.
    pub(in crate::manager) fn client(&mut self, id: EffectId) -> Option<&mut Client> {
        self.call_mut(id)?.client()
    }

    /// Processes an event of a connection.
    pub(in crate::manager) fn handle_connection_event(
        &mut self,
        id: EffectId,
        event: ConnectionEvent,
        context: &mut Context,
    ) {
        let Some(call) = self.call_mut(id) else {
            return;
        };
        let mut failed = None;
        match event {
            ConnectionEvent::Connected(_) => call.attach_client(context),
            ConnectionEvent::DialFailed(error) => {
                failed = call.handle_dial_failed(error, context.now);
            }
            ConnectionEvent::Closed => match call.client() {
                Some(client) => client.eof(context.now),
                None => return,
            },
            ConnectionEvent::Exchanged => {}
            ConnectionEvent::Watched | ConnectionEvent::ProcessEnded => return,
        }
        self.advance_call(id, failed, context);
    }

    /// Queues the events of a call for the handler, `first` before all others, and sets the next
    /// deadline. If there are more than [`MAX_AT_ONCE`] events, requests to continue later
    /// ([`Output::Resume`]).
    fn advance_call(
        &mut self,
        id: EffectId,
        mut first: Option<HandlerEvent>,
        context: &mut Context,
    ) {
        for _ in 0..=MAX_AT_ONCE {
            let Some(effect) = self.effects.get_mut(&id) else {
                return;
            };
            let EffectKind::Call(call) = &mut effect.kind else {
                return;
            };
            let Some(event) = first.take().or_else(|| call.poll(context)) else {
                let (timer, at) = (Timer::Effect(id), call.poll_timeout());
                let deadline = &mut effect.deadline;
                let Some(connection) = &mut call.connection else {
                    return context.timers.set(timer, deadline, at);
                };
                connection.flush(&mut context.outputs);
                return context.timers.set_or_keep_earlier(timer, deadline, at);
            };
            if is_last(&event) {
                return self.end_call(event, context);
            }
            let recipient = effect.recipient.clone();
            context.work.push_back(Work::Effect(recipient, event));
        }
        let call = self.call_mut(id);
        if let Some(connection) = call.and_then(|it| it.connection.as_mut()) {
            connection.flush(&mut context.outputs);
            let conn = connection.id;
            context.outputs.push_back(Output::Resume(conn));
        }
    }

    /// Ends a call, stream or connection with its last event. If the connection is still open, it
    /// is kept until the handler has processed the event.
    fn end_call(&mut self, event: HandlerEvent, context: &mut Context) {
        let id = event.effect();
        let Some(call) = self.call_mut(id) else {
            return;
        };
        if is_connection_lost(&event) {
            let socket = SocketId::of_owner(id.owner);
            context.work.extend(socket.map(Work::CheckEndpoint));
        }
        if let HandlerEvent::Called { method, result, .. } = &event {
            let measurement = Measurement::Called {
                method,
                code: result.as_ref().map_or_else(CallFailure::code, |_| Code::Ok),
                took: context.now.saturating_since(call.began),
            };
            context.outputs.push_back(Output::Measured(measurement));
        }
        let connection = call.connection.take();
        let endpoint = call.endpoint.clone();
        self.hand_over_idle(context);
        self.idle = connection.map(|connection| Idle {
            owner: id.owner,
            endpoint,
            connection,
        });
        self.end_effect(event, context);
    }

    // --- Programs ---

    /// Starts programs that wait, up to [`MAX_PROGRAMS`] at a time, of which half may be for one
    /// handler, and so for one type. A program counts as running until the daemon reports its end,
    /// or is asked to kill it because its effect was cancelled.
    fn start_programs(&mut self, context: &mut Context) {
        while self.running.len() < MAX_PROGRAMS {
            let of = |handler| self.running.iter().filter(|it| **it == handler).count();
            let may_start = |handler| of(handler) < MAX_PROGRAMS / 2;
            let mut waiting = self.waiting.iter();
            let next = waiting.position(|(_, handler, _)| may_start(*handler));
            let Some((id, handler, program)) = next.and_then(|at| self.waiting.remove(at)) else {
                break;
            };
            let Some(OpenEffect {
                kind: EffectKind::Program(started, run),
                deadline,
                ..
            }) = self.effects.get_mut(&id)
            else {
                continue;
            };
            *started = Some(context.now);
            self.running.push(handler);
            let at = context.now + program.timeout;
            context.timers.set(Timer::Effect(id), deadline, Some(at));
            // mutation: a program is started although its plugin is not saved
            let is_add = run.as_deref().is_some_and(|run| run.action == "add");
            let spawn = Output::Spawn {
                id,
                program,
                is_add,
            };
            context.outputs.push_back(spawn);
        }
        context.connections.programs = self.running.len();
    }

    /// Records that a program of this handler does not run any more, and starts the next ones.
    fn record_program_end(&mut self, handler: HandlerId, context: &mut Context) {
        if let Some(place) = self.running.iter().position(|it| *it == handler) {
            self.running.swap_remove(place);
        }
        self.start_programs(context);
    }

    /// Processes the end of a program.
    pub(in crate::manager) fn handle_program_ended(
        &mut self,
        id: EffectId,
        outcome: ProgramOutcome,
        context: &mut Context,
    ) {
        let Some(effect) = self.effects.get_mut(&id) else {
            return;
        };
        let EffectKind::Program(started, run) = &mut effect.kind else {
            return;
        };
        let Some(since) = started.take() else {
            return;
        };
        let handler = effect.recipient.handler;
        emit_run_measurement(since, run.take(), program_result(&outcome.end), context);
        self.end_effect(HandlerEvent::ProgramEnded { id, outcome }, context);
        self.record_program_end(handler, context);
    }

    /// Ends every call, stream and connection, without an event for its handler.
    pub(in crate::manager) fn hang_up_all(&mut self, context: &mut Context) {
        let ids: Vec<_> = self.effects.keys().copied().collect();
        for id in ids {
            if self.call_mut(id).is_some() {
                self.close_effect(id, context);
            }
        }
    }
}

/// Returns whether no event of its effect follows.
fn is_last(event: &HandlerEvent) -> bool {
    !matches!(
        event,
        HandlerEvent::StreamMessage { .. } | HandlerEvent::Connected { .. }
    )
}

/// Returns whether the event reports the end of an established connection: that of a stream, or one
/// without a call.
fn is_connection_lost(event: &HandlerEvent) -> bool {
    match event {
        HandlerEvent::StreamEnded {
            result: Err(CallFailure::Call(CallError::Connection { .. })),
            ..
        } => true,
        HandlerEvent::Disconnected { error, .. } => error.is_none(),
        _ => false,
    }
}

/// Drops the events of some effects that were not delivered yet.
fn drop_events_of(context: &mut Context, is_dropped: &dyn Fn(EffectId) -> bool) {
    context.work.retain(|work| match work {
        Work::Effect(_, event) => !is_dropped(event.effect()),
        _ => true,
    });
}

/// Emits the measurement of a program that has ended, if its handler has given labels for it.
fn emit_run_measurement(
    started: Time,
    run: Option<Box<Run>>,
    result: &'static str,
    context: &mut Context,
) {
    let Some(Run { plugin, action }) = run.map(|run| *run) else {
        return;
    };
    let measurement = Measurement::Ran {
        plugin,
        action,
        result,
        took: context.now.saturating_since(started),
    };
    context.outputs.push_back(Output::Measured(measurement));
}

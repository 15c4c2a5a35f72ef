//! Carries out the effects that handlers ask for, reports their results, and dispatches the events
//! of every connection.
//!
//! Pure.

use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

use super::deadlines::Kept;
use super::execute::Work;
use super::links::{EffectCall, LinkId, Owner, Phase, Process, Request, Shape};
use super::operation::Event;
use super::ready::Retry;
use super::shortage::Waiting;
use super::{Manager, Output, Wake};
use crate::config::{DIAL_TIMEOUT, MAX_EVENTS_AT_ONCE, MAX_REPLY};
use crate::grpc::{self, CallError, Client};
use crate::handler::{
    CallFailure, Context, DialError, Effect, EffectId, EffectIds, Event as HandlerEvent, HandlerId,
    Plugin, PluginHandler, Ticket,
};
use crate::http2::Endpoint as _;
use crate::time::Time;

/// The effects that handlers have asked for and that have not ended, except programs.
#[derive(Debug, Default)]
pub(super) struct Effects {
    ids: EffectIds,
    open: LiteMap<EffectId, Open>,
    /// The plugins that handlers have yet to deregister.
    owed: LiteMap<EffectId, Arc<Plugin>>,
    /// The number of changes to `owed`.
    owed_revision: u64,
}

impl Effects {
    /// Returns the plugins that handlers have yet to deregister.
    pub(super) fn owed(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        self.owed.values()
    }

    /// Returns a number that changes whenever the plugins that are owed change.
    pub(super) fn owed_revision(&self) -> u64 {
        self.owed_revision
    }
}

#[derive(Debug)]
enum Open {
    /// A call, stream or connection, and for a call how it is retried if its endpoint is not ready.
    Call(LinkId, Option<Box<Retry>>),
    /// A call that is retried when its timer fires, because its endpoint was not ready.
    NotReady(Box<Retry>),
    Timer(HandlerId),
}

/// Work for or with a handler.
#[derive(Debug)]
pub(super) enum HandlerWork {
    /// Deliver an event of one of its effects.
    Tell(HandlerId, HandlerEvent),
    /// Carry out an effect that the handler asks for.
    Do(HandlerId, Effect),
    /// Resume a deregistration that the previous process owed, if there is a handler for it.
    Resume(Option<HandlerId>, Arc<Plugin>),
}

impl Manager {
    /// Calls one method of a handler, and queues the effects that the method asks for.
    pub(super) fn with_handler<T>(
        &mut self,
        id: HandlerId,
        ticket: Option<Ticket>,
        now: Time,
        method: impl FnOnce(&mut dyn PluginHandler, &mut Context<'_>) -> T,
    ) -> T {
        let mut wanted = Vec::new();
        let mut context = Context::new(now, ticket, &mut self.effects.ids, &mut wanted);
        let result = method(self.handlers.get_mut(id), &mut context);
        for effect in wanted {
            if let Effect::Cancel { id } = effect {
                self.drop_events(id);
            }
            self.work
                .push_back(Work::Handler(HandlerWork::Do(id, effect)));
        }
        result
    }

    /// Drops the events of an effect that were not delivered yet.
    fn drop_events(&mut self, id: EffectId) {
        self.work.retain(|work| match work {
            Work::Handler(HandlerWork::Tell(_, event)) => event.effect() != id,
            _ => true,
        });
    }

    pub(super) fn handler_work(&mut self, work: HandlerWork, now: Time) {
        match work {
            HandlerWork::Tell(handler, event) => {
                self.with_handler(handler, None, now, |handler, context| {
                    handler.handle_event(event, context);
                });
            }
            HandlerWork::Do(handler, effect) => self.do_effect(handler, effect, now),
            HandlerWork::Resume(handler, plugin) => {
                let is_resumed = handler.is_some_and(|handler| {
                    self.with_handler(handler, None, now, |handler, context| {
                        handler.resume_deregistration(&plugin, context)
                    })
                });
                if !is_resumed {
                    self.effects.owed_revision += 1; // The snapshot leaves it out from now on.
                    log_not_resumed(&plugin);
                }
            }
        }
    }

    fn do_effect(&mut self, handler: HandlerId, effect: Effect, now: Time) {
        match effect {
            Effect::Answer { ticket, result } => self.answered(ticket, result),
            Effect::Call { id, call, ready_by } => {
                let (path, deadline) = (call.endpoint.clone(), now + call.timeout);
                let effect = EffectCall {
                    id,
                    handler,
                    deadline,
                    shape: Shape::Call,
                };
                let retry = ready_by.filter(|until| now < *until);
                let retry = retry.map(|until| Box::new(Retry::new(effect, call.clone(), until)));
                self.dial_endpoint(&path, Request::Call(call), effect, retry, now);
            }
            Effect::Stream { id, stream } => {
                let (path, deadline) = (stream.endpoint.clone(), now + stream.dial_timeout);
                let effect = EffectCall {
                    id,
                    handler,
                    deadline,
                    shape: Shape::Stream,
                };
                self.dial_endpoint(&path, Request::Stream(stream), effect, None, now);
            }
            Effect::Spawn { id, program } => self.spawn(handler, id, program, now),
            Effect::Connect { id, endpoint } => {
                let effect = EffectCall {
                    id,
                    handler,
                    deadline: now + DIAL_TIMEOUT,
                    shape: Shape::Connection { is_told: false },
                };
                self.dial_endpoint(&endpoint, Request::Nothing, effect, None, now);
            }
            Effect::SetTimer { id, at } => {
                self.effects.open.insert(id, Open::Timer(handler));
                self.deadlines.set(Wake::Timer(id), Some(at));
            }
            Effect::Owe { id, plugin } => {
                self.effects.owed.insert(id, plugin);
                self.effects.owed_revision += 1;
            }
            Effect::Cancel { id } => match self.effects.open.remove(&id) {
                Some(Open::Call(link, _)) => self.drop_link(link, now),
                Some(Open::NotReady(_) | Open::Timer(_)) => {
                    self.deadlines.set(Wake::Timer(id), None);
                }
                None if self.effects.owed.remove(&id).is_some() => {
                    self.effects.owed_revision += 1;
                }
                None => self.cancel_program(id, now),
            },
        }
    }

    fn dial_endpoint(
        &mut self,
        path: &Path,
        request: Request,
        effect: EffectCall,
        retry: Option<Box<Retry>>,
        now: Time,
    ) {
        let has_room = self.make_room_for(effect.usage(), now);
        let link = self.links.add(Owner::Effect(effect), Some(request));
        self.effects.open.insert(effect.id, Open::Call(link, retry));
        if !has_room {
            self.links.remove(link);
            self.warn_of_shortage(Waiting::of_effect(effect.usage()), now);
            return self.effect_failed(effect, DialError::NoDescriptors, now);
        }
        self.set_link_deadline(link, effect.deadline);
        self.outputs.push_back(Output::Dial {
            link,
            path: self.endpoint_place(path),
            identity: None,
        });
    }

    /// Sets the time by which a connection must have been established.
    pub(super) fn set_link_deadline(&mut self, link: LinkId, until: Time) {
        if let Some(open) = self.links.get_mut(link) {
            self.deadlines
                .set_kept(Wake::Link(link), &mut open.deadline, Some(until));
        }
    }

    pub(super) fn timer_fired(&mut self, id: EffectId, now: Time) {
        match self.effects.open.remove(&id) {
            Some(Open::Timer(handler)) => self.tell(handler, HandlerEvent::TimerFired { id }),
            Some(Open::NotReady(retry)) => {
                let (call, effect) = (retry.call.clone(), retry.effect);
                let path = call.endpoint.clone();
                self.dial_endpoint(&path, Request::Call(call), effect, Some(retry), now);
            }
            Some(Open::Call(..)) | None => {}
        }
    }

    /// Schedules another attempt of a call that failed because its endpoint is not ready yet.
    /// Returns whether it did.
    fn retry_when_ready(&mut self, id: EffectId, failure: &CallFailure, now: Time) -> bool {
        let Some(Open::Call(_, retry)) = self.effects.open.get_mut(&id) else {
            return false;
        };
        let next = retry.as_mut().and_then(|it| it.after(failure, now));
        let (Some(at), Some(retry)) = (next, retry.take()) else {
            return false;
        };
        self.effects.open.insert(id, Open::NotReady(retry));
        self.deadlines.set(Wake::Timer(id), Some(at));
        true
    }

    pub(super) fn tell(&mut self, handler: HandlerId, event: HandlerEvent) {
        self.work
            .push_back(Work::Handler(HandlerWork::Tell(handler, event)));
    }

    pub(super) fn connected(&mut self, id: LinkId, process: Option<Process>, now: Time) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Phase::Dialing(request) = &mut link.phase else {
            return;
        };
        let request = request.take();
        let mut client = Box::new(Client::new(now));
        if let (Some(request), Owner::Effect(effect)) = (request, &link.owner) {
            make_call(&mut client, &request, effect.deadline, now);
        }
        match link.owner {
            // kubelet's dial waits for the server's SETTINGS, and the one second for GetInfo starts
            // then. The operation's deadline is still that of its dial, which began with the first
            // attempt.
            Owner::Operation(attempt) => {
                let running = self.operations.get_mut(attempt);
                if let Some(until) = running.and_then(|it| it.operation.deadline()) {
                    client.start_deadlines_when_ready(until);
                }
            }
            Owner::Endpoint(_) => {
                if let Some(until) = link.deadline.at() {
                    client.set_handshake_deadline(until);
                }
            }
            Owner::Effect(effect) => client.set_handshake_deadline(effect.deadline),
            Owner::Guard => {}
        }
        link.phase = Phase::Open(client);
        link.process = process;
        if let Owner::Operation(attempt) = link.owner {
            self.push_event(attempt, Event::Connected);
        } else {
            self.pump(id, now);
        }
    }

    pub(super) fn dial_failed(&mut self, id: LinkId, error: DialError, now: Time) {
        if error == DialError::NoDescriptors {
            self.descriptors_used_up(now);
        }
        let Some(mut link) = self.links.remove(id) else {
            return;
        };
        self.deadlines
            .set_kept(Wake::Link(id), &mut link.deadline, None);
        match link.owner {
            Owner::Operation(attempt) => self.push_event(attempt, Event::DialFailed(error)),
            Owner::Endpoint(attempt) => {
                let failed = Event::EndpointChecked(Err(CallFailure::Dial(error)));
                self.push_event(attempt, failed);
            }
            Owner::Effect(call) => self.effect_failed(call, error, now),
            Owner::Guard => {}
        }
    }

    pub(super) fn closed(&mut self, link: LinkId, now: Time) {
        // A connection that was closed because its process is watched may still report its end.
        let Some(open) = self.links.get_mut(link) else {
            return;
        };
        if matches!(open.owner, Owner::Guard) {
            return self.guard_lost(link, now);
        }
        if let Some(client) = open.client() {
            client.eof(now);
            self.pump(link, now);
        }
    }

    pub(super) fn link_timeout(&mut self, id: LinkId, now: Time) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.deadline = Kept::default();
        match (&mut link.phase, &link.owner) {
            (Phase::Open(client), _) => {
                client.handle_timeout(now);
                self.pump(id, now);
            }
            (Phase::Dialing(_), &Owner::Effect(call)) => {
                self.effect_failed(call, DialError::TimedOut, now);
                self.drop_link(id, now);
            }
            (Phase::Dialing(_), &Owner::Endpoint(attempt)) => {
                let error = CallFailure::Dial(DialError::TimedOut);
                self.push_event(attempt, Event::EndpointChecked(Err(error)));
            }
            // A dialling operation has a deadline of its own.
            (Phase::Dialing(_), Owner::Operation(..) | Owner::Guard) => {}
        }
    }

    /// Processes the events of a connection's client, after anything that may have changed it. If
    /// there are more than [`MAX_EVENTS_AT_ONCE`], asks to be called again.
    pub(super) fn pump(&mut self, id: LinkId, now: Time) {
        for _ in 0..MAX_EVENTS_AT_ONCE {
            let Some(link) = self.links.get_mut(id) else {
                return;
            };
            let Phase::Open(client) = &mut link.phase else {
                return;
            };
            let Some(event) = client.poll_event(now) else {
                return self.pumped(id, now);
            };
            match link.owner {
                Owner::Operation(attempt) => {
                    if let grpc::Event::Finished { result, .. } = event {
                        self.push_event(attempt, Event::Replied(result));
                    }
                }
                Owner::Effect(call) => self.effect_event(id, call, event, now),
                Owner::Endpoint(_) | Owner::Guard => {}
            }
        }
        self.outputs.push_back(Output::Resume { link: id });
        self.pumped(id, now);
    }

    /// Reports an event of a call to its handler, and closes the connection if the call has ended.
    fn effect_event(&mut self, link: LinkId, call: EffectCall, event: grpc::Event, now: Time) {
        let (id, handler) = (call.id, call.handler);
        match event {
            grpc::Event::Message { message, .. } => {
                self.tell(handler, HandlerEvent::StreamMessage { id, message });
            }
            grpc::Event::Finished { result, .. } => {
                let result = result.map_err(CallFailure::Call);
                self.call_ended(call, result, now);
                self.drop_link(link, now);
            }
            grpc::Event::Closed { result, .. } => {
                let result = result.map_err(CallFailure::Call);
                self.effect_ended(call, HandlerEvent::StreamEnded { id, result });
                self.drop_link(link, now);
            }
        }
    }

    /// Acts on the state of a connection's client once all of its events are processed.
    fn pumped(&mut self, id: LinkId, now: Time) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Phase::Open(client) = &mut link.phase else {
            return;
        };
        if client.is_closed() {
            match link.owner {
                Owner::Guard => return self.guard_lost(id, now),
                Owner::Effect(effect) if matches!(effect.shape, Shape::Connection { .. }) => {
                    return self.connection_lost(id, effect, now);
                }
                _ => {}
            }
        }
        let is_up = client.peer_settings().is_some();
        if !client.transmit().is_empty() {
            self.outputs.push_back(Output::Transmit { link: id });
        }
        let deadline = client.poll_timeout();
        self.deadlines
            .set_kept_or_earlier(Wake::Link(id), &mut link.deadline, deadline);
        if let Owner::Effect(effect) = &mut link.owner {
            if effect.shape == (Shape::Connection { is_told: false }) && is_up {
                effect.shape = Shape::Connection { is_told: true };
                let (id, handler) = (effect.id, effect.handler);
                self.tell(handler, HandlerEvent::Connected { id });
            }
        } else if let Owner::Endpoint(attempt) = link.owner {
            if let Some(result) = endpoint_result(client) {
                self.push_event(attempt, Event::EndpointChecked(result));
            }
        }
    }

    /// Reports to a handler that the connection it asked for was lost.
    fn connection_lost(&mut self, link: LinkId, effect: EffectCall, now: Time) {
        let (id, error) = (effect.id, None);
        self.effect_ended(effect, HandlerEvent::Disconnected { id, error });
        self.drop_link(link, now);
    }

    /// Reports to a handler that the connection for an effect could not be established.
    fn effect_failed(&mut self, call: EffectCall, error: DialError, now: Time) {
        let id = call.id;
        let event = match call.shape {
            Shape::Call => return self.call_ended(call, Err(CallFailure::Dial(error)), now),
            Shape::Stream => HandlerEvent::StreamEnded {
                id,
                result: Err(CallFailure::Dial(error)),
            },
            Shape::Connection { .. } => HandlerEvent::Disconnected {
                id,
                error: Some(error),
            },
        };
        self.effect_ended(call, event);
    }

    /// Reports the result of a unary call to its handler, unless the call is retried.
    fn call_ended(&mut self, call: EffectCall, result: Result<Vec<u8>, CallFailure>, now: Time) {
        let id = call.id;
        if let Err(failure) = &result {
            if self.retry_when_ready(id, failure, now) {
                return;
            }
        }
        self.effect_ended(call, HandlerEvent::Called { id, result });
    }

    /// Reports the end of an effect to its handler, unless the effect was cancelled.
    fn effect_ended(&mut self, call: EffectCall, event: HandlerEvent) {
        if self.effects.open.remove(&call.id).is_some() {
            self.tell(call.handler, event);
        }
    }

    /// Closes a connection, whatever its state.
    pub(super) fn drop_link(&mut self, id: LinkId, now: Time) {
        let Some(mut link) = self.links.remove(id) else {
            return;
        };
        self.deadlines
            .set_kept(Wake::Link(id), &mut link.deadline, None);
        let final_bytes = link.client().map_or_else(Vec::new, |client| {
            client.close(now);
            client.transmit().to_vec()
        });
        self.outputs.push_back(Output::Hangup {
            link: id,
            final_bytes,
        });
    }
}

/// Logs that a deregistration that was owed before a restart will not be carried out.
fn log_not_resumed(plugin: &Plugin) {
    log::warn!(
        "{plugin}: what its program had set up before the restart is not undone, because plugins \
         of its type have no program now"
    );
}

/// Returns whether an endpoint's server speaks HTTP/2, once its SETTINGS or an error decide that.
fn endpoint_result(client: &Client) -> Option<Result<(), CallFailure>> {
    if client.peer_settings().is_some() {
        return Some(Ok(()));
    }
    let written = false;
    let error = client.closing()?;
    let error = CallError::Connection { error, written };
    Some(Err(CallFailure::Call(error)))
}

/// Starts the call that a connection was established for.
fn make_call(client: &mut Client, request: &Request, deadline: Time, now: Time) {
    match request {
        Request::Call(call) => {
            client.unary(call.method, &call.request, MAX_REPLY, deadline, now);
        }
        Request::Stream(stream) => {
            client.server_streaming(stream.method, &stream.request, MAX_REPLY, None, now);
        }
        Request::Nothing => {}
    }
}

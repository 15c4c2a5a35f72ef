//! Carries out what handlers ask for, and brings them what came of it; and the news of every link.
//!
//! Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::execute::Work;
use super::links::{EffectCall, LinkId, Owner, Phase, Process};
use super::operation::Event;
use super::{Manager, Output, Wake};
use crate::config::{DIAL_TIMEOUT, MAX_REPLY};
use crate::grpc::{self, Client};
use crate::handler::{
    Call, CallFailure, Context, DialError, Effect, EffectId, EffectIds, Event as HandlerEvent,
    HandlerId, PluginHandler, Ticket,
};
use crate::time::Time;

/// The effects that handlers have asked for and that have not come to an end.
#[derive(Debug, Default)]
pub(super) struct Effects {
    ids: EffectIds,
    open: BTreeMap<EffectId, Open>,
}

#[derive(Debug)]
enum Open {
    Call(LinkId),
    Timer(HandlerId),
}

/// Something to be done for or with a handler.
#[derive(Debug)]
pub(super) enum HandlerWork {
    /// Tell it what came of an effect.
    Tell(HandlerId, HandlerEvent),
    /// Do what it asks for.
    Do(HandlerId, Effect),
}

impl Manager {
    /// Calls one method of a handler, and takes in what it asks for meanwhile.
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
        let work = wanted
            .into_iter()
            .map(|effect| Work::Handler(HandlerWork::Do(id, effect)));
        self.work.extend(work);
        result
    }

    pub(super) fn handler_work(&mut self, work: HandlerWork, now: Time) {
        match work {
            HandlerWork::Tell(handler, event) => {
                self.with_handler(handler, None, now, |handler, context| {
                    handler.handle_event(event, context);
                });
            }
            HandlerWork::Do(handler, effect) => self.do_effect(handler, effect, now),
        }
    }

    fn do_effect(&mut self, handler: HandlerId, effect: Effect, now: Time) {
        match effect {
            Effect::Answer { ticket, result } => self.answered(ticket, result),
            Effect::Call { id, call } => self.dial_endpoint(handler, id, call, now),
            Effect::SetTimer { id, at } => {
                self.effects.open.insert(id, Open::Timer(handler));
                self.deadlines.set(Wake::Timer(id), Some(at));
            }
            Effect::Cancel { id } => match self.effects.open.remove(&id) {
                Some(Open::Call(link)) => self.drop_link(link, now),
                Some(Open::Timer(_)) => self.deadlines.set(Wake::Timer(id), None),
                None => {}
            },
        }
    }

    fn dial_endpoint(&mut self, handler: HandlerId, id: EffectId, call: Call, now: Time) {
        let path = Arc::from(call.endpoint.as_path());
        let deadline = now + call.timeout;
        let link = self.links.add(
            Owner::Effect(EffectCall {
                id,
                handler,
                deadline,
            }),
            Some(call),
        );
        self.effects.open.insert(id, Open::Call(link));
        self.deadlines.set(Wake::Link(link), Some(deadline));
        self.outputs.push_back(Output::Dial {
            link,
            path,
            identity: None,
        });
    }

    pub(super) fn timer_fired(&mut self, id: EffectId) {
        if let Some(Open::Timer(handler)) = self.effects.open.remove(&id) {
            self.tell(handler, HandlerEvent::TimerFired { id });
        }
    }

    fn tell(&mut self, handler: HandlerId, event: HandlerEvent) {
        self.work
            .push_back(Work::Handler(HandlerWork::Tell(handler, event)));
    }

    pub(super) fn connected(&mut self, id: LinkId, process: Option<Process>, now: Time) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Phase::Dialing(call) = &mut link.phase else {
            return;
        };
        let call = call.take();
        let mut client = Box::new(Client::new(now));
        if let (Some(call), Owner::Effect(effect)) = (&call, &link.owner) {
            let deadline = effect.deadline;
            client.unary(call.method, &call.request, MAX_REPLY, deadline, now);
        }
        if matches!(link.owner, Owner::Operation(..)) {
            // kubelet's dial waits for the server's first word, and GetInfo's second starts then.
            client.be_patient(now + DIAL_TIMEOUT);
        }
        link.phase = Phase::Open(client);
        link.process = process;
        if let Owner::Operation(path, attempt) = link.owner.clone() {
            self.push_event(&path, attempt, Event::Connected);
        } else {
            self.pump(id, now);
        }
    }

    pub(super) fn dial_failed(&mut self, id: LinkId, error: DialError) {
        let Some(link) = self.links.remove(id) else {
            return;
        };
        self.deadlines.set(Wake::Link(id), None);
        match link.owner {
            Owner::Operation(path, attempt) => {
                self.push_event(&path, attempt, Event::DialFailed(error));
            }
            Owner::Effect(call) => self.call_ended(call, Err(CallFailure::Dial(error))),
            Owner::Guard => {}
        }
    }

    pub(super) fn closed(&mut self, link: LinkId, now: Time) {
        if self.guards.contains_key(&link) {
            return self.guard_lost(link, now);
        }
        if let Some(client) = self.links.client(link) {
            client.eof(now);
            self.pump(link, now);
        }
    }

    pub(super) fn link_timeout(&mut self, id: LinkId, now: Time) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        match (&mut link.phase, &link.owner) {
            (Phase::Open(client), _) => {
                client.handle_timeout(now);
                self.pump(id, now);
            }
            (Phase::Dialing(_), &Owner::Effect(call)) => {
                let too_late = CallFailure::Dial(DialError::TimedOut);
                self.call_ended(call, Err(too_late));
                self.drop_link(id, now);
            }
            // While an operation dials, it watches the time itself.
            (Phase::Dialing(_), Owner::Operation(..) | Owner::Guard) => {}
        }
    }

    /// Takes in what a connection's client has to say, after anything that may have changed it.
    pub(super) fn pump(&mut self, id: LinkId, now: Time) {
        while let Some(link) = self.links.get_mut(id) {
            let Phase::Open(client) = &mut link.phase else {
                return;
            };
            let Some(grpc::Event::Finished { result, .. }) = client.poll_event(now) else {
                return self.pumped(id, now);
            };
            match link.owner.clone() {
                Owner::Operation(path, attempt) => {
                    self.push_event(&path, attempt, Event::Replied(result));
                }
                Owner::Effect(call) => {
                    self.call_ended(call, result.map_err(CallFailure::Call));
                    self.drop_link(id, now);
                }
                Owner::Guard => {}
            }
        }
    }

    /// A connection's client has nothing more to say: what is left is what it wants.
    fn pumped(&mut self, id: LinkId, now: Time) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Phase::Open(client) = &mut link.phase else {
            return;
        };
        if matches!(link.owner, Owner::Guard) && client.is_closed() {
            return self.guard_lost(id, now);
        }
        if !client.transmit().is_empty() {
            self.outputs.push_back(Output::Transmit { link: id });
        }
        self.deadlines.set(Wake::Link(id), client.poll_timeout());
    }

    fn call_ended(&mut self, call: EffectCall, result: Result<Vec<u8>, CallFailure>) {
        let id = call.id;
        if self.effects.open.remove(&id).is_some() {
            self.tell(call.handler, HandlerEvent::Called { id, result });
        }
    }

    /// Ends a connection, whatever it is doing.
    pub(super) fn drop_link(&mut self, id: LinkId, now: Time) {
        let Some(mut link) = self.links.remove(id) else {
            return;
        };
        self.deadlines.set(Wake::Link(id), None);
        let farewell = link.client().map_or_else(Vec::new, |client| {
            client.close(now);
            client.transmit().to_vec()
        });
        self.outputs
            .push_back(Output::Hangup { link: id, farewell });
    }
}

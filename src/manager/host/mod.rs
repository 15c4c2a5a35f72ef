//! The host of the handlers: calls them, carries out the effects that they request, and passes the
//! results to them.
//!
//! Handlers are not called recursively: their events are queued, and delivered one by one.

mod call;
mod effects;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use self::call::EndpointCall;
use super::connections::Connection;
use super::context::{Context, Recipient};
use super::event::{EventKind, PluginEvent};
use super::failure::Refusal;
use super::ids::SocketId;
use super::operation::Question;
use super::socket::Socket;
use super::sockets::Sockets;
use super::timers::Scheduled;
use crate::handler::{
    Answer, Context as HandlerContext, EffectId, EffectIds, EffectOwner, Event as HandlerEvent,
    HandlerId, HandlerTable, Hints, Plugin, PluginHandler, Program, Run, Ticket,
};
use crate::time::Time;

/// The handlers, their open questions and their effects.
#[derive(Debug, Default)]
pub(super) struct HandlerHost {
    pub(super) handlers: HandlerTable,
    /// The handlers to which no plugin type is assigned any more, but which are still in use.
    pub(super) unassigned: Vec<HandlerId>,
    ids: EffectIds,
    /// The effects that have not ended; those of one owner are adjacent.
    effects: BTreeMap<EffectId, OpenEffect>,
    /// The handler of each program that runs.
    running: Vec<HandlerId>,
    /// The programs that wait to be started, in the order of the requests.
    waiting: VecDeque<(EffectId, HandlerId, Program)>,
    /// The plugins that handlers have yet to deregister.
    pub(super) owed: Vec<Debt>,
    /// The connection of the call that succeeded last, until its handler has processed the reply. A
    /// stream that the handler requests meanwhile is opened on this connection, as with kubelet.
    idle: Option<Idle>,
}

/// The owner of the effects that a handler requests while it is called, and the plugin that the
/// call is about.
type Subject<'a> = (EffectOwner, &'a Arc<Plugin>);

/// An effect that has not ended.
#[derive(Debug)]
struct OpenEffect {
    recipient: Recipient,
    deadline: Scheduled,
    kind: EffectKind,
}

#[derive(Debug)]
enum EffectKind {
    Timer,
    /// A call, stream or connection.
    Call(Box<EndpointCall>),
    /// A program: the time at which it was started, or `None` while it waits to be started; and its
    /// labels for the metrics, if the handler has given any.
    Program(Option<Time>, Option<Box<Run>>),
}

/// An open connection on which no call runs.
#[derive(Debug)]
struct Idle {
    owner: EffectOwner,
    endpoint: Arc<Path>,
    connection: Connection,
}

/// A plugin that a handler has yet to deregister.
#[derive(Debug)]
pub(super) struct Debt {
    id: EffectId,
    handler: HandlerId,
    pub(super) plugin: Arc<Plugin>,
}

impl HandlerHost {
    /// Records which handler knows the plugin of a socket or was asked about it, and cancels the
    /// effects of the previous handler for the plugin.
    pub(super) fn set_handler(
        &mut self,
        socket: &mut Socket,
        handler: Option<HandlerId>,
        context: &mut Context,
    ) {
        let applied = &mut socket.applied.handler;
        if *applied != handler && std::mem::replace(applied, handler).is_some() {
            // mutation: an effect is left open after deregistration
            self.cancel_effects_of(socket.id.owner(), context);
        }
    }

    /// Drops the unassigned handlers that are not in use any more: no plugin of these sockets, no
    /// effect and no debt belongs to them.
    pub(super) fn drop_unused_handlers(&mut self, sockets: &Sockets) {
        let plugins = sockets.iter().filter_map(|it| it.applied.handler);
        let effects = self.effects.values().map(|it| it.recipient.handler);
        let debts = self.owed.iter().map(|it| it.handler);
        let used: Vec<_> = plugins.chain(effects).chain(debts).collect();
        let handlers = &mut self.handlers;
        self.unassigned.retain(|id| {
            let is_used = used.contains(id);
            if !is_used {
                handlers.remove(*id);
            }
            is_used
        });
    }

    // --- Questions ---

    /// Returns the handler to ask. "The handler is looked up by the exact type"
    /// ([R12](crate::guide::kubelet)) when a plugin is validated. Everything after that is asked of
    /// `pinned`, the handler that was found then. A restored plugin has none: the handler of its
    /// type is asked.
    pub(super) fn find_handler(
        &self,
        question: Question,
        plugin: &Plugin,
        pinned: Option<HandlerId>,
    ) -> Result<HandlerId, Refusal> {
        // A plugin that was validated is not checked again. The type is looked up first, as in
        // kubelet, but only if it is short enough to be kept.
        let is_new = matches!(question, Question::Validate);
        if is_new {
            plugin.check_type().map_err(Refusal::Validation)?;
        }
        let found = match pinned {
            Some(_) => pinned,
            None => self.handlers.find(&plugin.kind),
        };
        let Some(found) = found else {
            let kind = plugin.kind.clone();
            return Err(if self.handlers.ignores_unknown() {
                Refusal::Ignored(kind)
            } else {
                Refusal::NoHandler(kind)
            });
        };
        if is_new {
            plugin.check_all_but_type().map_err(Refusal::Validation)?;
        }
        Ok(found)
    }

    /// Asks a handler about a plugin. Returns the answer, and the ticket of the question. Before a
    /// deregistration, cancels the open effects of the plugin.
    pub(super) fn ask(
        &mut self,
        handler: HandlerId,
        question: Question,
        (owner, plugin): Subject<'_>,
        hints: Hints,
        context: &mut Context,
    ) -> (Answer, Ticket) {
        let ticket = Ticket(self.ids.next(owner));
        // mutation: an effect is open while its plugin is deregistered
        if matches!(question, Question::Deregister) {
            self.cancel_effects_of(owner, context);
        }
        let subject = Some((owner, plugin));
        let ask = |handler: &mut dyn PluginHandler, context: &mut HandlerContext<'_>| {
            context.ticket = Some(ticket);
            context.hints = hints;
            match question {
                Question::Validate => handler.validate(plugin, context),
                Question::Register => handler.register(plugin, context),
                Question::Deregister => handler.deregister(plugin, context),
            }
        };
        let answer = self.call_handler(handler, subject, context, ask);
        (answer.unwrap_or_else(|| Answer::no(DROPPED)), ticket)
    }

    /// Passes an event of an effect to the handler.
    pub(super) fn deliver_event(
        &mut self,
        recipient: &Recipient,
        event: HandlerEvent,
        context: &mut Context,
    ) {
        let (handler, owner) = (recipient.handler, event.effect().owner);
        let subject = recipient.plugin.as_ref().map(|plugin| (owner, plugin));
        self.call_handler(handler, subject, context, |handler, context| {
            handler.handle_event(event, context);
        });
        self.hand_over_idle(context);
    }

    /// Asks the handler of a plugin's type to resume a deregistration that the previous process
    /// owed. Reports it as dropped if the handler does not resume it, or if there is none.
    pub(super) fn resume_debt(&mut self, plugin: &Arc<Plugin>, context: &mut Context) {
        let handler = self.handlers.find(&plugin.kind);
        let is_resumed = handler.and_then(|id| {
            self.call_handler(id, None, context, |handler, context| {
                handler.resume_deregistration(plugin, context)
            })
        });
        // The saved state omits the deregistration from now on, unless the handler owes it again.
        context.revision += 1;
        if is_resumed != Some(true) {
            context.emit(PluginEvent::of_plugin(plugin, EventKind::DebtDropped));
        }
    }

    /// Calls one method of a handler, and carries out the effects that the method requests. Returns
    /// `None` if the handler was dropped.
    pub(super) fn call_handler<T>(
        &mut self,
        id: HandlerId,
        subject: Option<Subject<'_>>,
        context: &mut Context,
        method: impl FnOnce(&mut dyn PluginHandler, &mut HandlerContext<'_>) -> T,
    ) -> Option<T> {
        let handler = self.handlers.get_mut(id)?;
        let mut wanted = Vec::new();
        let now = context.now;
        let mut handler_context = HandlerContext::new(now, None, &mut self.ids, &mut wanted);
        handler_context.budget = Some(&context.budget);
        let mut plugin = None;
        if let Some((owner, about)) = subject {
            handler_context.plugin = Some(about);
            handler_context.owner = owner;
            plugin = Some(about);
        }
        let result = method(handler, &mut handler_context);
        for effect in wanted {
            self.execute_effect(id, plugin, effect, context);
        }
        Some(result)
    }

    /// Asserts that each open effect is detached or belongs to a plugin that its handler knows or
    /// is asked about. Returns the numbers of deadlines that are set and of connections.
    pub(super) fn check_effects(&self, sockets: &Sockets) -> (usize, usize) {
        let (mut deadlines, mut connections) = (0, 0);
        for (id, effect) in &self.effects {
            let Recipient { handler, plugin } = &effect.recipient;
            let owner = SocketId::of_owner(id.owner);
            assert_eq!(owner.is_none(), plugin.is_none(), "{id:?}");
            let socket = owner.and_then(|id| sockets.get(id));
            let asked = socket.and_then(|it| it.applied.handler);
            assert!(
                owner.is_none() || asked == Some(*handler),
                "{id:?}: {plugin:?} is not registered"
            );
            deadlines += usize::from(effect.deadline.at().is_some());
            if let EffectKind::Call(call) = &effect.kind {
                connections += usize::from(call.connection.is_some());
            }
        }
        (deadlines, connections)
    }
}

/// The reason for a refusal if the handler was dropped.
const DROPPED: &str = "the handler for plugins of this type was removed";

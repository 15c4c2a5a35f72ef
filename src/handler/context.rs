//! The effects that a handler may request, and the events that report their results.
//!
//! An effect is a value; the manager carries it out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{DialError, Plugin, Program, ProgramOutcome, Reason};
use crate::budget::{Budget, Reserved};
use crate::grpc::{CallError, Code};
use crate::time::Time;

/// The number of a question to a handler, from the same sequence as those of effects. Never reused,
/// so a late answer cannot be mistaken for the answer to another question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) EffectId);

/// The number of an effect that a handler requested. Never reused, so a late event cannot be
/// mistaken for that of another effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId {
    /// Compared first: in a collection sorted by id, the effects of one owner are adjacent.
    pub(crate) owner: EffectOwner,
    /// Unique among the effects of all owners.
    pub(crate) number: u64,
}

/// The owner of an effect: a plugin, by the number that the manager gives to its socket, or the
/// handler itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EffectOwner(pub(crate) u64);

impl EffectOwner {
    /// The owner of the effects that belong to no plugin.
    pub(crate) const HANDLER: Self = Self(0);

    /// Returns the smallest id of an effect of this owner.
    pub(crate) fn first_effect(self) -> EffectId {
        EffectId {
            owner: self,
            number: 0,
        }
    }
}

/// The generator of [`EffectId`]s.
#[derive(Debug, Default)]
pub struct EffectIds(u64);

impl EffectIds {
    pub(crate) fn next(&mut self, owner: EffectOwner) -> EffectId {
        self.0 += 1;
        let number = self.0;
        EffectId { owner, number }
    }
}

/// The environment of a handler during one call of one of its methods.
///
/// An effect belongs to the plugin that the method is called for; in
/// [`super::PluginHandler::handle_event`], that is the owner of the effect that the event reports
/// on. When the plugin is refused, when a question about it is abandoned and when it is
/// deregistered, the manager cancels its open effects. Effects that were requested through
/// [`Context::detached`] are cancelled only by their handler.
#[derive(Debug)]
pub struct Context<'a> {
    now: Time,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) plugin: Option<&'a Arc<Plugin>>,
    /// The owner of the effects that are requested.
    pub(crate) owner: EffectOwner,
    pub(crate) hints: Hints,
    pub(crate) budget: Option<&'a Budget>,
    ids: &'a mut EffectIds,
    effects: &'a mut Vec<Effect>,
}

/// Facts about a plugin that the manager passes to [`super::PluginHandler::register`]; in other
/// calls, each is `false` or `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    /// Whether the plugin was registered before a restart with the same description and socket.
    pub(crate) was_registered: bool,
    /// Whether the plugin has announced itself.
    pub(crate) is_announced: bool,
    /// The time until which calls are repeated because the plugin's endpoint may not be ready.
    pub(crate) ready_by: Option<Time>,
}

impl<'a> Context<'a> {
    /// Creates a context at `now` that collects `effects`; `ticket` is the question being asked, if
    /// any.
    pub fn new(
        now: Time,
        ticket: Option<Ticket>,
        ids: &'a mut EffectIds,
        effects: &'a mut Vec<Effect>,
    ) -> Self {
        Self {
            now,
            ticket,
            plugin: None,
            owner: EffectOwner::HANDLER,
            hints: Hints::default(),
            budget: None,
            ids,
            effects,
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the ticket of the question being asked. A handler that returns
    /// [`super::Answer::Pending`] has to keep it.
    ///
    /// Returns `None` in the methods of a handler that do not return an answer.
    pub fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// Returns the plugin that the handler is called for: in
    /// [`super::PluginHandler::handle_event`], the plugin that the effect belongs to. Returns
    /// `None` if the effect or this context is detached, and in
    /// [`super::PluginHandler::resume_deregistration`] and [`super::PluginHandler::wake`].
    pub fn plugin(&self) -> Option<&'a Arc<Plugin>> {
        self.plugin
    }

    /// Returns a context whose effects belong to no plugin: the end of a plugin does not cancel
    /// them, and [`Context::plugin`] returns `None` for their events. It is meant for work that
    /// serves several plugins, or that has to finish after its plugin has ended.
    pub fn detached(&mut self) -> Context<'_> {
        Context {
            plugin: None,
            owner: EffectOwner::HANDLER,
            ids: &mut *self.ids,
            effects: &mut *self.effects,
            ..*self
        }
    }

    /// Returns, in [`super::PluginHandler::register`], whether the plugin was registered before a
    /// restart of the daemon: results of that registration may still exist.
    pub fn was_registered(&self) -> bool {
        self.hints.was_registered
    }

    /// Returns, in [`super::PluginHandler::register`], whether the plugin has announced itself by a
    /// call to the daemon, instead of by a socket in a watched directory: it does so again when it
    /// restarts.
    pub fn is_announced(&self) -> bool {
        self.hints.is_announced
    }

    /// Answers a question to which the handler has returned [`super::Answer::Pending`].
    pub fn answer(&mut self, ticket: Ticket, result: Result<(), Reason>) {
        self.effects.push(Effect::Answer { ticket, result });
    }

    /// Calls a method on a plugin's endpoint. [`Event::Called`] reports the outcome.
    pub fn call(&mut self, call: Call) -> EffectId {
        let ready_by = self.hints.ready_by.filter(|_| call.wait_for_ready);
        self.request(EndpointRequest::Call(Box::new(call)), ready_by)
    }

    /// Opens a stream of messages from a plugin's endpoint. The stream stays open until the plugin
    /// ends it or the handler cancels it. [`Event::StreamMessage`] reports each message, and
    /// [`Event::StreamEnded`] the end.
    pub fn stream(&mut self, stream: Stream) -> EffectId {
        self.request(EndpointRequest::Stream(Box::new(stream)), None)
    }

    pub(super) fn request(&mut self, request: EndpointRequest, ready_by: Option<Time>) -> EffectId {
        let id = self.ids.next(self.owner);
        self.effects.push(Effect::Request {
            id,
            request,
            ready_by,
        });
        id
    }

    /// Runs a program, after other programs if the maximum number of them are running.
    /// [`Event::ProgramEnded`] reports its end.
    pub fn spawn(&mut self, program: Program) -> EffectId {
        self.spawn_for(None, program)
    }

    /// Runs a program as [`Context::spawn`] does; the metrics count it under these labels.
    pub(crate) fn spawn_for(&mut self, run: Option<Box<Run>>, program: Program) -> EffectId {
        let id = self.ids.next(self.owner);
        self.effects.push(Effect::Spawn { id, program, run });
        id
    }

    /// Connects to a plugin's endpoint and keeps the connection open. [`Event::Connected`] reports
    /// that a server answers. [`Event::Disconnected`] reports that no server answers or that the
    /// connection broke, and is the last event of the effect.
    pub fn connect(&mut self, endpoint: Arc<Path>) -> EffectId {
        self.request(EndpointRequest::Connection(endpoint), None)
    }

    /// Sets a timer. [`Event::TimerFired`] reports that it has expired.
    pub fn set_timer(&mut self, after: Duration) -> EffectId {
        let id = self.ids.next(self.owner);
        self.effects.push(Effect::SetTimer {
            id,
            at: self.now + after,
        });
        id
    }

    /// Records that this plugin has yet to be deregistered, even after the question about it is
    /// answered or abandoned. The record survives a restart
    /// ([`super::PluginHandler::resume_deregistration`]), and is always detached. Cancel it when
    /// the plugin has been deregistered.
    pub fn owe(&mut self, plugin: Arc<Plugin>) -> EffectId {
        let id = self.ids.next(EffectOwner::HANDLER);
        self.effects.push(Effect::Owe { id, plugin });
        id
    }

    /// Emits an event about a plugin for operators, as an event recorder of Kubernetes does. The
    /// event is logged, as a warning or at info level. `reason` is a word in CamelCase for
    /// programs; `message` is a sentence that does not name the plugin, with all text from outside
    /// escaped ([`crate::escape`]).
    pub fn emit(
        &mut self,
        plugin: &Arc<Plugin>,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        let plugin = plugin.clone();
        let notice = Box::new(Notice {
            kind,
            reason,
            message,
        });
        self.effects.push(Effect::Emit { plugin, notice });
    }

    /// Reports why a plugin that has announced itself cannot be used any more, although its process
    /// may be alive: the plugin is down until it announces itself again. Does nothing if the plugin
    /// has not announced itself.
    pub fn set_down(&mut self, plugin: &Arc<Plugin>, reason: Reason) {
        let plugin = plugin.clone();
        self.effects.push(Effect::SetDown { plugin, reason });
    }

    /// Returns an empty reservation of the memory budget
    /// ([`Config::memory_budget`](crate::config::Config::memory_budget)), for data whose size a
    /// plugin chooses. Less than a kibibyte need not be counted.
    pub fn reserve(&self) -> Reserved {
        self.budget.cloned().unwrap_or_default().empty_share()
    }

    /// Cancels an effect: it has no further events. A running program is killed.
    pub fn cancel(&mut self, id: EffectId) {
        self.effects.push(Effect::Cancel { id });
    }
}

/// A unary call to a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The path of the unix socket to dial.
    pub endpoint: Arc<Path>,
    /// `/<package>.<Service>/<Method>`.
    pub method: &'static str,
    /// The encoded request.
    pub request: Vec<u8>,
    /// The time limit for the whole call, dialing included.
    pub timeout: Duration,
    /// Whether the call is repeated while the plugin may not be ready (gRPC's wait-for-ready): for
    /// [`READY_GRACE`](crate::config::READY_GRACE) after the plugin's registration socket was first
    /// seen, the call is repeated with backoff if it fails as it may before the endpoint is ready
    /// (it does not exist, refuses the connection, or answers UNAVAILABLE, for example). The
    /// handler sees only the last outcome. Applies only to calls that
    /// [`super::PluginHandler::register`] makes.
    pub wait_for_ready: bool,
}

/// A server-streaming call to a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The path of the unix socket to dial.
    pub endpoint: Arc<Path>,
    /// `/<package>.<Service>/<Method>`.
    pub method: &'static str,
    /// The encoded request.
    pub request: Vec<u8>,
    /// The time limit for dialing and for the server's HTTP/2 settings. The call itself has none: a
    /// handler that expects a message within some time has to set a timer.
    pub dial_timeout: Duration,
}

/// The labels with which the metrics count a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The plugin that the program is run for.
    pub plugin: Arc<Plugin>,
    /// The action that the program is run for.
    pub action: &'static str,
}

/// The type of an event for operators, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An event of normal operation.
    Normal,
    /// An event that may need attention.
    Warning,
}

/// An event that a handler reports to operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The type, which decides the log level.
    pub kind: EventType,
    /// A word in CamelCase, for programs.
    pub reason: &'static str,
    /// A sentence that does not name the plugin; text from outside is escaped.
    pub message: String,
}

/// A call, stream or connection that a handler has requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointRequest {
    /// A call with one reply.
    Call(Box<Call>),
    /// A call with any number of replies.
    Stream(Box<Stream>),
    /// A connection to this endpoint without a call, whose beginning and end are reported.
    Connection(Arc<Path>),
}

/// A request of a handler to the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Treat a plugin that has announced itself as down until it announces itself again.
    SetDown {
        /// The plugin.
        plugin: Arc<Plugin>,
        /// The reason why it cannot be used.
        reason: Reason,
    },
    /// Emit an event for operators.
    Emit {
        /// The plugin that the event is about.
        plugin: Arc<Plugin>,
        /// The event.
        notice: Box<Notice>,
    },
    /// Answer an earlier question.
    Answer {
        /// The ticket of the question.
        ticket: Ticket,
        /// `Ok` if accepted, else the reason for the refusal.
        result: Result<(), Reason>,
    },
    /// Make a call, open a stream, or connect to an endpoint and hold the connection.
    Request {
        /// The number of the effect in the events.
        id: EffectId,
        /// The call, stream or connection.
        request: EndpointRequest,
        /// The time until which a call is repeated if its endpoint is not ready; `None`: a single
        /// call.
        ready_by: Option<Time>,
    },
    /// Run a program.
    Spawn {
        /// The number of the effect in the event.
        id: EffectId,
        /// The program.
        program: Program,
        /// The labels with which the metrics count it, if they do.
        run: Option<Box<Run>>,
    },
    /// Notify the handler at the time `at`.
    SetTimer {
        /// The number of the effect in the event.
        id: EffectId,
        /// The time.
        at: Time,
    },
    /// Record, across restarts, that a plugin has yet to be deregistered.
    Owe {
        /// The number of the effect, which ends only when it is cancelled.
        id: EffectId,
        /// The plugin.
        plugin: Arc<Plugin>,
    },
    /// Cancel an earlier effect.
    Cancel {
        /// The number of the effect.
        id: EffectId,
    },
}

/// An event of an effect.
#[derive(Debug)]
pub enum Event {
    /// A call ended.
    Called {
        /// The number of the effect.
        id: EffectId,
        /// The method that was called: `/<package>.<Service>/<Method>`.
        method: &'static str,
        /// The encoded reply, or the failure.
        result: Result<Vec<u8>, CallFailure>,
    },
    /// A message arrived on a stream.
    StreamMessage {
        /// The number of the effect.
        id: EffectId,
        /// The encoded message.
        message: Vec<u8>,
    },
    /// A stream ended.
    StreamEnded {
        /// The number of the effect.
        id: EffectId,
        /// `Ok` if the plugin ended the stream successfully, else the failure.
        result: Result<(), CallFailure>,
    },
    /// A program ended.
    ProgramEnded {
        /// The number of the effect.
        id: EffectId,
        /// The way in which it ended.
        outcome: ProgramOutcome,
    },
    /// A connection was established, and the peer has sent its HTTP/2 settings.
    Connected {
        /// The number of the effect.
        id: EffectId,
    },
    /// A connection cannot be established, or broke.
    Disconnected {
        /// The number of the effect.
        id: EffectId,
        /// The reason why the socket cannot be connected to; `None`: the connection broke, or the
        /// server has sent no valid HTTP/2 settings in time.
        error: Option<DialError>,
    },
    /// A timer expired.
    TimerFired {
        /// The number of the effect.
        id: EffectId,
    },
}

impl Event {
    /// Returns the effect that the event belongs to.
    pub fn effect(&self) -> EffectId {
        match self {
            Self::Called { id, .. }
            | Self::StreamMessage { id, .. }
            | Self::StreamEnded { id, .. }
            | Self::ProgramEnded { id, .. }
            | Self::Connected { id }
            | Self::Disconnected { id, .. }
            | Self::TimerFired { id } => *id,
        }
    }
}

/// The reason why a call has no reply, or why a stream ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The endpoint could not be dialed.
    #[error("cannot connect: {0}")]
    Dial(DialError),
    /// The endpoint was dialed, and the call failed.
    #[error("{0}")]
    Call(CallError),
}

impl CallFailure {
    /// Returns the gRPC code for the failure. An endpoint that cannot be dialed is unavailable.
    pub fn code(&self) -> Code {
        match self {
            Self::Dial(_) => Code::Unavailable,
            Self::Call(error) => error.code(),
        }
    }
}

//! What a handler may ask for while it works, and what comes of it.
//!
//! Pure: an effect is a value; the manager carries it out.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{DialError, Plugin, Program, ProgramOutcome, Reason};
use crate::grpc::CallError;
use crate::time::Time;

/// A question put to a handler. Never reused, so an answer that comes too late meets nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// An effect that a handler asked for. Never reused, so late news of it is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub(crate) u64);

/// Gives out [`EffectId`]s.
#[derive(Debug, Default)]
pub struct EffectIds(u64);

impl EffectIds {
    fn next(&mut self) -> EffectId {
        self.0 += 1;
        EffectId(self.0)
    }
}

/// A handler's view of the world for the length of one call of one of its methods.
#[derive(Debug)]
pub struct Context<'a> {
    now: Time,
    ticket: Option<Ticket>,
    is_known: bool,
    ready_by: Option<Time>,
    ids: &'a mut EffectIds,
    effects: &'a mut Vec<Effect>,
}

impl<'a> Context<'a> {
    /// A context at `now`, about the question `ticket` if there is one, that collects `effects`.
    pub fn new(
        now: Time,
        ticket: Option<Ticket>,
        ids: &'a mut EffectIds,
        effects: &'a mut Vec<Effect>,
    ) -> Self {
        Self {
            now,
            ticket,
            is_known: false,
            ready_by: None,
            ids,
            effects,
        }
    }

    /// This moment.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The question being asked: to be kept by a handler that says [`super::Answer::Pending`].
    ///
    /// There is none in [`super::PluginHandler::handle_event`].
    pub fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// Whether the plugin to be registered was registered with this daemon before a restart: what
    /// was done for it then may still be there.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    pub(crate) fn set_known(&mut self, is_known: bool) {
        self.is_known = is_known;
    }

    /// Until when the endpoint of the plugin in question may not be ready.
    pub(crate) fn set_ready_by(&mut self, ready_by: Option<Time>) {
        self.ready_by = ready_by;
    }

    /// Answers a question that was [`super::Answer::Pending`].
    pub fn answer(&mut self, ticket: Ticket, result: Result<(), Reason>) {
        self.effects.push(Effect::Answer { ticket, result });
    }

    /// Calls a method on a plugin's endpoint. The outcome comes as [`Event::Called`].
    pub fn call(&mut self, call: Call) -> EffectId {
        let id = self.ids.next();
        let ready_by = self.ready_by.filter(|_| call.wait_for_ready);
        self.effects.push(Effect::Call { id, call, ready_by });
        id
    }

    /// Opens a stream of messages from a plugin's endpoint, which stays open until the plugin ends
    /// it or it is cancelled. What comes on it comes as [`Event::StreamMessage`], and its end as
    /// [`Event::StreamEnded`].
    pub fn stream(&mut self, stream: Stream) -> EffectId {
        let id = self.ids.next();
        self.effects.push(Effect::Stream { id, stream });
        id
    }

    /// Runs a program. Its end comes as [`Event::ProgramEnded`].
    pub fn spawn(&mut self, program: Program) -> EffectId {
        let id = self.ids.next();
        self.effects.push(Effect::Spawn { id, program });
        id
    }

    /// Connects to a plugin's endpoint, to know whether somebody answers there. That somebody does
    /// comes as [`Event::Connected`], and that nobody does or that the connection has broken as
    /// [`Event::Disconnected`]: that is the last of it.
    pub fn connect(&mut self, endpoint: Arc<Path>) -> EffectId {
        let id = self.ids.next();
        self.effects.push(Effect::Connect { id, endpoint });
        id
    }

    /// Sets a timer. Its end comes as [`Event::TimerFired`].
    pub fn set_timer(&mut self, after: Duration) -> EffectId {
        let id = self.ids.next();
        self.effects.push(Effect::SetTimer {
            id,
            at: self.now + after,
        });
        id
    }

    /// Records that this plugin has yet to be deregistered, although its operation may end: over a
    /// restart, too ([`super::PluginHandler::resume_deregistration`]). Cancel it when that is done.
    pub fn owe(&mut self, plugin: Arc<Plugin>) -> EffectId {
        let id = self.ids.next();
        self.effects.push(Effect::Owe { id, plugin });
        id
    }

    /// Takes an effect back: nothing more is heard of it. A program that runs is killed.
    pub fn cancel(&mut self, id: EffectId) {
        self.effects.push(Effect::Cancel { id });
    }
}

/// A unary call that a handler wants made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Path of the unix socket to dial.
    pub endpoint: Arc<Path>,
    /// `/<package>.<Service>/<Method>`.
    pub method: &'static str,
    /// The encoded request.
    pub request: Vec<u8>,
    /// How long all of it may take, dialling included.
    pub timeout: Duration,
    /// Whether it is made again while the plugin may not be ready (gRPC's wait-for-ready): for
    /// [`READY_GRACE`](crate::config::READY_GRACE) after the plugin's registration socket was first
    /// seen, an endpoint that does not exist, refuses the connection or answers UNAVAILABLE is
    /// called again, with backoff. Its handler sees the last outcome only. Holds for calls that are
    /// made when a question is asked.
    pub wait_for_ready: bool,
}

/// A server-streaming call that a handler wants made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Path of the unix socket to dial.
    pub endpoint: Arc<Path>,
    /// `/<package>.<Service>/<Method>`.
    pub method: &'static str,
    /// The encoded request.
    pub request: Vec<u8>,
    /// How long dialling may take. Once the call is made it may take for ever: a plugin that is to
    /// say something by some time wants a timer.
    pub dial_timeout: Duration,
}

/// What a handler asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer an earlier question.
    Answer {
        /// The question.
        ticket: Ticket,
        /// Yes, or why not.
        result: Result<(), Reason>,
    },
    /// Make a call.
    Call {
        /// Names it in the event.
        id: EffectId,
        /// The call.
        call: Call,
        /// Until when it is made again if the endpoint is not ready; none: it is made once.
        ready_by: Option<Time>,
    },
    /// Open a stream.
    Stream {
        /// Names it in the events.
        id: EffectId,
        /// The stream.
        stream: Stream,
    },
    /// Run a program.
    Spawn {
        /// Names it in the event.
        id: EffectId,
        /// The program.
        program: Program,
    },
    /// Connect to an endpoint and hold the connection.
    Connect {
        /// Names it in the events.
        id: EffectId,
        /// Path of the unix socket to dial.
        endpoint: Arc<Path>,
    },
    /// Tell the handler when it is `at`.
    SetTimer {
        /// Names it in the event.
        id: EffectId,
        /// When.
        at: Time,
    },
    /// Keep in mind, over a restart, that a plugin has yet to be deregistered.
    Owe {
        /// Names it when it is cancelled, which is its only end.
        id: EffectId,
        /// The plugin.
        plugin: Arc<Plugin>,
    },
    /// Forget an earlier effect.
    Cancel {
        /// Which.
        id: EffectId,
    },
}

/// What came of an effect.
#[derive(Debug)]
pub enum Event {
    /// A call ended.
    Called {
        /// Which.
        id: EffectId,
        /// The encoded reply, or what went wrong.
        result: Result<Vec<u8>, CallFailure>,
    },
    /// A message came on a stream.
    StreamMessage {
        /// Which.
        id: EffectId,
        /// The encoded message.
        message: Vec<u8>,
    },
    /// A stream ended.
    StreamEnded {
        /// Which.
        id: EffectId,
        /// That the plugin had nothing more to say, or what went wrong.
        result: Result<(), CallFailure>,
    },
    /// A program ended.
    ProgramEnded {
        /// Which.
        id: EffectId,
        /// How.
        outcome: ProgramOutcome,
    },
    /// A connection is there, and whoever is at its other end has answered.
    Connected {
        /// Which.
        id: EffectId,
    },
    /// A connection is not to be had, or not there any more.
    Disconnected {
        /// Which.
        id: EffectId,
        /// Why it is not to be had; none: it was there and broke.
        error: Option<DialError>,
    },
    /// A timer's moment has come.
    TimerFired {
        /// Which.
        id: EffectId,
    },
}

impl Event {
    /// The effect that it came of.
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

/// Why a call has no reply, or why a stream ended before the plugin had said all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// There is no connection to the endpoint.
    Dial(DialError),
    /// There is one, and the call failed on it.
    Call(CallError),
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(error) => write!(f, "cannot connect: {error}"),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallFailure {}

//! One operation on one socket: from dialling a plugin to notifying it of the outcome, or the
//! deregistration of a plugin.
//!
//! Pure, and independent of sockets and handlers: events go in, the next state and commands come
//! out. A step consumes the operation, so one that has ended can't be used again.
//!
//! ```text
//!  register, register_again
//!     |             refused            pause over
//!     v         +------------> AwaitingListener --+
//!  Dialing -----+                                 |
//!     ^   |     <---------------------------------+
//!         | Connected
//!         v
//!  AskingInfo ------------------ failed ----------------------> ended: Failed, or Changed
//!         | Replied
//!         v
//!  AwaitingLock     (another operation asks the handler about the same plugin name)
//!         | LockAcquired
//!         v
//!  Validating ------ no -----+
//!         | Answered         |
//!         v                  v
//!  Registering ----- no -> Notifying(Refused) -- Replied -----> ended: Failed
//!         | Answered
//!         v
//!  Notifying(Registered) -------------- Replied --------------> ended: Registered
//!     ^   |     connection died
//!     |   +--------------------> Redialing
//!     +------- Connected ------------+            (Notifying(Refused) likewise)
//!         |
//!         | failed
//!         v                             (after a timeout: Notifying(Refused))
//!  Deregistering ---------------------- Answered -------------> ended: Failed
//!         ^
//!  AwaitingLock
//!         ^
//!  deregister                                                   ended: Deregistered
//!
//!  check                                                        ended: Alive,
//!     +-> Dialing -> AskingInfo ------------------------------->       Changed or Failed
//!
//!  observe
//!     +-> Dialing -> AskingInfo -> AwaitingLock -> Observing -> ended: Observed or Failed
//! ```
//!
//! A refusal of which the plugin is not notified ends the operation at once. [`Event::Cancelled`]
//! ends it from every state: at once if no handler has registered the plugin, and through
//! `Deregistering` if one has or may have. So every register that was not answered with a no is
//! followed by exactly one deregister.
//!
//! A socket that is replaced or removed cancels its operation as soon as the watch reports that. In
//! `AskingInfo` this closes the connection and drops the reply, and the plugin is not notified. A
//! new socket is registered from the beginning, without backoff.

mod messages;
mod steps;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) use messages::{Command, Event, Outcome, Question, Step, Unexpected};

use self::steps::Steps;
use super::failure::{Failure, Refusal};
use crate::config::{DIAL_RETRY, DIAL_TIMEOUT, HANDLER_TIMEOUT};
use crate::grpc::CallError;
use crate::handler::{CallFailure, DialError, Plugin};
use crate::time::Time;

/// An operation that has not ended.
#[derive(Debug)]
pub(super) struct Operation {
    /// The registration socket.
    socket: Arc<Path>,
    state: State,
}

/// The state of an operation, named after what the operation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Waits for the connection.
    Dialing(DialRetry, Goal),
    /// Waits for the time to dial again, because the last dial failed in a way that may pass.
    AwaitingListener(DialRetry, Goal, Time),
    /// Waits for the plugin's reply to GetInfo.
    AskingInfo(Goal),
    /// Waits for the lock of this plugin name, to ask the handler about it.
    AwaitingLock(Arc<Plugin>, Purpose),
    /// Waits for the handler's answer.
    Validating(Asked),
    /// Waits for the handler's answer, without a connection, in a dry run.
    Observing(Asked),
    /// Waits for the handler's answer, with the plugin in the actual state.
    Registering(Asked),
    /// Waits for the plugin's reply to NotifyRegistrationStatus.
    Notifying(Notification, Budget),
    /// Waits for a second connection to notify the plugin: the first one died in the meantime.
    Redialing(Notification, Budget),
    /// Waits for the handler's answer, after the plugin has left the actual state.
    Deregistering(Asked, Then),
}

/// The retries of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DialRetry {
    /// The time at which a dial is given up; no pause extends beyond it.
    give_up: Time,
    /// The pause before the next dial.
    pause: Duration,
    /// Whether to dial again after a refused connection.
    retries_refused: bool,
}

/// The purpose of a connection and of GetInfo.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Goal {
    /// To register the plugin.
    Register,
    /// To register this plugin, which was registered before a restart.
    RegisterAgain(Arc<Plugin>),
    /// To find out the outcome of a registration.
    Observe,
    /// To check that this plugin still answers.
    Check(Arc<Plugin>),
    /// To register this plugin, which has announced itself: GetInfo is not called.
    RegisterAnnounced(Arc<Plugin>),
    /// To check that this plugin, which has announced itself, still listens.
    CheckAnnounced(Arc<Plugin>),
}

/// The purpose of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Register,
    Observe,
    Deregister,
}

/// A question about a plugin, and the deadline for its handler's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    plugin: Arc<Plugin>,
    deadline: Time,
}

/// The outcome of which the plugin is notified.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Notification {
    Registered(Arc<Plugin>),
    Refused(Refusal),
}

/// What is left for notifying the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Budget {
    until: Time,
    /// Whether a connection that has died may be replaced: once.
    may_redial: bool,
}

/// What follows a deregistration.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Then {
    /// The operation ends: its plugin is deregistered.
    Report,
    /// The operation ends: the plugin could not be notified of its registration.
    Fail(Failure),
    /// The plugin is notified of the refusal.
    Refuse(Refusal),
}

impl Operation {
    /// Registers the plugin behind `socket`. If the socket is new and refuses the connection, its
    /// plugin may not have called `listen` yet: the socket is dialled again until [`DIAL_TIMEOUT`]
    /// is over.
    pub(super) fn register(
        socket: Arc<Path>,
        is_new: bool,
        now: Time,
        commands: &mut Vec<Command>,
    ) -> Self {
        Self::dial(socket, Goal::Register, is_new, now, commands)
    }

    /// Does the same for a socket through which the plugin `known` was registered before a restart,
    /// but ends with [`Outcome::Changed`] if another plugin answers there.
    pub(super) fn register_again(
        known: Arc<Plugin>,
        socket: Arc<Path>,
        is_new: bool,
        now: Time,
        commands: &mut Vec<Command>,
    ) -> Self {
        Self::dial(socket, Goal::RegisterAgain(known), is_new, now, commands)
    }

    /// Finds out what [`Operation::register`] would do, without a trace: calls GetInfo, asks the
    /// handler to validate the plugin, and connects to the plugin's endpoint if the handler uses
    /// it.
    pub(super) fn observe(
        socket: Arc<Path>,
        is_new: bool,
        now: Time,
        commands: &mut Vec<Command>,
    ) -> Self {
        Self::dial(socket, Goal::Observe, is_new, now, commands)
    }

    /// Checks that the registered plugin still answers behind the same socket: calls GetInfo, and
    /// does not dial again if the connection is refused.
    pub(super) fn check(plugin: Arc<Plugin>, now: Time, commands: &mut Vec<Command>) -> Self {
        let socket = plugin.socket.clone();
        Self::dial(socket, Goal::Check(plugin), false, now, commands)
    }

    /// Registers a plugin that has announced itself: connects to its endpoint, which may not listen
    /// yet, and asks its handler. Its description is known.
    pub(super) fn register_announced(
        plugin: Arc<Plugin>,
        now: Time,
        commands: &mut Vec<Command>,
    ) -> Self {
        let socket = plugin.socket.clone();
        Self::dial(socket, Goal::RegisterAnnounced(plugin), true, now, commands)
    }

    /// Checks that the registered plugin, which has announced itself, still listens on its
    /// endpoint.
    pub(super) fn check_announced(
        plugin: Arc<Plugin>,
        now: Time,
        commands: &mut Vec<Command>,
    ) -> Self {
        let socket = plugin.socket.clone();
        Self::dial(socket, Goal::CheckAnnounced(plugin), false, now, commands)
    }

    fn dial(
        socket: Arc<Path>,
        goal: Goal,
        retries_refused: bool,
        now: Time,
        commands: &mut Vec<Command>,
    ) -> Self {
        let retry = DialRetry {
            give_up: now + DIAL_TIMEOUT,
            pause: DIAL_RETRY.first,
            retries_refused,
        };
        let state = State::Dialing(retry, goal);
        commands.push(Command::Dial);
        Self { socket, state }
    }

    /// Deregisters a plugin that was registered.
    pub(super) fn deregister(plugin: Arc<Plugin>, commands: &mut Vec<Command>) -> Self {
        commands.extend([Command::LeaveActual, Command::AcquireLock(plugin.clone())]);
        let socket = plugin.socket.clone();
        let state = State::AwaitingLock(plugin, Purpose::Deregister);
        Self { socket, state }
    }

    /// Returns the next state after `event`. What is to be done before that is appended to
    /// `commands`.
    pub(super) fn handle(self, event: Event, now: Time, commands: &mut Vec<Command>) -> Step {
        use Event as E;
        use State as S;
        let Self { socket, state } = self;
        let steps = Steps {
            socket,
            now,
            commands,
        };
        match (state, event) {
            (S::Dialing(_, goal), E::Connected) => steps.connected(goal),
            (S::Dialing(retry, goal), E::DialFailed(error)) => {
                steps.dial_failed(retry, goal, error)
            }
            (S::Dialing(retry, _), E::Timeout) if retry.give_up <= now => {
                steps.fail(Failure::Dial(DialError::TimedOut))
            }
            (S::AwaitingListener(retry, goal, until), E::Timeout) if until <= now => {
                steps.dial_again(retry, goal)
            }
            (S::AskingInfo(goal), E::Replied(reply)) => steps.info_replied(goal, reply),
            (S::AskingInfo(goal), E::ConnectionLost) => {
                steps.info_replied(goal, Err(CallError::Cancelled))
            }
            (S::AwaitingLock(plugin, Purpose::Register), E::LockAcquired) => steps.validate(plugin),
            (S::AwaitingLock(plugin, Purpose::Observe), E::LockAcquired) => {
                steps.validate_only(plugin)
            }
            (S::AwaitingLock(plugin, Purpose::Deregister), E::LockAcquired) => {
                steps.deregister(plugin)
            }
            (S::Validating(asked), E::Answered(Ok(()))) => steps.register(asked.plugin),
            (S::Validating(_), E::Answered(Err(refusal))) => steps.refuse(refusal),
            (S::Validating(asked), E::Timeout) if asked.deadline <= now => {
                steps.validation_timed_out(asked.plugin)
            }
            (S::Observing(asked), E::Answered(Ok(()))) => Steps::observed(Ok(asked.plugin)),
            (S::Observing(_), E::Answered(Err(refusal))) => Steps::observed(Err(refusal)),
            (S::Observing(asked), E::Timeout) if asked.deadline <= now => {
                steps.observed_no_answer(asked.plugin)
            }
            (S::Registering(asked), E::Answered(Ok(()))) => {
                steps.notify(Notification::Registered(asked.plugin))
            }
            (S::Registering(_), E::Answered(Err(refusal))) => steps.registration_refused(refusal),
            (S::Registering(asked), E::Timeout) if asked.deadline <= now => {
                steps.registration_timed_out(asked.plugin)
            }
            (S::Notifying(notification, budget), E::Replied(reply)) => {
                steps.notified(notification, budget, reply)
            }
            (S::Notifying(notification, budget), E::ConnectionLost) => {
                steps.notified(notification, budget, Err(CallError::Cancelled))
            }
            (S::Notifying(Notification::Refused(refusal), _), E::AlreadyNotified) => {
                steps.fail(Failure::Refused(refusal))
            }
            (S::Redialing(notification, budget), E::Connected) => {
                steps.notify_again(notification, budget)
            }
            (S::Redialing(notification, _), E::DialFailed(error)) => {
                steps.not_notified(notification, CallFailure::Dial(error))
            }
            (S::Redialing(notification, budget), E::Timeout) if budget.until <= now => {
                let error = CallFailure::Dial(DialError::TimedOut);
                steps.not_notified(notification, error)
            }
            (S::Deregistering(asked, then), E::Answered(answer)) => {
                steps.deregistered(asked.plugin, then, answer)
            }
            (S::Deregistering(asked, then), E::Timeout) if asked.deadline <= now => {
                steps.deregistration_timed_out(asked.plugin, then)
            }
            (state, E::Cancelled) => steps.cancelled(state),
            (state, event) => {
                let (state_name, event) = (state.name(), event.name());
                let unexpected = Unexpected {
                    state: state_name,
                    event,
                };
                let socket = steps.socket;
                Step::Ignores(Self { socket, state }, unexpected)
            }
        }
    }

    /// Returns when to handle [`Event::Timeout`]. A call on a connection has a deadline of its
    /// own, and the wait for a lock ends because every operation
    /// before this one has a deadline.
    pub(super) fn deadline(&self) -> Option<Time> {
        match &self.state {
            State::Dialing(retry, _) => Some(retry.give_up),
            State::AwaitingListener(_, _, until) => Some(*until),
            State::Validating(asked)
            | State::Observing(asked)
            | State::Registering(asked)
            | State::Deregistering(asked, _) => Some(asked.deadline),
            State::Redialing(_, budget) => Some(budget.until),
            State::AskingInfo(_) | State::AwaitingLock(..) | State::Notifying(..) => None,
        }
    }

    /// Returns the name of the current state.
    pub(super) fn state(&self) -> &'static str {
        self.state.name()
    }

    /// Returns the plugin for whose name the operation holds or awaits the lock.
    pub(super) fn plugin(&self) -> Option<&Arc<Plugin>> {
        match &self.state {
            State::Validating(asked)
            | State::Observing(asked)
            | State::Registering(asked)
            | State::Deregistering(asked, _) => Some(&asked.plugin),
            State::AwaitingLock(plugin, _)
            | State::Notifying(Notification::Registered(plugin), _)
            | State::Redialing(Notification::Registered(plugin), _) => Some(plugin),
            _ => None,
        }
    }

    /// Returns the plugin about whose name this operation may ask a handler, as no other operation
    /// may unless this one is stalled.
    pub(super) fn plugin_in_question(&self) -> Option<&Arc<Plugin>> {
        let awaits_lock = matches!(self.state, State::AwaitingLock(..));
        self.plugin().filter(|_| !awaits_lock)
    }

    /// Returns the plugin that a handler has yet to be asked to deregister.
    pub(super) fn plugin_to_deregister(&self) -> Option<&Arc<Plugin>> {
        match &self.state {
            State::AwaitingLock(plugin, Purpose::Deregister) => Some(plugin),
            _ => None,
        }
    }

    /// Returns whether the operation undoes a registration.
    pub(super) fn is_deregistering(&self) -> bool {
        self.state.is_deregistering()
    }

    /// Returns whether a plugin or a handler would notice the end of the operation in this state.
    pub(super) fn is_committed(&self) -> bool {
        match self.state {
            State::Dialing(..) | State::AwaitingListener(..) | State::AskingInfo(_) => false,
            State::AwaitingLock(_, purpose) => purpose == Purpose::Deregister,
            _ => true,
        }
    }

    /// Returns whether the operation takes one of the permits when it enters this state, because it
    /// calls a plugin that is expected to answer. Waiting for a handler or notifying a plugin needs
    /// no permit.
    pub(super) fn holds_permit(&self) -> bool {
        matches!(self.state, State::Dialing(..) | State::AskingInfo(_))
    }
}

impl State {
    fn is_deregistering(&self) -> bool {
        matches!(
            self,
            Self::AwaitingLock(_, Purpose::Deregister) | Self::Deregistering(..)
        )
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Dialing(..) => "Dialing",
            Self::AwaitingListener(..) => "AwaitingListener",
            Self::AskingInfo(_) => "AskingInfo",
            Self::AwaitingLock(..) => "AwaitingLock",
            Self::Validating(_) => "Validating",
            Self::Observing(_) => "Observing",
            Self::Registering(_) => "Registering",
            Self::Notifying(..) => "Notifying",
            Self::Redialing(..) => "Redialing",
            Self::Deregistering(..) => "Deregistering",
        }
    }
}

impl Asked {
    fn new(plugin: Arc<Plugin>, now: Time) -> Self {
        let deadline = now + HANDLER_TIMEOUT;
        Self { plugin, deadline }
    }
}

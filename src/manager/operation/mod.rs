//! One operation on one socket: from dialing a plugin to notifying it of the outcome, or the
//! deregistration of a plugin.
//!
//! Pure, and independent of sockets and handlers: a step receives an event, calls [`Actions`], and
//! returns the next state. A step consumes the operation, so an operation that has ended cannot be
//! used again. If an action returns its result at once, the step continues with that: if the lock
//! is free and the handler answers at once, one step leads from `AskingInfo` to `Notifying`.
//!
//! ```text
//!  register
//!     |             refused            pause over
//!     v         +------------> AwaitingListener --+
//!  Dialing -----+                                 |
//!     ^   |     <---------------------------------+
//!         +--------------------- failed ----------------------> ended: Failed
//!         | Connected            (an announced plugin: to AwaitingLock)
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
//!  Registering ----- no -> Notifying(Refused) -- Replied -----> ended: Refused
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
//!     +-> Dialing -> AskingInfo (-> Dialing its endpoint) ----->       Changed or Failed
//!
//!  observe
//!     +-> Dialing -> AskingInfo -> AwaitingLock -> Validating -> ended: Observed or Failed
//! ```
//!
//! A refusal of which the plugin is not notified, because plugins of its type are ignored, ends the
//! operation at once. [`Event::Cancelled`] ends the operation in every state: at once if no handler
//! has registered the plugin, and through `Deregistering` if a handler has registered it or may
//! have done so. So every `register` that was not refused is followed by exactly one `deregister`.
//!
//! If a socket is replaced or removed, its operation is cancelled as soon as the watch reports
//! that. In `AskingInfo` this closes the connection and drops the reply, and the plugin is not
//! notified. A new socket is registered from the beginning, without backoff.

mod steps;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use self::steps::Steps;
use super::connections::Server;
use super::event::EventKind;
use super::failure::{Failure, Refusal};
use crate::config::{DIAL_TIMEOUT, HANDLER_TIMEOUT, Mode};
use crate::grpc::CallError;
use crate::handler::{CallFailure, DialError, Plugin};
use crate::time::Time;

/// An operation that has not ended: its state, named after what the operation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Waits for the connection. The daemon connects at once, so in practice the deadline of this
    /// state limits the wait for the server's SETTINGS (`Socket::attach_client`).
    Dialing(DialRetry, Goal),
    /// Waits for the time to dial again, because the last dial failed for a reason that may be
    /// temporary.
    AwaitingListener(DialRetry, Goal, Time),
    /// Waits for the plugin's reply to GetInfo.
    AskingInfo(Goal),
    /// Waits for the lock of this plugin name, to ask the handler about it.
    AwaitingLock(Arc<Plugin>, Purpose),
    /// Waits for the handler's answer; in a dry run, without a connection.
    Validating(Asked, Mode),
    /// Waits for the handler's answer, with the plugin in the actual state.
    Registering(Asked),
    /// Waits for the plugin's reply to NotifyRegistrationStatus.
    Notifying(Notification, NotifyBudget),
    /// Waits for a second connection to notify the plugin, because the first one has ended.
    Redialing(Notification, NotifyBudget),
    /// Waits for the handler's answer, after the plugin has left the actual state.
    Deregistering(Asked, Then),
}

/// The retries of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DialRetry {
    /// The time at which a dial is given up; no pause extends beyond it.
    give_up: Time,
    /// The pause before this dial; `None` for the first dial.
    pause: Option<Duration>,
}

/// The goal of an operation that connects to a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// To register the plugin. If the socket is new and refuses the connection, its plugin may not
    /// have called `listen` yet: the socket is dialed again until [`DIAL_TIMEOUT`] is over.
    Register {
        /// Whether no attempt was made before.
        is_new: bool,
        /// The plugin that was registered through the socket before a restart: the operation ends
        /// with [`Outcome::Changed`] if another one answers there.
        known: Option<Arc<Plugin>>,
    },
    /// To report the outcome of a registration in a dry run: calls GetInfo, and asks the handler
    /// to validate the plugin.
    Observe {
        /// Whether no attempt was made before.
        is_new: bool,
    },
    /// To check that this plugin still answers GetInfo behind the same socket. Does not dial again
    /// if the connection is refused.
    Check(Arc<Plugin>),
    /// To register this plugin, which has announced itself: connects to its endpoint, on which it
    /// may not listen yet, and asks its handler. GetInfo is not called.
    RegisterAnnounced(Arc<Plugin>),
    /// To check that this plugin still listens on its endpoint. The plugin has announced itself, or
    /// its driver should listen there and its registration socket has been checked.
    CheckEndpoint(Arc<Plugin>),
}

/// The purpose for which a lock is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Validate(Mode),
    Deregister,
}

/// A question about a plugin, and the deadline for its handler's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) plugin: Arc<Plugin>,
    deadline: Time,
}

/// The outcome of which the plugin is notified: `Ok` if it is registered, else the refusal.
type Notification = Result<Arc<Plugin>, Refusal>;

/// The time that is left for notifying the plugin, and whether it may be dialed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotifyBudget {
    until: Time,
    /// Whether a connection that has ended may be replaced, which is allowed once.
    may_redial: bool,
}

/// What follows a deregistration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The operation ends: its plugin is deregistered.
    Report,
    /// The operation ends: the plugin could not be notified of its registration.
    Fail(Failure),
    /// The plugin is notified of the refusal.
    Refuse(Refusal),
}

impl Operation {
    /// Starts an operation that connects to a plugin: dials the plugin.
    pub(super) fn start_dial(goal: Goal, actions: &mut dyn Actions) -> Step {
        let retry = DialRetry {
            give_up: actions.now() + DIAL_TIMEOUT,
            pause: None,
        };
        Steps(actions).dial(retry, goal)
    }

    /// Starts to deregister a plugin that was registered.
    pub(super) fn start_deregistration(plugin: Arc<Plugin>, actions: &mut dyn Actions) -> Step {
        actions.leave_actual();
        Steps(actions).acquire_lock(plugin, Purpose::Deregister)
    }

    /// Processes an event. Returns the next state, or the outcome.
    pub(super) fn handle_event(self, event: Event, actions: &mut dyn Actions) -> Step {
        use Event as E;
        let now = actions.now();
        let mut steps = Steps(actions);
        match (self, event) {
            (Self::Dialing(_, goal), E::Connected) => steps.handle_connected(goal),
            (Self::Dialing(retry, goal), E::DialFailed(error)) => {
                steps.handle_dial_failed(retry, goal, error)
            }
            (Self::Dialing(retry, goal), E::Timeout) if retry.give_up <= now => {
                steps.end_with_failure(goal.dial_failure(DialError::TimedOut))
            }
            (Self::AwaitingListener(retry, goal, until), E::Timeout) if until <= now => {
                steps.dial(retry, goal)
            }
            (Self::AskingInfo(goal), E::Replied(reply)) => steps.handle_info_reply(goal, reply),
            (Self::AwaitingLock(plugin, purpose), E::LockAcquired) => {
                steps.handle_lock_acquired(plugin, purpose)
            }
            (Self::Validating(asked, mode), E::Answered(answer)) => {
                steps.handle_validation(asked.plugin, mode, answer)
            }
            (Self::Validating(asked, mode), E::Timeout) if asked.deadline <= now => {
                let no = Refusal::Validation(steps.time_out_question(&asked.plugin));
                steps.handle_validation(asked.plugin, mode, Err(no))
            }
            (Self::Registering(asked), E::Answered(answer)) => {
                steps.handle_registration(asked.plugin, answer)
            }
            (Self::Registering(asked), E::Timeout) if asked.deadline <= now => {
                steps.handle_registration_timeout(asked.plugin)
            }
            (Self::Notifying(notification, budget), E::Replied(reply)) => {
                steps.handle_notification_reply(notification, budget, reply)
            }
            (Self::Redialing(notification, budget), E::Connected) => {
                steps.notify_within(notification, budget)
            }
            (Self::Redialing(notification, _), E::DialFailed(error)) => {
                steps.handle_notification_failure(notification, CallFailure::Dial(error))
            }
            (Self::Redialing(notification, budget), E::Timeout) if budget.until <= now => {
                let error = CallFailure::Dial(DialError::TimedOut);
                steps.handle_notification_failure(notification, error)
            }
            (Self::Deregistering(_, then), E::Answered(answer)) => {
                steps.handle_deregistration(then, answer)
            }
            (Self::Deregistering(asked, then), E::Timeout) if asked.deadline <= now => {
                let no = Refusal::Registration(steps.time_out_question(&asked.plugin));
                steps.handle_deregistration(then, Err(no))
            }
            (operation, E::Cancelled) => steps.cancel(operation),
            (operation, event) => Step::Ignores(operation, event.name()),
        }
    }

    /// Returns the time of the next [`Event::Timeout`]; `None` if the state has no deadline. A call
    /// has a deadline of its own on its connection, and the wait for a lock ends because every
    /// operation that is ahead in the queue has a deadline.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Dialing(retry, _) => Some(retry.give_up),
            Self::AwaitingListener(_, _, until) => Some(*until),
            Self::Validating(asked, _)
            | Self::Registering(asked)
            | Self::Deregistering(asked, _) => Some(asked.deadline),
            Self::Redialing(_, budget) => Some(budget.until),
            Self::AskingInfo(_) | Self::AwaitingLock(..) | Self::Notifying(..) => None,
        }
    }

    /// Returns the name of the current state.
    pub(super) fn state_name(&self) -> &'static str {
        match self {
            Self::Dialing(..) => "Dialing",
            Self::AwaitingListener(..) => "AwaitingListener",
            Self::AskingInfo(_) => "AskingInfo",
            Self::AwaitingLock(..) => "AwaitingLock",
            Self::Validating(_, Mode::Register) => "Validating",
            Self::Validating(_, Mode::Observe) => "Observing",
            Self::Registering(_) => "Registering",
            Self::Notifying(..) => "Notifying",
            Self::Redialing(..) => "Redialing",
            Self::Deregistering(..) => "Deregistering",
        }
    }

    /// Returns the plugin that a handler has yet to be asked to deregister.
    pub(super) fn plugin_to_deregister(&self) -> Option<&Arc<Plugin>> {
        match self {
            // mutation: a plugin that waits to be deregistered is not saved
            Self::AwaitingLock(plugin, Purpose::Deregister) => Some(plugin),
            _ => None,
        }
    }

    /// Returns whether a plugin or a handler would notice the end of the operation in this state.
    pub(super) fn is_committed(&self) -> bool {
        match self {
            Self::Dialing(..) | Self::AwaitingListener(..) | Self::AskingInfo(_) => false,
            Self::AwaitingLock(_, purpose) => *purpose == Purpose::Deregister,
            _ => true,
        }
    }
}

impl Asked {
    fn new(plugin: Arc<Plugin>, now: Time) -> Self {
        let deadline = now + HANDLER_TIMEOUT;
        Self { plugin, deadline }
    }
}

/// The result of a call: the encoded reply, or the error.
pub(super) type Reply = Result<Vec<u8>, CallError>;

/// An event for an operation.
#[derive(Debug)]
pub(super) enum Event {
    /// The connection is established.
    Connected,
    /// The connection could not be established, for this reason.
    DialFailed(DialError),
    /// The call has ended.
    Replied(Reply),
    /// The operation has acquired the lock of the plugin name.
    LockAcquired,
    /// The handler has answered: `Ok` if it has accepted, else the refusal.
    Answered(Result<(), Refusal>),
    /// A deadline may have passed.
    Timeout,
    /// The socket was removed or replaced, its plugin must be deregistered, or the manager stops.
    Cancelled,
}

impl Event {
    fn name(&self) -> &'static str {
        match self {
            Self::Connected => "Connected",
            Self::DialFailed(_) => "DialFailed",
            Self::Replied(_) => "Replied",
            Self::LockAcquired => "LockAcquired",
            Self::Answered(_) => "Answered",
            Self::Timeout => "Timeout",
            Self::Cancelled => "Cancelled",
        }
    }
}

/// The actions of an operation. A result that is known at once is returned; any other result
/// follows as an [`Event`].
pub(super) trait Actions {
    /// Returns the time of the step.
    fn now(&self) -> Time;
    /// Returns the pause after the first dial if the socket refuses the connection.
    fn first_dial_pause(&self) -> Duration;
    /// Returns the path of the registration socket.
    fn socket_path(&self) -> Arc<Path>;
    /// Starts to connect to the socket, or to the endpoint of a plugin. After `Ok`,
    /// [`Event::Connected`] or [`Event::DialFailed`] follows; an error is returned at once, and no
    /// event follows.
    fn dial(&mut self, endpoint_of: Option<&Plugin>) -> Result<(), DialError>;
    /// Calls GetInfo on the connection. Returns the reply if it has arrived already; otherwise
    /// [`Event::Replied`] follows.
    fn call_get_info(&mut self) -> Option<Reply>;
    /// Calls NotifyRegistrationStatus on the connection, with that deadline, to notify the plugin
    /// of its refusal or, without one, of its registration. Returns the reply if it has arrived
    /// already; otherwise [`Event::Replied`] follows. Returns an empty reply without a call if the
    /// plugin was notified of this refusal before, or has announced itself: then its own call is
    /// answered instead.
    fn notify_plugin(&mut self, refusal: Option<&Refusal>, deadline: Time) -> Option<Reply>;
    /// Closes the connection, or stops dialing.
    fn hang_up(&mut self);
    /// Makes the connection, which leads to that server, the registered plugin's source of
    /// liveness.
    fn monitor_liveness(&mut self, server: Server);
    /// Returns whether the endpoint of the registered plugin has to be checked, because the
    /// connection to the plugin's driver has ended or was given up.
    fn is_driver_lost(&self) -> bool;
    /// Acquires the lock of this plugin name, which is needed to ask a handler about the name.
    /// Returns whether the lock was free; otherwise [`Event::LockAcquired`] follows.
    fn acquire_lock(&mut self, plugin: &Arc<Plugin>) -> bool;
    /// Asks the plugin's handler. Returns the answer, or `None` if it follows as
    /// [`Event::Answered`].
    fn ask(&mut self, question: Question, plugin: &Arc<Plugin>) -> Option<Result<(), Refusal>>;
    /// Abandons the question to the plugin's handler.
    fn abandon_question(&mut self, plugin: &Arc<Plugin>);
    /// Adds the plugin to the actual state.
    fn enter_actual(&mut self, plugin: &Arc<Plugin>);
    /// Removes the plugin from the actual state.
    fn leave_actual(&mut self);
    /// Emits an event of the operation, about the plugin if its lock was acquired.
    fn emit_event(&mut self, kind: EventKind);
}

/// A question to a handler.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// Decide whether the plugin is acceptable.
    Validate,
    /// Make the plugin usable.
    Register,
    /// Undo the registration.
    Deregister,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Validate => "validate",
            Self::Register => "register",
            Self::Deregister => "deregister",
        })
    }
}

/// The way in which an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The plugin is registered and was notified.
    Registered(Arc<Plugin>),
    /// The plugin was deregistered: `Ok` if its handler has undone the registration, else the
    /// reason why it has not.
    Deregistered(Result<(), Refusal>),
    /// A dry run has ended: `Ok` with the plugin that would be registered, else the reason for the
    /// refusal. The plugin was not notified, and no handler has registered it.
    Observed(Result<Arc<Plugin>, Refusal>),
    /// The registered plugin answers.
    Alive(Arc<Plugin>),
    /// Another plugin answers on the socket of this one, which is registered or was registered
    /// before a restart.
    Changed(Arc<Plugin>),
    /// The plugin could not be registered, or a registered plugin does not answer. The operation is
    /// retried after the backoff, except for the registration of a plugin that announced itself.
    Failed(Failure),
    /// The plugin was refused, and was notified of that.
    Refused(Refusal),
    /// The operation was cancelled, and had not registered a plugin: there was nothing to undo.
    Cancelled,
}

/// The result of an event.
#[derive(Debug)]
pub(super) enum Step {
    /// The operation continues.
    Goes(Operation),
    /// The operation has ended.
    Ends(Outcome),
    /// The event of that name is ignored, because the operation does not wait for such an event.
    Ignores(Operation, &'static str),
}

//! The events and commands of an operation.
//!
//! Pure: values only.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Operation;
use crate::grpc::CallError;
use crate::handler::{DialError, Plugin};
use crate::manager::failure::{Failure, Refusal};
use crate::time::Time;

/// An event that an operation may wait for.
#[derive(Debug)]
pub(in crate::manager) enum Event {
    /// The connection is established.
    Connected,
    /// The connection could not be established, for this reason.
    DialFailed(DialError),
    /// The call has ended.
    Replied(Result<Vec<u8>, CallError>),
    /// The connection on which to call was lost before the call.
    ConnectionLost,
    /// The plugin was notified of this refusal before, and is not notified again.
    AlreadyNotified,
    /// The operation has acquired the lock of the plugin name.
    LockAcquired,
    /// The handler has accepted, or the reason why it has not.
    Answered(Result<(), Refusal>),
    /// A deadline may have passed.
    Timeout,
    /// The socket was removed or replaced, or the manager stops.
    Cancelled,
}

/// A request of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::manager) enum Command {
    /// Connect to the socket.
    Dial,
    /// Call GetInfo on the connection.
    GetInfo,
    /// Call NotifyRegistrationStatus on the connection, with that deadline.
    Notify(Result<(), Refusal>, Time),
    /// Close the connection, or stop dialling.
    Hangup,
    /// Make the connection the registered plugin's source of liveness.
    MonitorLiveness,
    /// Acquire the lock of this plugin name, to ask the handler about it.
    AcquireLock(Arc<Plugin>),
    /// Ask the plugin's handler.
    Ask(Question, Arc<Plugin>),
    /// Abandon the question to the plugin's handler.
    Abandon(Arc<Plugin>),
    /// Report that the socket cannot be connected to yet.
    ReportNotConnected {
        /// The reason.
        error: DialError,
        /// The time for which connecting is retried.
        retry_for: Duration,
        /// Whether this is the first report of the operation.
        is_first: bool,
    },
    /// Report that the registration of the plugin has failed, and that its handler has not undone
    /// its part of it.
    ReportNotUndone(Arc<Plugin>, Refusal),
    /// Add the plugin to the actual state.
    EnterActual(Arc<Plugin>),
    /// Remove the plugin from the actual state.
    LeaveActual,
}

/// A question to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manager) enum Question {
    /// Is the plugin acceptable?
    Validate,
    /// Make the plugin usable.
    Register,
    /// Undo the registration.
    Deregister,
}

/// The way in which an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::manager) enum Outcome {
    /// The plugin is registered and was notified.
    Registered(Arc<Plugin>),
    /// The plugin was deregistered; its handler has undone the registration, or the reason why not.
    Deregistered(Arc<Plugin>, Result<(), Refusal>),
    /// The plugin would be registered, or the reason why not. It was not notified, and no handler
    /// has registered it.
    Observed(Result<Arc<Plugin>, Refusal>),
    /// The registered plugin answers.
    Alive(Arc<Plugin>),
    /// The plugin behind the socket answers with another description than the registered one, or
    /// than the one that was registered before a restart.
    Changed(Arc<Plugin>),
    /// The plugin is not registered, or a registered plugin does not answer. Retried after the
    /// backoff.
    Failed(Failure),
    /// The operation was cancelled before a handler registered the plugin.
    Cancelled,
}

/// The result of an event.
#[derive(Debug)]
pub(in crate::manager) enum Step {
    /// The operation continues, once its commands are carried out.
    Goes(Operation),
    /// The operation has ended, once its commands are carried out.
    Ends(Outcome),
    /// The event is ignored: it is about something that the operation has given up.
    Ignores(Operation, Unexpected),
}

/// An event that is not expected in the current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::manager) struct Unexpected {
    /// The name of the state.
    pub(in crate::manager) state: &'static str,
    /// The name of the event.
    pub(in crate::manager) event: &'static str,
}

impl Event {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Connected => "Connected",
            Self::DialFailed(_) => "DialFailed",
            Self::Replied(_) => "Replied",
            Self::ConnectionLost => "ConnectionLost",
            Self::AlreadyNotified => "AlreadyNotified",
            Self::LockAcquired => "LockAcquired",
            Self::Answered(_) => "Answered",
            Self::Timeout => "Timeout",
            Self::Cancelled => "Cancelled",
        }
    }
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

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} means nothing while {}", self.event, self.state)
    }
}

impl std::error::Error for Unexpected {}

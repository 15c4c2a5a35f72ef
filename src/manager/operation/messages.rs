//! The values that an operation and the manager exchange: events, actions and outcomes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Operation;
use crate::grpc::CallError;
use crate::handler::{DialError, Plugin};
use crate::manager::connections::Server;
use crate::manager::event::EventKind;
use crate::manager::failure::{Failure, Refusal};
use crate::time::Time;

/// The result of a call: the encoded reply, or the error.
pub(in crate::manager) type Reply = Result<Vec<u8>, CallError>;

/// An event for an operation.
#[derive(Debug)]
pub(in crate::manager) enum Event {
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

/// The actions of an operation. A result that is known at once is returned; any other result
/// follows as an [`Event`].
pub(in crate::manager) trait Actions {
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
    /// Emits an event of the attempt, about the plugin if its lock was acquired.
    fn emit_event(&mut self, kind: EventKind);
}

/// A question to a handler.
#[derive(Clone, Copy, Debug)]
pub(in crate::manager) enum Question {
    /// Decide whether the plugin is acceptable.
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
pub(in crate::manager) enum Step {
    /// The operation continues.
    Goes(Operation),
    /// The operation has ended.
    Ends(Outcome),
    /// The event of that name is ignored, because the operation does not wait for such an event.
    Ignores(Operation, &'static str),
}

impl Event {
    pub(super) fn name(&self) -> &'static str {
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

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Validate => "validate",
            Self::Register => "register",
            Self::Deregister => "deregister",
        })
    }
}

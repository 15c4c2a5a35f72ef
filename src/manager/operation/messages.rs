//! What an operation hears and says.
//!
//! Pure: values only.

use std::fmt;
use std::sync::Arc;

use super::Operation;
use crate::grpc::CallError;
use crate::handler::{CallFailure, DialError, Plugin};
use crate::manager::failure::{Failure, Refusal};
use crate::time::Time;

/// Something that an operation may be waiting for.
#[derive(Debug)]
pub enum Event {
    /// The connection is there.
    Connected,
    /// There is no connection, and why.
    DialFailed(DialError),
    /// The call ended.
    Replied(Result<Vec<u8>, CallError>),
    /// No other operation speaks to the handler about this plugin name now.
    TurnCame,
    /// The server at the plugin's endpoint has sent its SETTINGS, or why it has not. An endpoint
    /// that the handler does not use counts as good.
    EndpointChecked(Result<(), CallFailure>),
    /// The handler said yes, or why not.
    Answered(Result<(), Refusal>),
    /// Time has passed.
    Timeout,
    /// The socket has gone or is another one now, or the manager stops.
    Cancelled,
}

/// What an operation wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Connect to the socket.
    Dial,
    /// Connect to the plugin's endpoint and wait for the server's SETTINGS, if the handler uses the
    /// endpoint, until that moment.
    CheckEndpoint(Arc<Plugin>, Time),
    /// Call GetInfo on the connection.
    GetInfo,
    /// Call NotifyRegistrationStatus on the connection, until that moment.
    Notify(Result<(), Refusal>, Time),
    /// Close the connection, or stop dialling.
    Hangup,
    /// The plugin is registered: watch over whoever is behind the connection.
    Guard,
    /// Get in line to speak to the handler about this plugin name.
    TakeTurn(Arc<Plugin>),
    /// Ask the plugin's handler.
    Ask(Question, Arc<Plugin>),
    /// Tell the plugin's handler that nobody waits for its answer any more.
    Abandon(Arc<Plugin>),
    /// The plugin enters the actual state.
    EnterActual(Arc<Plugin>),
    /// The plugin leaves the actual state.
    LeaveActual,
}

/// A question to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Is the plugin acceptable?
    Validate,
    /// Make it usable.
    Register,
    /// Undo that.
    Deregister,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plugin is registered and has been told.
    Registered(Arc<Plugin>),
    /// The plugin has gone, and its handler has undone the registration, or why not.
    Deregistered(Arc<Plugin>, Result<(), Refusal>),
    /// The plugin would be registered, or why not: it was told nothing, and nothing was done.
    Observed(Result<Arc<Plugin>, Refusal>),
    /// The plugin's handler finds it acceptable, but nothing can be called at its endpoint. It was
    /// told nothing, and nothing was done.
    EndpointFailed(Arc<Plugin>, CallFailure),
    /// The registered plugin is there and answers.
    Alive(Arc<Plugin>),
    /// Something else than the registered plugin is behind its socket.
    Changed(Arc<Plugin>),
    /// The plugin is not registered; it is tried again after the backoff.
    Failed(Failure),
    /// The socket has gone, so nobody is interested any more.
    Cancelled,
}

/// What comes of an event.
#[derive(Debug)]
pub enum Step {
    /// The operation goes on, once its commands are done.
    Goes(Operation),
    /// The operation has ended, once its commands are done.
    Ends(Outcome),
    /// The event means nothing to an operation in that state: news of something it has given up.
    Ignores(Operation, Unexpected),
}

/// An event that means nothing in the state it met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexpected {
    /// The state's name.
    pub state: &'static str,
    /// The event's name.
    pub event: &'static str,
}

impl Event {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Connected => "Connected",
            Self::DialFailed(_) => "DialFailed",
            Self::Replied(_) => "Replied",
            Self::TurnCame => "TurnCame",
            Self::EndpointChecked(_) => "EndpointChecked",
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

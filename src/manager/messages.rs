//! The events that the manager processes, and its requests to the daemon.
//!
//! Values only. Measurements are neither logged nor kept: each leaves the manager as an
//! [`Output::Measured`], and is counted by the reader of the outputs. Durations are differences of
//! the times at which the manager received its inputs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[cfg(doc)]
use super::Manager;
use super::event::PluginEvent;
use super::failure::{Failure, Refusal};
use super::ids::{ConnectionId, Process};
#[cfg(doc)]
use crate::config::STOP_GRACE;
use crate::config::{Distrust, MAX_ANNOUNCED, MAX_ANNOUNCED_OF_PROCESS};
use crate::grpc::Code;
use crate::handler::{
    DialError, EffectId, Plugin, Program, ProgramEnd, ProgramOutcome, Reason, Ticket, dial_failure,
};
use crate::watch::Identity;

/// An event for the manager.
#[derive(Debug)]
pub enum Input {
    /// A socket exists.
    Found {
        /// The path of the socket.
        path: Arc<Path>,
        /// The identity of the socket.
        identity: Identity,
    },
    /// The socket was removed, or the socket of a restored plugin does not exist.
    Lost {
        /// The path of the socket.
        path: Arc<Path>,
    },
    /// A plugin has announced itself. [`Output::AnnouncementAnswered`] answers its call.
    Announced {
        /// The number of its call.
        id: AnnouncementId,
        /// The plugin, as it described itself; its socket is its endpoint.
        plugin: Box<Plugin>,
        /// The process that called, if the daemon can see it.
        caller: Option<Process>,
    },
    /// The call by which a plugin has announced itself has ended before it was answered: the
    /// announcement is withdrawn.
    CallEnded {
        /// The number of the call.
        id: AnnouncementId,
    },
    /// The socket of a connection requested by [`Output::Dial`], or its process, is not trusted.
    /// Sent once for each reason, before [`ConnectionEvent::Connected`].
    Distrusted(ConnectionId, Distrust),
    /// The endpoint of a socket's plugin is not trusted. Only for a dry run, which examines
    /// endpoints but does not connect to them.
    DistrustedEndpoint {
        /// The path of the socket.
        socket: Arc<Path>,
        /// The reason.
        why: Distrust,
    },
    /// An event of a connection requested by [`Output::Dial`].
    Connection(ConnectionId, ConnectionEvent),
    /// A program requested by [`Output::Spawn`] has ended, or could not be started.
    ProgramEnded {
        /// The program.
        id: EffectId,
        /// The outcome.
        outcome: ProgramOutcome,
    },
    /// The owner of a handler answers a question on the handler's behalf.
    Answered {
        /// The question.
        ticket: Ticket,
        /// `Ok` if accepted, else the reason for the refusal.
        result: Result<(), Reason>,
    },
    /// The handlers or the configuration have changed: attempts that have failed are retried at
    /// once.
    Reconsider,
    /// The daemon stops: no operation is started any more. Those that run are cancelled, except
    /// that those whose end a plugin or a handler would notice have [`STOP_GRACE`] to end.
    Stop,
}

/// An event of a connection.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// The connection is established. Contains the peer process, if the daemon can see it.
    Connected(Option<Process>),
    /// The connection could not be established.
    DialFailed(DialError),
    /// Bytes were read or written.
    Exchanged,
    /// The connection has ended: the peer closed it, or reading or writing failed.
    Closed,
    /// The peer process is watched from now on: the connection is not needed any more.
    Watched,
    /// The watched process has ended.
    ProcessEnded,
}

/// A request to the daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to a Unix socket, then send [`ConnectionEvent::Connected`] or
    /// [`ConnectionEvent::DialFailed`].
    Dial {
        /// The number of the new connection.
        conn: ConnectionId,
        /// The path of the socket.
        path: Arc<Path>,
        /// The identity that the socket must have; `None` accepts any socket.
        identity: Option<Identity>,
    },
    /// [`Manager::endpoint`] has bytes for this connection.
    Transmit(ConnectionId),
    /// Call [`Manager::handle_io`] for this connection again, after other connections had their
    /// turn: more messages have arrived than are handled at once. The connection may have ended
    /// meanwhile.
    Resume(ConnectionId),
    /// Close this connection or stop dialing it. If its peer process is watched, that continues
    /// until [`Output::UnwatchPeer`].
    Hangup {
        /// The connection.
        conn: ConnectionId,
        /// The bytes to write if that is possible without waiting.
        final_bytes: Vec<u8>,
    },
    /// Watch the process at the other end of this connection: send [`ConnectionEvent::Watched`]
    /// now, and [`ConnectionEvent::ProcessEnded`] when the process ends. If that is impossible,
    /// keep the connection open, and send [`ConnectionEvent::Closed`] when it ends.
    WatchPeer(ConnectionId),
    /// Stop watching the process at the other end of this connection.
    UnwatchPeer(ConnectionId),
    /// Examine this path again: it may lead to another socket than the one that was found.
    Examine {
        /// The path.
        path: Arc<Path>,
    },
    /// Answer a plugin that has announced itself.
    AnnouncementAnswered {
        /// The number of its call.
        id: AnnouncementId,
        /// `Ok` if the plugin is registered, else the reason why not.
        result: Result<(), AnnouncementError>,
    },
    /// Show this event to the operator; it is logged already.
    Event(Arc<PluginEvent>),
    /// Count this for the metrics.
    Measured(Measurement),
    /// Write the state file if it has changed ([`Manager::revision`]), run a program, then send
    /// [`Input::ProgramEnded`].
    Spawn {
        /// The number of the run.
        id: EffectId,
        /// The program.
        program: Program,
        /// Whether the program registers a new plugin, and so must not be run if the state file
        /// cannot be written.
        is_add: bool,
    },
    /// Kill this program and all that it has started, then send [`Input::ProgramEnded`] without
    /// waiting for its end.
    Kill(EffectId),
}

/// The number of a call by which a plugin announces itself. Not reused until the daemon restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnnouncementId(pub u64);

/// The reason why an announced plugin is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnouncementError {
    /// The attempt to register the plugin failed.
    Failed(Failure),
    /// The plugin was announced again with the same endpoint meanwhile.
    Superseded,
    /// The announcement was withdrawn before it was answered: the plugin is deregistered.
    Withdrawn,
    /// [`MAX_ANNOUNCED`] plugins have announced themselves already, and none of them is down.
    TooMany,
    /// The plugin's process has announced [`MAX_ANNOUNCED_OF_PROCESS`] plugins already.
    TooManyOfProcess,
    /// The daemon stops.
    Stopping,
}

impl AnnouncementError {
    /// Returns the message of the status that is sent to the plugin, in kubelet's words if kubelet
    /// has any. A handler's reason is not escaped, because the plugin itself receives it.
    pub fn status_error(&self, endpoint: &Path) -> String {
        match self {
            Self::Failed(Failure::Dial(error)) => {
                let why = dial_failure(error, endpoint);
                format!("failed to dial device plugin: {why}")
            }
            Self::Failed(Failure::Refused(
                Refusal::Validation(reason)
                | Refusal::Registration(reason)
                | Refusal::EndpointTaken { reason, .. },
            )) => reason.as_str().to_owned(),
            Self::Failed(failure) => failure.to_string(),
            Self::Superseded => "the plugin was announced again".to_owned(),
            Self::Withdrawn => "the plugin is being deregistered".to_owned(),
            Self::TooMany => format!("{MAX_ANNOUNCED} device plugins are registered already"),
            Self::TooManyOfProcess => format!(
                "this process has registered {MAX_ANNOUNCED_OF_PROCESS} device plugins already"
            ),
            Self::Stopping => "plugind is stopping".to_owned(),
        }
    }
}

/// An observation that the metrics count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// A unary call to a plugin has ended.
    Called {
        /// The method: `/<package>.<Service>/<Method>`.
        method: &'static str,
        /// The code of the result.
        code: Code,
        /// The duration of the call. If a handler made the call, this includes the dial, and the
        /// retries until the plugin's endpoint was ready.
        took: Duration,
    },
    /// A program that a handler has run for a plugin has ended.
    Ran {
        /// The plugin.
        plugin: Arc<Plugin>,
        /// The action of the handler: `add`, `re-add`, `del`.
        action: &'static str,
        /// The result, in one word.
        result: &'static str,
        /// The duration of the run.
        took: Duration,
    },
    /// Something had to wait or was refused because of a limit.
    LimitHit(Limit),
}

/// A limit of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The number of operations at once: a socket waits for a permit.
    Operations,
    /// The file descriptors: a plugin waits, or a call or stream is not started.
    Descriptors,
    /// The number of programs at once: a program waits.
    Programs,
    /// The memory budget: a call, or a list that a plugin has sent, is refused.
    Memory,
}

impl Limit {
    /// Returns the value of the label `limit` in the metric `plugind_limit_hits_total`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Descriptors => "descriptors",
            Self::Programs => "programs",
            Self::Memory => "memory",
        }
    }
}

/// Returns the result of a program in one word.
pub(super) fn program_result(end: &ProgramEnd) -> &'static str {
    match end {
        ProgramEnd::Exited(0) => "success",
        ProgramEnd::Exited(_) => "failure",
        ProgramEnd::Killed(_) => "killed",
        ProgramEnd::TimedOut => "timeout",
        ProgramEnd::NotStarted(_) | ProgramEnd::NotInTime => "not_started",
    }
}

/// The result of a program that was killed because its effect was cancelled.
pub(super) const CANCELLED: &str = "cancelled";

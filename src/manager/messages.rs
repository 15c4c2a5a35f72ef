//! The events that the manager processes, and its requests to the daemon.
//!
//! Pure: values only.

use std::path::Path;
use std::sync::Arc;

#[cfg(doc)]
use super::Manager;
use super::announcement::{AnnouncementError, AnnouncementId};
use super::event::PluginEvent;
use super::ids::ConnectionId;
use super::measurement::Measurement;
use super::process::Process;
#[cfg(doc)]
use crate::config::STOP_GRACE;
use crate::handler::{DialError, EffectId, Plugin, Program, ProgramOutcome, Reason, Ticket};
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
    /// The socket was removed, or a restored socket ([`Manager::restored`]) does not exist.
    Lost {
        /// The path of the socket.
        path: Arc<Path>,
    },
    /// A plugin has announced itself: answered by [`Output::AnnouncementAnswered`].
    Announced {
        /// The number of its call.
        id: AnnouncementId,
        /// The plugin, as it described itself; its socket is its endpoint.
        plugin: Box<Plugin>,
        /// The process that called, if the daemon can see it.
        caller: Option<Process>,
    },
    /// A connection requested by [`Output::Dial`] is established.
    Connected {
        /// The connection.
        conn: ConnectionId,
        /// The peer process, if the daemon can see it.
        process: Option<Process>,
    },
    /// A connection requested by [`Output::Dial`] could not be established.
    DialFailed {
        /// The connection.
        conn: ConnectionId,
        /// The reason.
        error: DialError,
    },
    /// A connection has ended: the peer closed it, or reading or writing failed.
    Closed {
        /// The connection.
        conn: ConnectionId,
    },
    /// The peer of a connection is watched from now on, as [`Output::WatchPeer`] requested.
    PeerWatched {
        /// The connection.
        conn: ConnectionId,
        /// How the peer is watched.
        by: LivenessSource,
    },
    /// The watched process has ended.
    ProcessEnded {
        /// The connection to that process.
        conn: ConnectionId,
    },
    /// A program requested by [`Output::Spawn`] has ended, or could not be started.
    ProgramEnded {
        /// The program.
        id: EffectId,
        /// How it ended.
        outcome: ProgramOutcome,
    },
    /// The owner of a handler answers a question on the handler's behalf.
    Answered {
        /// The question.
        ticket: Ticket,
        /// Yes, or the reason for no.
        result: Result<(), Reason>,
    },
    /// The handlers or the configuration have changed: what failed because of the old ones is
    /// retried at once.
    Reconsider,
    /// The daemon stops: starts no new operations and gives running ones [`STOP_GRACE`].
    Stop,
}

/// A request to the daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to a Unix socket, then send [`Input::Connected`] or [`Input::DialFailed`].
    Dial {
        /// The name of the connection from now on.
        conn: ConnectionId,
        /// The path of the socket.
        path: Arc<Path>,
        /// The identity that the socket must have; `None` accepts any socket.
        identity: Option<Identity>,
    },
    /// [`Manager::endpoint`] has bytes for this connection.
    Transmit {
        /// The connection.
        conn: ConnectionId,
    },
    /// Call [`Manager::handle_io`] for this connection again, after others had their turn: it has
    /// more messages than are handled at once. It may have ended meanwhile.
    Resume {
        /// The connection.
        conn: ConnectionId,
    },
    /// Close this connection or stop dialling it; no further events of it are wanted.
    Hangup {
        /// The connection.
        conn: ConnectionId,
        /// The bytes to write if that is possible without waiting.
        final_bytes: Vec<u8>,
    },
    /// Watch the process at the other end of this connection or, if that is impossible, report the
    /// end of the connection; then send [`Input::PeerWatched`].
    WatchPeer {
        /// The connection.
        conn: ConnectionId,
    },
    /// Stop watching the process at the other end of this connection.
    UnwatchPeer {
        /// The connection.
        conn: ConnectionId,
    },
    /// Examine this path again: it may lead to another socket than the one that was found.
    Examine {
        /// The path.
        path: Arc<Path>,
    },
    /// Answer a plugin that has announced itself.
    AnnouncementAnswered {
        /// The number of its call.
        id: AnnouncementId,
        /// Whether the plugin is registered, or why not.
        result: Result<(), AnnouncementError>,
    },
    /// Show this event to the operator; it is logged already.
    Event(Box<PluginEvent>),
    /// Count this for the metrics.
    Measured(Measurement),
    /// Write the state file if it has changed ([`Manager::revision`]), run a program, then send
    /// [`Input::ProgramEnded`].
    Spawn {
        /// The name of the program from now on.
        id: EffectId,
        /// The program.
        program: Program,
    },
    /// Kill this program and all that it has started, then send [`Input::ProgramEnded`] without
    /// waiting for its end.
    Kill {
        /// The program.
        id: EffectId,
    },
}

/// The state of the world that an entry of [`Manager::total_plugins`] belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum World {
    /// The socket exists.
    Desired,
    /// A handler knows its plugin.
    Actual,
}

impl World {
    /// Returns the value of the label `state` in kubelet's metric `plugin_manager_total_plugins`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Desired => "desired_state_of_world",
            Self::Actual => "actual_state_of_world",
        }
    }
}

/// The means by which the daemon watches a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LivenessSource {
    /// The process is watched: the connection is not needed any more.
    Process,
    /// The connection is watched, and has to stay open.
    Connection,
}

//! What sockets and the host of the handlers share.
//!
//! Pure.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::changes::Changes;
use super::connections::Connections;
use super::event::{EventKind, PluginEvent, Shortage};
use super::measurement::{Limit, Measurement};
use super::messages::Output;
use super::operation::{Command, Outcome, Question};
use super::registered::Registered;
use super::timers::Timers;
use crate::budget::Budget;
use crate::config::{Mode, OnDown, PathMap, SLOW_CHECK, SLOW_CHECK_SHARE};
use crate::handler::{Plugin, Ticket};
use crate::time::Time;

/// The environment of a step.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// The time of the step.
    pub(super) now: Time,
    pub(super) policy: Policy,
    pub(super) connections: Connections,
    pub(super) budget: Budget,
    pub(super) timers: Timers,
    /// The requests to the daemon.
    pub(super) outputs: VecDeque<Output>,
    /// The requests of the socket that takes a step, which are carried out next.
    pub(super) requests: VecDeque<Request>,
    /// The commands of the operation that takes a step; empty between steps.
    pub(super) commands: Vec<Command>,
    /// The number of plugins that handlers know.
    pub(super) plugins: usize,
    /// The number of changes to the plugins that handlers know.
    pub(super) revision: u64,
    /// The changes of records.
    pub(super) changes: Changes,
    /// The sockets about whose plugins handlers have reported something.
    pub(super) reported: Vec<Arc<Path>>,
    /// The sockets whose plugins have announced themselves and are to be deregistered.
    pub(super) withdrawn: Vec<Arc<Path>>,
}

/// What the caller has decided.
#[derive(Debug, Default)]
pub(super) struct Policy {
    pub(super) mode: Mode,
    pub(super) on_down: OnDown,
    pub(super) path_map: PathMap,
    /// Whether the daemon stops: no operation is started any more.
    pub(super) is_stopping: bool,
}

/// What a socket cannot do by itself.
#[derive(Debug)]
pub(super) enum Request {
    /// Connect to the socket.
    Dial,
    /// Ask the plugin's handler.
    Ask(Question, Arc<Plugin>),
    /// Abandon a question to a handler.
    Abandon(Ticket, Arc<Plugin>),
    /// The question to the handler has been open for a while: let the next socket of the name pass.
    Stalled,
    /// The plugin has left the actual state.
    Left(Box<Registered>),
    /// Check whether the registered plugin answers.
    Check,
    /// The announcement of the plugin does not hold any more, if it has announced itself.
    Withdraw,
    /// The operation has ended.
    Ended(Outcome),
}

impl Context {
    /// Emits an event, and logs it.
    pub(super) fn emit(&mut self, mut event: PluginEvent) {
        event.generation = self.changes.advance();
        if let (EventKind::Reported(_), Some(socket)) = (&event.kind, &event.socket) {
            self.reported.push(socket.clone());
        }
        event.log();
        self.outputs.push_back(Output::Event(Box::new(event)));
    }

    /// Has something counted for the metrics.
    pub(super) fn measure(&mut self, measurement: Measurement) {
        self.outputs.push_back(Output::Measured(measurement));
    }

    /// Has it counted that something waits or is refused because of a limit.
    pub(super) fn limit_hit(&mut self, limit: Limit) {
        self.measure(Measurement::LimitHit(limit));
    }

    /// Warns that something waits for a descriptor, unless a recent warning exists.
    pub(super) fn warn_of_shortage(&mut self, shortage: Shortage) {
        self.limit_hit(Limit::Descriptors);
        if self.connections.is_warning_due(self.now) {
            self.emit(PluginEvent::of_daemon(EventKind::DescriptorsShort(
                shortage,
            )));
        }
    }

    /// Returns the path at which to dial a plugin's endpoint, which may be a registration socket.
    pub(super) fn endpoint_path(&self, endpoint: &Path) -> Arc<Path> {
        self.policy.path_map.find(endpoint).into()
    }

    /// Returns the time of the next check of a plugin that is not watched: the more of them there
    /// are, the later.
    pub(super) fn slow_check(&self) -> Time {
        let unwatched = self.plugins.saturating_sub(self.connections.liveness());
        let unwatched = u32::try_from(unwatched).unwrap_or(u32::MAX);
        self.now + SLOW_CHECK + SLOW_CHECK_SHARE.saturating_mul(unwatched)
    }
}

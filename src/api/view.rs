//! The state from which responses are rendered.
//!
//! A view has only references and values: `daemon` creates one in each turn in which responses are
//! rendered, and does not keep it.

use std::time::Duration;

use super::counters::Counters;
use super::event_log::EventLog;
use super::{PeerFacts, ProcessFacts};
use crate::config::Mode;
use crate::handler::Inventory;
use crate::manager::Manager;
use crate::time::{Time, rfc3339};
use crate::watch::Watch;

/// The state of the daemon in one turn.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The state machine of the plugin manager.
    pub manager: &'a Manager,
    /// The watched directories.
    pub watch: &'a Watch,
    /// The plugins of the built-in handlers; `None` without these handlers.
    pub inventory: Option<&'a Inventory>,
    /// The events that are kept. They must include those up to the generation of `manager`.
    pub events: &'a EventLog,
    /// The counts since the start.
    pub counters: &'a Counters,
    /// Reads the resources that the daemon uses; `None` if the system does not report them.
    pub process: fn() -> Option<ProcessFacts>,
    /// Reads the facts about the process with this ID; `None` if the system does not report them.
    pub peer: fn(u32) -> Option<PeerFacts>,
    /// The facts that do not change while the daemon runs.
    pub daemon: &'a Daemon,
    /// The reasons why the daemon is not ready, one sentence each.
    pub not_ready: &'a [String],
    /// The longest turn of the loop so far.
    pub longest_turn: Duration,
    /// The time of this turn.
    pub now: Time,
    /// The wall-clock time of this turn, since the Unix epoch.
    pub time_of_day: Duration,
}

/// The facts that do not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The process ID.
    pub pid: u32,
    /// Whether plugins are registered or only observed.
    pub mode: Mode,
    /// An ID that changes with every start: generations of different instances are unrelated.
    pub instance: String,
    /// The time of the start.
    pub started: Time,
    /// The wall-clock time of the start, since the Unix epoch. Setting the clock later does not
    /// change it.
    pub start_time: Duration,
    /// The state of the sandbox that limits what the process may do, as text.
    pub sandbox: String,
}

impl View<'_> {
    /// Returns a time as text. The text is computed from the present wall-clock time, so that
    /// setting the clock corrects all times.
    pub(super) fn format_time(&self, time: Time) -> String {
        let past = self.now.saturating_since(time);
        let to_come = time.saturating_since(self.now);
        rfc3339(
            self.time_of_day
                .saturating_sub(past)
                .saturating_add(to_come),
        )
    }
}

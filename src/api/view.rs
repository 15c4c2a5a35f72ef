//! The state from which responses are rendered.
//!
//! References and values only: the shell lends a view for each turn, and nothing here is kept.

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
    /// The core.
    pub manager: &'a Manager,
    /// The watched directories.
    pub watch: &'a Watch,
    /// The plugins of the built-in handlers; `None` without these handlers.
    pub inventory: Option<&'a Inventory>,
    /// The events that are kept. They must include those up to the generation of `manager`.
    pub events: &'a EventLog,
    /// The counts since the start.
    pub counters: &'a Counters,
    /// Reads the resources of the process; `None` if the system does not report them.
    pub process: fn() -> Option<ProcessFacts>,
    /// Reads what is known of the process with this id.
    pub peer: fn(u32) -> Option<PeerFacts>,
    /// The facts that do not change while the daemon runs.
    pub daemon: &'a Daemon,
    /// The reasons why the daemon is not ready, a sentence for each.
    pub not_ready: &'a [String],
    /// The longest turn of the loop so far.
    pub longest_turn: Duration,
    /// The time of this turn.
    pub now: Time,
    /// The same moment, since the beginning of 1970 in UTC.
    pub time_of_day: Duration,
}

/// The facts that do not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The process ID.
    pub pid: u32,
    /// Whether plugins are registered or only observed.
    pub mode: Mode,
    /// An ID that differs after every start: generations of another instance mean nothing.
    pub instance: String,
    /// The time of the start.
    pub started: Time,
    /// The same moment as the clock showed it then, since the beginning of 1970 in UTC: setting the
    /// clock later does not change it.
    pub start_time: Duration,
    /// Whether the kernel keeps the process to what it needs, and how.
    pub sandbox: String,
}

impl View<'_> {
    /// Returns a time as text. It is computed from the present time of day, so that setting the
    /// clock corrects all times.
    pub(super) fn time(&self, time: Time) -> String {
        let past = self.now.saturating_since(time);
        let to_come = time.saturating_since(self.now);
        rfc3339(
            self.time_of_day
                .saturating_sub(past)
                .saturating_add(to_come),
        )
    }
}

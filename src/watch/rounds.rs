//! Rounds that scan every directory: at the start, after events were lost, at long intervals, and
//! on request.
//!
//! Lost events do not mean that any one directory has changed: one busy directory can fill the
//! queue for all. So a round does not affect the pauses of directories (`pauses`). Rounds follow
//! each other after a short pause that does not grow, and begin with the directories that the user
//! named, because most plugins have their sockets there.
//!
//! The end of the first round, and of rounds on request, is reported: when all outputs of the round
//! have been carried out, and the outputs that these have caused. That includes directories that
//! appear in the meantime, unless more and more appear.

use super::{Output, Watch};
use crate::config;
use crate::time::Time;

/// The requested rounds, and the round whose end is to be reported.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Whether a round is to begin at `pause_end`.
    pub(super) is_wanted: bool,
    /// The end of the pause after the last round.
    pub(super) pause_end: Time,
    /// The number of requests for each reason.
    requested: [u64; RoundReason::ALL.len()],
    /// The number of the last rescan that was requested; the first round has the number 0.
    last_rescan: u64,
    /// Whether that rescan begins with the next round.
    is_rescan_wanted: bool,
    running: Option<Running>,
    /// The number of scans and examinations that the shell has not answered yet.
    pub(super) unanswered: usize,
    is_first_over: bool,
    finished: Option<Rescanned>,
}

/// The round that a request for a rescan, or the start, waits for.
#[derive(Debug, Default)]
struct Running {
    result: Rescanned,
    /// The number of outputs to be carried out before the next check.
    outputs: usize,
    checks: usize,
}

/// The result of a rescan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rescanned {
    /// The number that [`Watch::request_rescan`] returned.
    pub number: u64,
    /// The number of directories that were scanned; one that was scanned twice counts twice.
    pub directories: usize,
    /// The number of paths at which a new socket was found, or another one than before.
    pub found: usize,
    /// The number of known or expected paths that were reported as lost.
    pub lost: usize,
}

/// The reason for a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundReason {
    /// The kernel has dropped events.
    Overflow,
    /// The interval between two resyncs is over.
    Resync,
    /// The user has requested a rescan.
    Request,
}

impl RoundReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Overflow, Self::Resync, Self::Request];

    /// Returns the value of the label `reason`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Resync => "resync",
            Self::Request => "request",
        }
    }
}

impl Rounds {
    /// Returns the rounds of a new watch: the first one is running, and the caller requests its
    /// scans.
    pub(super) fn at_start() -> Self {
        Self {
            running: Some(Running::default()),
            ..Self::default()
        }
    }

    /// Counts an output that is returned (`is_needed`) or dropped.
    pub(super) fn count_output(&mut self, output: &Output, is_needed: bool) {
        let is_request = matches!(output, Output::Scan { .. } | Output::Examine { .. });
        self.unanswered += usize::from(is_request && is_needed);
        if let Some(Running {
            outputs, result, ..
        }) = &mut self.running
        {
            *outputs = outputs.saturating_sub(1);
            match output {
                Output::Scan { .. } => result.directories += usize::from(is_needed),
                Output::Found { .. } => result.found += 1,
                Output::Lost { .. } => result.lost += 1,
                _ => {}
            }
        }
    }

    /// Ends the running round if nothing is left to do for it. `pending` is the number of outputs
    /// in the queue.
    pub(super) fn end_round_if_done(&mut self, pending: usize) {
        let Some(running) = &mut self.running else {
            return;
        };
        if self.unanswered > 0 || running.outputs > 0 {
            return;
        }
        if pending > 0 && running.checks < MAX_CHECKS {
            (running.outputs, running.checks) = (pending, running.checks + 1);
            return;
        }
        if running.result.number > 0 {
            self.finished = Some(running.result);
        }
        self.running = None;
        self.is_first_over = true;
        self.is_wanted |= self.is_rescan_wanted;
    }
}

impl Watch {
    /// Returns the number of scans of every directory that were requested for this reason. One
    /// round may serve several requests.
    pub fn round_requests(&self, reason: RoundReason) -> u64 {
        self.rounds.requested[reason as usize]
    }

    /// Requests a scan of every directory, and returns the number of that rescan. A rescan that has
    /// already begun does not count: all requests until the next one begins share the next one.
    /// [`Watch::take_rescanned`] returns the result.
    pub fn request_rescan(&mut self) -> u64 {
        let rounds = &mut self.rounds;
        rounds.requested[RoundReason::Request as usize] += 1;
        rounds.last_rescan += u64::from(!rounds.is_rescan_wanted);
        rounds.is_rescan_wanted = true;
        rounds.is_wanted |= rounds.running.is_none();
        rounds.last_rescan
    }

    /// Removes and returns the result of the last rescan that has ended.
    pub fn take_rescanned(&mut self) -> Option<Rescanned> {
        self.rounds.finished.take()
    }

    /// Returns whether every directory that existed at the start has been read, or cannot be read.
    pub fn is_scanned(&self) -> bool {
        self.rounds.is_first_over
    }

    /// Requests a scan of every directory: now, or after a pause if the last one was a moment ago.
    pub(super) fn rescan_all(&mut self, reason: RoundReason, now: Time) {
        self.rounds.requested[reason as usize] += 1;
        self.rounds.is_wanted = true;
        self.begin_due_round(now);
    }

    /// Requests the scans of a round, if one is due.
    pub(super) fn begin_due_round(&mut self, now: Time) {
        if !self.rounds.is_wanted || now < self.rounds.pause_end {
            return;
        }
        self.rounds.is_wanted = false;
        self.rounds.pause_end = now + config::ROUND_PAUSE;
        for dir in self.tree.paths_roots_first() {
            self.request_scan(dir, false);
        }
        let rounds = &mut self.rounds;
        if rounds.is_rescan_wanted && rounds.running.is_none() {
            rounds.is_rescan_wanted = false;
            let running = rounds.running.insert(Running::default());
            running.result.number = rounds.last_rescan;
        }
    }
}

/// The maximum number of times that the end of a round is postponed because more outputs are
/// pending: enough for a directory at the deepest level that appears in the meantime, and for its
/// entries.
const MAX_CHECKS: usize = 2 * config::MAX_TREE_DEPTH;

//! Rounds that scan every directory: after events were lost, and at long intervals.
//!
//! Pure. Lost events are not evidence of a change in any one directory: one busy directory fills
//! the queue for all. So a round does not count as a change of a directory, and does not affect the
//! directory's own pauses (`pauses`). Rounds follow each other after a short pause that does not
//! grow, and begin with the directories that the user named, because most plugins have their
//! sockets there.

use std::path::Path;
use std::sync::Arc;

use super::Watch;
use super::wanted::AT_ONCE;
use crate::config;
use crate::time::Time;

/// The current round, and whether another one follows.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The directories that remain to be scanned, the next one last.
    left: Vec<Arc<Path>>,
    /// Whether another round is wanted.
    is_again: bool,
    /// The directories that were being listed when the round reached them.
    late: Vec<Arc<Path>>,
    /// The end of the pause after the last round.
    pause_end: Time,
    /// The number of requests for each reason.
    requested: [u64; RoundReason::ALL.len()],
}

/// The reason for a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundReason {
    /// The kernel has dropped events.
    Overflow,
    /// The interval between two rounds is over.
    Resync,
    /// The user has asked for it.
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
    /// Adds a directory whose listing was in progress when the round reached it, to be scanned
    /// soon.
    pub(super) fn add_late(&mut self, dir: Arc<Path>, now: Time) {
        self.late.push(dir);
        self.pause_end = self.pause_end.max(now + config::ROUND_PAUSE);
    }

    /// Requests a round, which begins with the next call of [`Watch::go_on_with_round`] after the
    /// pause.
    pub(super) fn request(&mut self, reason: RoundReason) {
        self.is_again = true;
        self.requested[reason as usize] += 1;
    }

    /// Returns when to call [`Watch::go_on_with_round`]; `None` if there is nothing to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if !self.left.is_empty() {
            return Some(Time::ZERO);
        }
        let is_any_wanted = self.is_again || !self.late.is_empty();
        is_any_wanted.then_some(self.pause_end)
    }
}

impl Watch {
    /// Returns how often a scan of every directory was requested for this reason.
    pub fn count_rounds(&self, reason: RoundReason) -> u64 {
        self.rounds.requested[reason as usize]
    }

    /// Schedules a scan of every directory: some now and the others soon, or all after a pause if
    /// the last round has just ended.
    pub(super) fn rescan_all(&mut self, reason: RoundReason, now: Time) {
        self.rounds.request(reason);
        self.go_on_with_round(now);
    }

    /// Scans some more directories of the current round, or starts the next round if it is due.
    pub(super) fn go_on_with_round(&mut self, now: Time) {
        let rounds = &mut self.rounds;
        if rounds.left.is_empty() && rounds.pause_end <= now {
            let late = std::mem::take(&mut rounds.late);
            if std::mem::take(&mut rounds.is_again) {
                rounds.left = self.tree.paths_from_roots();
                rounds.left.reverse();
            } else {
                rounds.left = late;
            }
        }
        if rounds.left.is_empty() {
            return;
        }
        let rest = rounds.left.len().saturating_sub(AT_ONCE);
        let next = rounds.left.split_off(rest);
        if rounds.left.is_empty() {
            rounds.pause_end = now + config::ROUND_PAUSE;
        }
        for dir in next.into_iter().rev() {
            if self.listings.is_open(&dir) {
                self.listings.set_late(&dir);
            } else if self.tree.contains(&dir) {
                let place = self.place(&dir);
                self.want_scan(dir, place);
            }
        }
    }
}

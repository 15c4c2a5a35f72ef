//! Rounds in which every directory is scanned: after events were lost, and once in a while.
//!
//! Pure. Lost events say nothing about any one directory: one directory that churns fills the queue
//! for all. So a round does not count as something that happens to a directory, whose own pauses
//! stay what they are (`pauses`). Rounds follow each other after a pause that is short and does not
//! grow, and the directories that the user named, where plugins have their sockets, come first.

use std::path::Path;
use std::sync::Arc;

use super::Watch;
use super::wanted::AT_ONCE;
use crate::config;
use crate::time::Time;

/// The round that is under way, and whether there is to be another one.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The directories that are still to be scanned, the next one last.
    left: Vec<Arc<Path>>,
    /// Whether another round is wanted.
    is_again: bool,
    /// The directories that were being listed when the round came to them.
    late: Vec<Arc<Path>>,
    /// When the pause after the last round ends.
    pause_end: Time,
}

impl Rounds {
    /// A directory that the round met during its listing is scanned soon.
    pub(super) fn add_late(&mut self, dir: Arc<Path>, now: Time) {
        self.late.push(dir);
        self.pause_end = self.pause_end.max(now + config::ROUND_PAUSE);
    }

    /// Returns when [`Watch::go_on_with_round`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if !self.left.is_empty() {
            return Some(Time::ZERO);
        }
        let is_any_wanted = self.is_again || !self.late.is_empty();
        is_any_wanted.then_some(self.pause_end)
    }
}

impl Watch {
    /// Has everything scanned again, some directories now and the others soon; all of it after a
    /// moment, if that was so a moment ago.
    pub(super) fn rescan_all(&mut self, now: Time) {
        self.rounds.is_again = true;
        self.go_on_with_round(now);
    }

    /// Has some more directories scanned, if there is a round or it is time for the next one.
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

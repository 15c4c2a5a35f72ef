//! Decides whether the daemon is ready: its start is complete, and it notices the changes in every
//! plugins directory.
//!
//! `/readyz` and the notification of the service manager both use this module, so they always
//! agree.

use crate::config::READY_TIME;
use crate::escape;
use crate::manager::Manager;
use crate::time::Time;
use crate::watch::{DirectoryState, Watch};

/// The progress of the start.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// The time at which the first scan was seen to be over.
    scanned: Option<Time>,
    /// Whether, since the first scan, there was a moment at which all sockets had been dialed, or
    /// [`READY_TIME`] has passed.
    is_started: bool,
}

impl Readiness {
    /// Records the time at which the first scan is seen to be over.
    pub(crate) fn record_first_scan(&mut self, watch: &Watch, now: Time) {
        if self.scanned.is_none() && watch.is_scanned() {
            self.scanned = Some(now);
        }
    }

    /// Returns the time at which the start counts as complete even if sockets are not dialed yet;
    /// `None` before the end of the first scan, and once the start is complete.
    pub(crate) fn start_deadline(&self) -> Option<Time> {
        let scanned = self.scanned.filter(|_| !self.is_started);
        scanned.map(|scanned| scanned + READY_TIME)
    }

    /// Returns why the daemon is not ready at `now`, a sentence for each reason. Records that the
    /// start is complete, if it is.
    pub(crate) fn assess(&mut self, manager: &Manager, watch: &Watch, now: Time) -> Vec<String> {
        let mut problems = Vec::new();
        match self.start_deadline() {
            None if self.is_started => {}
            None => problems.push("the first scan of the directories is not complete".to_owned()),
            Some(at) if at <= now => self.is_started = true,
            Some(_) => match manager.records().undialed_count() {
                0 => self.is_started = true,
                count => problems.push(format!("sockets not dialed yet: {count}")),
            },
        }
        let roots = watch.directories().take_while(|it| it.is_root);
        for root in roots.filter(|it| it.state == DirectoryState::Lost) {
            if let Some(problem) = root.problem {
                problems.push(format!("{}: {problem}", escape::path(root.path)));
            }
        }
        problems
    }
}

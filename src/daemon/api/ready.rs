//! Whether the daemon is ready: it has done what a start consists of, and its directories can be
//! watched.

use crate::config::READY_TIME;
use crate::escape;
use crate::manager::Manager;
use crate::time::Time;
use crate::watch::{DirectoryState, Watch};

/// The progress of the start.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// The time at which the first scan was seen to be over.
    scanned: Option<Time>,
    /// Whether the sockets of the first scan were dialed, or had their time.
    is_started: bool,
}

impl Readiness {
    /// Notes what was done by `now`.
    pub(super) fn advance(&mut self, watch: &Watch, now: Time) {
        if self.scanned.is_none() && watch.is_scanned() {
            self.scanned = Some(now);
        }
    }

    /// Returns why the daemon is not ready at `now`, a sentence for each reason.
    pub(super) fn problems(&mut self, manager: &Manager, watch: &Watch, now: Time) -> Vec<String> {
        let mut problems = Vec::new();
        match self.scanned {
            None => problems.push("the first scan of the directories is not complete".to_owned()),
            Some(scanned) if !self.is_started => {
                let has_had_time = scanned + READY_TIME <= now;
                let count = if has_had_time { 0 } else { manager.undialed() };
                self.is_started = count == 0;
                if count > 0 {
                    let problem = format!("sockets not dialed yet: {count}");
                    problems.push(problem);
                }
            }
            Some(_) => {}
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

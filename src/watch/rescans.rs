//! Rescans: when every directory has been read again, at the start or on request, and what that has
//! changed.
//!
//! Pure. A rescan does not scan anything itself: a round does (`rounds`). This keeps the
//! directories that were not read since the request. The rescan is over when none is left and the
//! names that their listings did not hold have been examined. The work is bounded: directories that
//! appear meanwhile are waited for, up to a number of them. The first rescan is that of the start.

use std::path::Path;
use std::sync::Arc;

use super::{RoundReason, Watch};
use crate::by_path::{ByPath, Octets, octets};
use crate::config;

/// The result of a rescan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rescanned {
    /// The number that [`Watch::request_rescan`] has returned.
    pub number: u64,
    /// The number of directories that were listed.
    pub directories: usize,
    /// The number of paths at which a socket was found that was not known, or is another one.
    pub found: usize,
    /// The number of known paths at which the socket does not exist any more.
    pub lost: usize,
}

/// The rescan in progress, and whether another one follows.
#[derive(Debug, Default)]
pub(super) struct Rescans {
    running: Option<Box<Running>>,
    /// The number of the rescan in progress, or of the last one; that of the start is 0.
    number: u64,
    /// Whether another rescan was requested since the one in progress has begun.
    is_again: bool,
    is_first_over: bool,
    finished: Option<Rescanned>,
}

/// A rescan in progress.
#[derive(Debug, Default)]
struct Running {
    /// The directories that were not read yet.
    left: ByPath<()>,
    /// The number of directories that were added since the beginning.
    added: usize,
    /// The number of outputs to wait for: first the examinations, then what they have caused.
    outputs: Option<usize>,
    is_examined: bool,
    result: Rescanned,
}

impl Rescans {
    fn begin(&mut self, dirs: Vec<Arc<Path>>) {
        self.running = Some(Box::new(Running {
            left: dirs.into_iter().map(|dir| (Octets(dir), ())).collect(),
            ..Running::default()
        }));
    }

    /// Returns the number of the rescan in progress, for [`Rescans::read`].
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Waits for a directory that has appeared.
    pub(super) fn add(&mut self, dir: &Arc<Path>) {
        if let Some(running) = &mut self.running {
            if running.added < config::MAX_DIRECTORIES && running.outputs.is_none() {
                running.added += 1;
                running.left.insert(Octets(Arc::clone(dir)), ());
            }
        }
    }

    /// Records that the reading of a directory has ended that began during the rescan `number`:
    /// whether the directory was listed, or could not be.
    pub(super) fn read(&mut self, dir: &Path, number: u64, is_listed: bool) {
        if let Some(running) = self.running.as_mut().filter(|_| number == self.number) {
            let is_counted = running.left.remove(octets(dir)).is_some() && is_listed;
            running.result.directories += usize::from(is_counted);
        }
    }

    /// Does not wait for a directory that was given up.
    pub(super) fn drop_directory(&mut self, dir: &Path) {
        if let Some(running) = &mut self.running {
            running.left.remove(octets(dir));
        }
    }

    /// Counts a path at which a socket was found.
    pub(super) fn count_found(&mut self) {
        if let Some(running) = &mut self.running {
            running.result.found += 1;
        }
    }

    /// Counts a path at which a socket was lost.
    pub(super) fn count_lost(&mut self) {
        if let Some(running) = &mut self.running {
            running.result.lost += 1;
        }
    }

    /// Counts an output that was carried out.
    pub(super) fn count_output(&mut self) {
        if let Some(outputs) = self.running.as_mut().and_then(|it| it.outputs.as_mut()) {
            *outputs = outputs.saturating_sub(1);
        }
    }

    /// Returns whether the rescan in progress is over. `pending` is the number of outputs that were
    /// not carried out yet.
    fn is_over(&mut self, pending: usize) -> bool {
        let Some(running) = self.running.as_mut().filter(|it| it.left.is_empty()) else {
            return false;
        };
        loop {
            // Outputs that became obsolete are not counted, so the number may be too high.
            let outputs = running.outputs.get_or_insert(pending);
            if *outputs > 0 && pending > 0 {
                return false;
            }
            if std::mem::replace(&mut running.is_examined, true) {
                return true;
            }
            running.outputs = None;
        }
    }
}

impl Watch {
    /// Requests that every directory is read again, and returns the number of the rescan. A rescan
    /// that has begun before does not count, but all requests until the next one begins share that.
    /// The result is returned by [`Watch::take_rescanned`].
    pub fn request_rescan(&mut self) -> u64 {
        if self.rescans.running.is_some() {
            self.rescans.is_again = true;
            return self.rescans.number + 1;
        }
        self.begin_rescan();
        self.rescans.number
    }

    /// Removes and returns the result of the last rescan that was requested, once it is over.
    pub fn take_rescanned(&mut self) -> Option<Rescanned> {
        self.rescans.finished.take()
    }

    /// Returns whether every directory that existed at the start has been read, or could not be.
    pub fn is_scanned(&self) -> bool {
        self.rescans.is_first_over
    }

    /// Starts the rescan of the start, for which the scans are requested already.
    pub(super) fn begin_first_rescan(&mut self) {
        self.rescans.begin(self.tree.paths());
    }

    fn begin_rescan(&mut self) {
        self.rescans.number += 1;
        self.rescans.begin(self.tree.paths());
        self.rounds.request(RoundReason::Request);
    }

    /// Ends the rescan in progress if it is over, and begins the next one if it was requested.
    pub(super) fn advance_rescan(&mut self) {
        if self.rescans.running.is_none() || !self.rescans.is_over(self.outputs.len()) {
            return;
        }
        let number = self.rescans.number;
        if let Some(running) = self.rescans.running.take().filter(|_| number > 0) {
            self.rescans.finished = Some(Rescanned {
                number,
                ..running.result
            });
        }
        self.rescans.is_first_over = true;
        if std::mem::take(&mut self.rescans.is_again) {
            self.begin_rescan();
        }
    }
}

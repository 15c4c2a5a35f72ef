//! Carrying out the outputs of the watch, within a budget for each turn.
//!
//! A turn must not take long, whatever happens in the directories. So each turn reads a few events
//! and examines a few names, and leaves the rest to the next turn. While the backlog is large,
//! events stay in the kernel's queue, whose length is limited.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::PluginManager;
use crate::config;
use crate::daemon::scan;
use crate::manager;
use crate::time::Time;
use crate::watch::{self, Listing, Place, Problem, Report, WatchId};

impl PluginManager {
    /// Reads a buffer of inotify events, unless the backlog is large. A buffer holds a few hundred
    /// events at most, which take a millisecond.
    pub(super) fn read_inotify(&mut self, now: Time) -> io::Result<()> {
        if !self.is_inotify_ready || self.watch.backlog() > MAX_BACKLOG {
            return Ok(());
        }
        let watch = &mut self.watch;
        self.is_inotify_ready = self.inotify.read(&mut |event| {
            log::trace!("inotify: {event}");
            watch.handle_input(watch::Input::Event(event), now);
        })?;
        Ok(())
    }

    /// Carries out the outputs of the watch until the budget is used up. Returns the reports among
    /// them.
    pub(super) fn drain_watch(&mut self, budget: Budget, now: Time) -> Vec<Report> {
        let until = budget.time.map(|time| Instant::now() + time);
        self.listings.set_until(until);
        let (mut reports, mut used) = (Vec::new(), 0);
        while used < budget.names && until.is_none_or(|until| Instant::now() < until) {
            let Some(output) = self.watch.poll_output() else {
                break;
            };
            used += 1;
            match output {
                watch::Output::Scan { dir, place } => {
                    let (watch, entries) = self.scan(&dir, place);
                    used += SCAN_COST + self.listings.take_cost();
                    let scanned = watch::Input::Scanned {
                        dir,
                        watch,
                        entries,
                    };
                    self.watch.handle_input(scanned, now);
                }
                watch::Output::List { dir } => {
                    let entries = self.listings.read_next(&dir, &self.mounts);
                    used += self.listings.take_cost();
                    let input = match entries {
                        Some(entries) => watch::Input::Listed { dir, entries },
                        None => watch::Input::Unlisted { dir },
                    };
                    self.watch.handle_input(input, now);
                }
                watch::Output::Close { dir } => self.listings.close(&dir),
                watch::Output::Examine { path } => {
                    let kind = scan::examine_path(&path, &self.mounts);
                    self.watch
                        .handle_input(watch::Input::Examined { path, kind }, now);
                }
                watch::Output::Unwatch { watch } => self.inotify.unwatch(watch),
                watch::Output::Found {
                    path,
                    identity,
                    is_link,
                } => {
                    let found = manager::Input::Found {
                        path,
                        identity,
                        is_link,
                    };
                    self.manager.handle_input(found, now);
                }
                watch::Output::Lost { path } => {
                    self.manager
                        .handle_input(manager::Input::Lost { path }, now);
                }
                watch::Output::Report(report) => reports.push(report),
            }
        }
        reports
    }

    /// Watches a directory and then lists it, or its first piece. In this order nothing is missed:
    /// a file that is created in between is found twice.
    pub(super) fn scan(
        &mut self,
        dir: &Arc<Path>,
        place: Place,
    ) -> (Result<WatchId, Problem>, Result<Listing, Problem>) {
        match scan::prepare(dir, place, &self.mounts) {
            Ok(held) => {
                let watch = match &held {
                    Some(held) => self.inotify.watch(&scan::within(held), place),
                    None => self.inotify.watch(dir, place),
                };
                let unreported = self.mounts.unreported(dir);
                let listing = self.listings.begin(dir, held, &self.mounts);
                let listing = listing.map(|listing| Listing {
                    unreported,
                    ..listing
                });
                (watch, listing)
            }
            Err(problem) => (Err(problem.clone()), Err(problem)),
        }
    }
}

/// An amount of work that may be done at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// The number of names that are examined or opened to follow symbolic links, of sockets that
    /// are found or lost, and the like.
    names: usize,
    /// The time limit: a file system may be slow, or locked by the processes that change it.
    time: Option<Duration>,
}

/// The budget of one turn: some pieces of a listing, which usually take a millisecond.
pub(super) const WATCH_BUDGET: Budget = Budget {
    names: 8 * config::LISTED_AT_ONCE,
    time: Some(Duration::from_millis(2)),
};

/// The budget before the first turn, in which signals are read for the first time: enough for the
/// largest number of sockets, which takes some ten milliseconds.
pub(super) const START_BUDGET: Budget = Budget {
    names: config::MAX_SOCKETS,
    time: None,
};

/// The cost of a scan besides its names: a few system calls.
const SCAN_COST: usize = 7;

/// The backlog above which events are not read: the work of two turns.
const MAX_BACKLOG: usize = 2 * WATCH_BUDGET.names;

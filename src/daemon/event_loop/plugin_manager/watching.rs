//! Carries out the outputs of the watch, within a budget for each turn.
//!
//! A turn must not take long, whatever happens in the directories. So each turn reads a few events
//! and examines a few names, and leaves the rest to the next turn. While the backlog is large,
//! events stay in the kernel's queue, whose length is limited.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::PluginManager;
use crate::daemon::fs::scan;
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
        self.is_inotify_ready = self.inotify.read(&mut |event| {
            log::trace!("inotify: {event:?}");
            self.watch.handle_input(watch::Input::Event(event), now);
        })?;
        Ok(())
    }

    /// Carries out the outputs of the watch for at most `time`. Returns the reports among them.
    /// After the last output the watch is always polled once more, because that ends a rescan.
    pub(super) fn drain_watch(&mut self, time: Duration, now: Time) -> Vec<Report> {
        let mut until = None;
        let mut reports = Vec::new();
        while let Some(output) = self.watch.poll_output() {
            let until = *until.get_or_insert_with(|| Instant::now() + time);
            match output {
                watch::Output::Scan { dir, place } => {
                    let (watch, entries) = self.scan(&dir, place);
                    let scanned = watch::Input::Scanned {
                        dir,
                        watch,
                        entries,
                    };
                    self.watch.handle_input(scanned, now);
                }
                watch::Output::Examine { path } => {
                    let kind = scan::examine_path(&path, &self.mounts);
                    self.watch
                        .handle_input(watch::Input::Examined { path, kind }, now);
                }
                watch::Output::Unwatch { watch } => self.inotify.unwatch(watch),
                watch::Output::Found { path, identity } => {
                    let found = manager::Input::Found { path, identity };
                    self.manager.handle_input(found, now);
                }
                watch::Output::Lost { path } => {
                    self.manager
                        .handle_input(manager::Input::Lost { path }, now);
                }
                watch::Output::Report(report) => reports.push(report),
            }
            if self.watch.backlog() > 0 && until <= Instant::now() {
                break;
            }
        }
        reports
    }

    /// Watches a directory and then lists it. In this order nothing is missed: a file that is
    /// created in between is found twice.
    pub(super) fn scan(
        &mut self,
        dir: &Arc<Path>,
        place: Place,
    ) -> (Result<WatchId, Problem>, Result<Listing, Problem>) {
        match scan::prepare(dir, place, &self.mounts) {
            Ok(held) => {
                let at = held
                    .as_ref()
                    .map_or_else(|| dir.to_path_buf(), scan::path_of_open_dir);
                let watch = self.inotify.watch(&at, place);
                (watch, scan::list(dir, &at, &self.mounts))
            }
            Err(problem) => (Err(problem.clone()), Err(problem)),
        }
    }
}

/// The time for the outputs of the watch in one turn. The last output may exceed it: a directory is
/// read at once, up to its limits.
pub(super) const WATCH_TIME: Duration = Duration::from_millis(2);

/// The time for the outputs of the watch at the start, before signals are read for the first time:
/// enough for the maximum number of sockets.
pub(super) const WATCH_TIME_AT_START: Duration = Duration::from_secs(1);

/// The backlog above which events are not read: the work of a few turns.
const MAX_BACKLOG: usize = 1024;

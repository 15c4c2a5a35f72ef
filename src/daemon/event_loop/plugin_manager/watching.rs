//! Watches directories: adds and removes them at run time, and carries out the outputs of the
//! watch, within a budget for each turn.
//!
//! A turn must not take long, whatever happens in the directories. So each turn reads a few events
//! and examines a few names, and leaves the rest to the next turn. While the backlog is large,
//! events stay in the kernel's queue, whose length is limited.

use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{PluginManager, registrations};
use crate::daemon::SetupError;
use crate::daemon::event_loop::report;
use crate::daemon::fs::{roots, scan};
use crate::escape;
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

    /// Starts to watch one more directory, as [`PluginManager::new`] does for those of the
    /// configuration: it is created if it is missing. Returns `false` if the directory is watched
    /// already, under this path or another one.
    ///
    /// The call reads the mount table and the directory. Plugins are registered in the next turns.
    ///
    /// # Errors
    ///
    /// An error changes nothing, except that a missing directory may have been created. Errors are
    /// those of a start:
    /// - [`SetupError::Taken`] if another plugin manager uses the directory. Unlike a start, this
    ///   does not wait for that one to end.
    /// - [`SetupError::DevicePlugins`] if the directory overlaps with that of device plugins that
    ///   announce themselves.
    /// - [`SetupError::RunDir`] if the lock files cannot be used.
    /// - [`SetupError::Directory`] if the directory cannot be used, or if it is inside a watched
    ///   directory or contains one ([`Problem::Nested`]).
    ///
    /// # Plugins from before a restart
    ///
    /// The plugins in the state file are restored when the plugin manager is created. Those whose
    /// sockets are below none of the directories of the configuration are deregistered then. If
    /// their directory is added later, they are registered anew.
    pub fn add_directory(&mut self, dir: &Path) -> Result<bool, SetupError> {
        let Some(dir) = roots::resolve_another(dir, &self.dirs)? else {
            return Ok(false);
        };
        if let Some(device_plugins_dir) = self.device_plugins_dir() {
            registrations::reject_overlap(device_plugins_dir, slice::from_ref(&dir))?;
        }
        if let Some(locks) = &mut self.locks {
            locks.add(&dir)?;
        }
        let now = self.clock.now();
        self.dirs.push(dir.clone());
        self.mounts
            .set_named_dirs(&self.dirs, self.manager.path_map());
        let path = Arc::from(dir.as_path());
        let (watch, entries) = self.scan(&path, Place::MissingRoot);
        if let Err(problem) = self.watch.add_root(&path, watch, entries, now) {
            self.dirs.pop();
            self.release_directory(&dir);
            return Err(SetupError::Directory { dir: path, problem });
        }
        // GetInfo must not be called on a plugin in the directory before this check.
        self.update_distrusted_directories();
        log::info!(
            target: report::ABOUT_ROOTS,
            "{}: watching the plugins directory",
            escape::path(&dir)
        );
        Ok(true)
    }

    /// Stops watching a directory, named by its path in [`PluginManager::directories`] or relative
    /// to the working directory. Returns `false` if it is not one of these.
    ///
    /// Its sockets count as removed: a running registration is cancelled without notifying its
    /// plugin, and undone by its handler if the handler was already asked to register the plugin;
    /// registered plugins are deregistered by their handlers in the next turns, restored ones
    /// included; the state file is updated.
    ///
    /// The directory can be added again at any time. Its lock is released at once: before another
    /// plugin manager uses the directory, wait until its plugins are deregistered here.
    pub fn remove_directory(&mut self, dir: &Path) -> bool {
        let dir = roots::absolute(dir);
        let Some(place) = self.dirs.iter().position(|it| *it == dir) else {
            return false;
        };
        let now = self.clock.now();
        self.dirs.remove(place);
        self.watch.remove_root(&dir, now);
        log::info!(
            target: report::ABOUT_ROOTS,
            "{}: stopped watching the plugins directory",
            escape::path(&dir)
        );
        self.release_directory(&dir);
        true
    }

    /// Releases the resources of a removed directory.
    fn release_directory(&mut self, dir: &Path) {
        self.inotify.unwatch_parent_of(dir);
        self.mounts
            .set_named_dirs(&self.dirs, self.manager.path_map());
        if let Some(locks) = &mut self.locks {
            locks.remove(dir);
        }
    }

    /// Watches these directories and no others from now on, as [`PluginManager::add_directory`] and
    /// [`PluginManager::remove_directory`] do. A directory that is watched already, perhaps under
    /// another path, stays as it is. Returns whether anything has changed.
    ///
    /// # Errors
    ///
    /// If a directory cannot be added, the watched directories stay those from before the call.
    pub fn set_directories(&mut self, dirs: &[PathBuf]) -> Result<bool, SetupError> {
        let is_in = |dir: &PathBuf, dirs: &[PathBuf]| {
            let dir = roots::absolute(dir);
            dirs.iter().any(|other| roots::is_same(&dir, other))
        };
        let before = self.dirs.clone();
        for dir in dirs {
            if is_in(dir, &self.dirs) {
                continue;
            }
            if let Err(error) = self.add_directory(dir) {
                self.remove_directories(&|dir| !before.contains(dir));
                return Err(error);
            }
        }
        self.remove_directories(&|dir| !is_in(dir, dirs));
        Ok(self.dirs != before)
    }

    fn remove_directories(&mut self, is_meant: &dyn Fn(&PathBuf) -> bool) {
        for dir in self.dirs.clone().iter().filter(|dir| is_meant(dir)) {
            self.remove_directory(dir);
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

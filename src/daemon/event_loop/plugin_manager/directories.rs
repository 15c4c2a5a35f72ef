//! Directories that are added and removed while the others are watched.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use super::report;
use super::{PluginManager, registrations};
use crate::daemon::SetupError;
use crate::daemon::fs::roots;
use crate::escape;
use crate::manager::Socket;
use crate::watch::Place;

impl PluginManager {
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
    ///   directory or contains one ([`Problem::Nested`](crate::watch::Problem::Nested)).
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
        self.leaving.retain(|leaving| *leaving != dir);
        self.dirs.push(dir.clone());
        self.mounts.set_roots(&self.dirs);
        let path = Arc::from(dir.as_path());
        let (watch, entries) = self.scan(&path, Place::MissingRoot);
        if let Err(problem) = self.watch.add_root(&path, watch, entries, now) {
            self.dirs.pop();
            self.release_directory(dir);
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
    /// The directory can be added again at any time. Its lock is released only after its plugins
    /// are deregistered, so that another plugin manager does not register a plugin that is about to
    /// be deregistered here.
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
        self.release_directory(dir);
        true
    }

    /// Releases the resources of a removed directory, its lock as soon as possible.
    fn release_directory(&mut self, dir: PathBuf) {
        self.inotify.unwatch_parent_of(&dir);
        self.mounts.set_roots(&self.dirs);
        self.leaving.push(dir);
        self.release_locks();
    }

    /// Releases the locks of removed directories whose plugins are deregistered.
    pub(super) fn release_locks(&mut self) {
        self.leaving.retain(|dir| {
            let mut sockets = self.manager.sockets().map(Socket::path);
            let is_left = sockets.any(|path| path.starts_with(dir) && !self.watch.covers(path));
            if let (false, Some(locks)) = (is_left, &mut self.locks) {
                locks.remove(dir);
            }
            is_left
        });
    }
}

//! Settings that are changed at run time, and directories that are added and removed. Plugins that
//! a change does not concern stay as they are.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use super::{PluginManager, registrations, report};
use crate::api::Response;
use crate::config::{HandlerConfig, OnDown, PathMap};
use crate::daemon::SetupError;
use crate::daemon::fs::roots;
use crate::escape;
use crate::handler::{self, Inventory};
use crate::manager::{self, Socket};
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

    /// Sets the mapping of endpoint paths that plugins report from their own mount namespaces.
    /// Connections stay open.
    pub fn set_path_map(&mut self, path_map: &PathMap) {
        let now = self.clock.now();
        self.mounts.set_mapped_dirs(path_map.targets());
        let path_map = registrations::map_to_itself(path_map, self.device_plugins_dir());
        self.manager.set_path_map(path_map.clone());
        if let Some(links) = &mut self.links {
            links.set_path_map(path_map, now);
        }
        self.handle_input(manager::Input::Reconsider);
    }

    /// Sets the treatment of registered plugins that are down, including those that are down
    /// already.
    pub fn set_on_down(&mut self, on_down: OnDown) {
        self.manager.set_on_down(on_down);
        self.handle_input(manager::Input::Reconsider);
    }

    /// Sets the memory budget: the number of octets that may be held for all plugins together.
    /// Octets that are already held stay. Afterwards, a list that would exceed the budget is
    /// rejected, and a connection that would exceed the budget loses its calls.
    pub fn set_memory_budget(&mut self, octets: usize) {
        self.manager.set_memory_budget(octets);
        self.handle_input(manager::Input::Reconsider);
    }

    /// Changes the built-in handlers from one configuration to another, and shows their inventory
    /// through the API.
    pub(crate) fn change_handlers(
        &mut self,
        inventory: &mut Inventory,
        before: &HandlerConfig,
        after: &HandlerConfig,
    ) {
        let now = self.clock.now();
        let change = |table: &mut _| handler::change_handlers(table, inventory, before, after);
        self.manager.change_handlers(change, now);
        self.drain_and_release_locks(now);
        self.set_inventory(inventory.clone());
    }

    /// Emits the event of a reload, and responds to the clients that wait for it.
    pub(crate) fn finish_reload(&mut self, event: manager::event::EventKind, response: &Response) {
        let now = self.clock.now();
        self.manager.emit_daemon_event(event);
        self.drain_and_release_locks(now);
        self.api.answer_reload(response, now);
    }
}

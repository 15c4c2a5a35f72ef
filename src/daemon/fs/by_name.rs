//! Links to the endpoints of registered plugins, by type and name, as /dev/disk/by-id has them for
//! disks: `by-name/TYPE/NAME.sock` in the run directory leads to the endpoint of the newest
//! registered plugin of that name, if the endpoint is a socket. [`link_path`] encodes the names.
//!
//! A link is replaced by renaming another one over it, so that a link exists at every moment. Links
//! are changed at the end of a turn, each usually at most once per [`UPDATE_INTERVAL`]. Some time
//! after the first scan, when most plugins from before a restart have been registered again, all
//! links are compared with the registered plugins: links without a plugin are removed, and missing
//! links are created. The same comparison is made after a change that failed, after more changes
//! than are remembered, with a new path map, and if the directory was removed. The links stay when
//! the daemon stops, because the plugins stay registered.
//!
//! Nothing is replaced or removed except symbolic links, files with the name [`NEW`] and empty
//! directories. The process that holds the lock of a run directory maintains the links there.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use foldhash::HashSet;
use nix::errno::Errno;

use super::file_lock::{self, FileLock};
use super::link_name::link_path;
use super::own_file::create_public_dir;
use super::run_dir;
use crate::config::{
    BRIEF_LOCK_TIMEOUT, FILE_RETRY, MAX_AT_ONCE, MAX_SOCKETS, READY_GRACE, UPDATE_INTERVAL,
};
use crate::escape;
use crate::handler::{NameKey, Plugin};
use crate::manager::event::EventKind;
use crate::manager::{Manager, PluginEvent, Socket};
use crate::octets;
use crate::time::Time;

/// The links, and the names whose links have to be set.
#[derive(Debug)]
pub(crate) struct ByName {
    /// The directory of the links.
    dir: PathBuf,
    _lock: FileLock,
    /// The types and names whose links are set at `set_at`, in no particular order.
    changed: HashSet<NameKey>,
    set_at: Time,
    /// Whether all links are to be compared once the first scan is over.
    awaits_scan: bool,
    compare_at: Option<Time>,
    /// Whether there may be plugins that were restored and have not answered since
    /// ([`Socket::restored_plugin`]). Stays `false` once there were none.
    has_restored: bool,
    is_failing: bool,
}

/// The parts of the plugin manager on which links depend.
pub(crate) struct World<'a> {
    pub(crate) manager: &'a Manager,
    /// Returns whether a path leads to a socket.
    pub(crate) is_socket: &'a dyn Fn(&Path) -> bool,
}

impl ByName {
    /// Takes the lock of the run directory. Returns `None` if another process maintains the links
    /// there, or if the run directory cannot be used: both are logged.
    pub(crate) fn new(run_dir: Option<&Path>) -> Option<Self> {
        let taken = take_lock(run_dir).unwrap_or_else(|error| {
            log::warn!("cannot maintain the links to plugins by name: {error}");
            None
        });
        let (dir, lock) = taken?;
        Some(Self {
            awaits_scan: dir.exists(),
            dir,
            _lock: lock,
            changed: HashSet::default(),
            set_at: Time::ZERO,
            compare_at: None,
            has_restored: true,
            is_failing: false,
        })
    }

    /// Schedules a comparison of all links, because the path map has changed.
    pub(crate) fn compare_all(&mut self, now: Time) {
        self.compare_at = Some(now);
    }

    /// Queues the link of the event's plugin if the event may have changed which plugin is to be
    /// used for the name. If too many links are queued, schedules a comparison of all links.
    pub(crate) fn handle_event(&mut self, event: &PluginEvent) {
        let is_change = matches!(
            event.kind,
            EventKind::Registered { .. }
                | EventKind::Deregistered
                | EventKind::NotUndone(_)
                | EventKind::FailureNotUndone(_)
                | EventKind::Promoted
        );
        let (true, Some(plugin)) = (is_change, &event.plugin) else {
            return;
        };
        if self.changed.len() < MAX_SOCKETS {
            self.changed.insert(NameKey(plugin.clone()));
        } else {
            self.compare_at.get_or_insert(self.set_at);
        }
    }

    /// Returns when to call [`ByName::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let set_at = (!self.changed.is_empty()).then_some(self.set_at);
        set_at.into_iter().chain(self.compare_at).min()
    }

    /// Compares all links if that is due, and sets the links of changed names, at most
    /// [`MAX_AT_ONCE`]. `is_scanned` states whether the first scan is over.
    pub(crate) fn handle_timeout(&mut self, world: &World<'_>, is_scanned: bool, now: Time) {
        if is_scanned && mem::take(&mut self.awaits_scan) {
            self.compare_at = Some(now + READY_GRACE);
        }
        if matches!(self.poll_timeout(), Some(at) if at <= now) {
            self.set_links(world, MAX_AT_ONCE, now);
        }
    }

    /// Sets the links of all changed names, even if that is not due: the process is about to end.
    pub(crate) fn finish(&mut self, world: &World<'_>, now: Time) {
        self.set_links(world, usize::MAX, now);
    }

    /// Sets at most `most` links. If one fails, all links are compared after [`FILE_RETRY`]; only
    /// the first failure is logged.
    fn set_links(&mut self, world: &World<'_>, most: usize, now: Time) {
        let result = self.try_set_links(world, most, now);
        let was_failing = mem::replace(&mut self.is_failing, result.is_err());
        let dir = escape::path(&self.dir);
        if let Err(error) = result {
            if !was_failing {
                log::warn!("{dir}: cannot update the links to plugins by name, retrying: {error}");
            }
            self.changed.clear();
            self.compare_at = Some(now + FILE_RETRY);
        } else if was_failing {
            log::info!("{dir}: the links to plugins by name can be updated again");
        }
        let is_done = self.changed.is_empty();
        self.set_at = if is_done { now + UPDATE_INTERVAL } else { now };
    }

    fn try_set_links(&mut self, world: &World<'_>, most: usize, now: Time) -> io::Result<()> {
        let manager = world.manager;
        let is_lost = !self.dir.is_dir();
        if is_lost || self.compare_at.is_some_and(|at| at <= now) {
            self.compare_at = None;
            self.queue_all_and_prune(manager)?;
        }
        let is_restored = |it: &Socket| it.restored_plugin().is_some();
        self.has_restored = self.has_restored && manager.sockets().any(is_restored);
        let mut changed = mem::take(&mut self.changed).into_iter();
        for NameKey(plugin) in changed.by_ref().take(most) {
            self.set_link(&plugin, world)?;
        }
        self.changed = changed.collect();
        Ok(())
    }

    /// Queues the links of all registered and restored plugins, and removes the links that are not
    /// queued. Creates the directory of the links if it is missing.
    fn queue_all_and_prune(&mut self, manager: &Manager) -> io::Result<()> {
        create_public_dir(&self.dir)?;
        // The event that reports the registration of another plugin will queue its link.
        let registered = manager.registered().map(|it| &it.plugin);
        let registered = registered.filter(|it| manager.current_socket(it).is_some());
        let all = registered.chain(manager.sockets().filter_map(Socket::awaited_plugin));
        self.changed.extend(all.cloned().map(NameKey));
        let mut kept = Vec::new();
        for NameKey(it) in &self.changed {
            kept.extend(link_path(&self.dir, &it.kind, &it.name));
        }
        kept.sort_unstable();
        for of_type in entries(&self.dir) {
            for link in entries(&of_type) {
                let is_ours = link.extension() == Some(OsStr::new("sock")) || link.ends_with(NEW);
                let is_link = link.is_symlink() && is_ours;
                if is_link && kept.binary_search(&link).is_err() {
                    fs::remove_file(link)?;
                }
            }
            let _ = fs::remove_dir(of_type); // Fails if it is not empty.
        }
        Ok(())
    }

    /// Creates, replaces or removes the link of a name, unless it is already right. A file that is
    /// not a link stays.
    fn set_link(&mut self, changed: &Arc<Plugin>, world: &World<'_>) -> io::Result<()> {
        let Some(path) = link_path(&self.dir, &changed.kind, &changed.name) else {
            return Ok(()); // The type or name is too long for a file name.
        };
        let target = self.target(changed, world);
        let Err(error) = Self::update_link(&path, target.as_deref()) else {
            return Ok(());
        };
        match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            // Another file is at the path, or above it, or the target is too long.
            Errno::EINVAL | Errno::ENOTDIR | Errno::ENAMETOOLONG => {
                log::debug!("{}: cannot change the link: {error}", escape::path(&path));
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Returns the endpoint of the plugin to use for a name, if there is one and its endpoint is a
    /// socket.
    fn target<'a>(&self, changed: &Arc<Plugin>, world: &World<'a>) -> Option<Cow<'a, Path>> {
        let manager = world.manager;
        let current = manager.current_socket(changed);
        let plugin = match current.and_then(Socket::registered) {
            Some(registered) => &registered.plugin,
            None => self.restored_plugin(manager, changed)?,
        };
        let target = manager.path_map().translate(&plugin.endpoint);
        let socket = match current {
            None => manager.socket(&plugin.socket),
            current => current,
        };
        // A plugin may report any path, and not every handler checks the path by connecting to it.
        // A socket that the watch has found need not be examined again.
        let is_found = match (socket, socket.and_then(Socket::desired)) {
            (Some(socket), Some(desired)) if !desired.identity.is_of_announcement() => {
                let path = socket.path().as_os_str().as_bytes();
                octets::are_equal(target.as_os_str().as_bytes(), path)
            }
            _ => false,
        };
        let is_socket = target.is_absolute() && (is_found || (world.is_socket)(&target));
        is_socket.then_some(target)
    }

    /// Points the link at `path` to `target`. Without a target, removes the link and, if it was the
    /// last one there, its directory. Fails if the file at the path is not a link.
    fn update_link(path: &Path, target: Option<&Path>) -> io::Result<()> {
        // Tried first, because most changes create a link.
        if let Some(target) = target {
            if symlink(target, path).is_ok() {
                return Ok(());
            }
        }
        let found = match fs::read_link(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        let dir = path.parent().unwrap_or(path);
        match (found, target) {
            (found, target) if found.as_deref() == target => Ok(()),
            (_, None) => {
                fs::remove_file(path)?;
                let _ = fs::remove_dir(dir); // Fails if it is not empty.
                Ok(())
            }
            (None, Some(target)) => {
                create_public_dir(dir)?;
                symlink(target, path)
            }
            (Some(_), Some(target)) => {
                // In the same directory: Landlock of Linux 5.13 does not allow any other rename.
                let new = dir.join(NEW);
                let _ = fs::remove_file(&new); // An earlier daemon may have left one.
                symlink(target, &new)?;
                fs::rename(&new, path)
            }
        }
    }

    /// Returns the plugin to use for a name while none is registered: one that was restored and has
    /// not answered since the restart ([`Socket::awaited_plugin`]).
    fn restored_plugin<'a>(
        &self,
        manager: &'a Manager,
        of: &Arc<Plugin>,
    ) -> Option<&'a Arc<Plugin>> {
        let sockets = self.has_restored.then(|| manager.sockets())?;
        let mut restored = sockets.filter_map(Socket::awaited_plugin);
        restored.find(|it| it.name == of.name && it.kind == of.kind)
    }
}

/// Returns the directory of the links, and the lock that permits changing them. Returns `None`, and
/// logs that, if another process holds the lock.
fn take_lock(run_dir: Option<&Path>) -> io::Result<Option<(PathBuf, FileLock)>> {
    let unusable = |(dir, problem): run_dir::Unusable| {
        let dir = escape::path(&dir);
        io::Error::other(format!("cannot use the run directory {dir}: {problem}"))
    };
    let run_dir = run_dir::open(run_dir).map_err(unusable)?;
    let path = run_dir::create_locks_dir(&run_dir)
        .map_err(unusable)?
        .join(DIR);
    let lock = FileLock::acquire(&path, Instant::now() + BRIEF_LOCK_TIMEOUT);
    let lock = lock.map_err(|error| {
        let path = escape::path(&path);
        io::Error::other(format!("cannot lock {path}: {error}"))
    })?;
    if lock.is_none() {
        let holder = file_lock::describe_holder(file_lock::holder(&path));
        let lock = escape::path(&path);
        log::info!(
            "another plugind maintains the links to plugins by name, so this one does not \
             lock={lock}{holder}"
        );
    }
    Ok(lock.map(|lock| (run_dir.join(DIR), lock)))
}

/// Returns the paths of the entries of a directory, as far as they can be read.
fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// The name of the directory of the links, and of its lock file.
const DIR: &str = "by-name";

/// The name of a new link until it is renamed over the old one.
const NEW: &str = ".new";

#[cfg(test)]
mod tests;

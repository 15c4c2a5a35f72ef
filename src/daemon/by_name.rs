//! Links to the endpoints of registered plugins, by type and name, as /dev/disk/by-id has them for
//! disks: `by-name/TYPE/NAME.sock` in the run directory leads to the endpoint of the newest
//! registered plugin of that name. [`link_name`] has the rule for names.
//!
//! A link is replaced by renaming another one over it, so that there is one at every moment. It is
//! changed at the end of a turn, and queued not more often than once per [`LINK_INTERVAL`]. Some
//! time after the first scan, when the plugins from before have been registered again, everything
//! is compared once: links without a plugin are removed, and missing ones are made. The same
//! comparison repairs what could not be done: on a full disk, in a directory that was removed, or
//! because too much changed at once. An orderly end leaves the links, because the plugins stay
//! registered.
//!
//! Only symbolic links are replaced or removed. One process keeps the links of a run directory: the
//! one that holds its lock.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, DirEntry, ReadDir};
use std::io;
use std::mem;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::file_lock::{self, FileLock};
use super::{lock, run_dir};
use crate::config::{
    BRIEF_LOCK_TIMEOUT, LINK_INTERVAL, LINK_RETRY, LINKS_AT_ONCE, MAX_CHANGED_LINKS, PathMap,
    READY_TIME,
};
use crate::escape;
use crate::handler::Plugin;
use crate::manager::event::EventKind;
use crate::manager::{Manager, PluginEvent, link_name};
use crate::time::Time;

/// The links, and the names whose links have to be changed.
#[derive(Debug)]
pub(super) struct ByName {
    /// The directory of the links.
    dir: PathBuf,
    /// The run directory that the user named.
    run_dir: Option<PathBuf>,
    path_map: PathMap,
    lock: FileLock,
    /// The names whose links were changed a moment ago, or are being changed, sorted.
    changed: Vec<Changed>,
    /// The names whose links are to be changed now.
    queue: VecDeque<Arc<Plugin>>,
    /// The time at which the first of the delayed changes is due.
    due: Option<Time>,
    /// The time at which names that were changed long ago were last removed from `changed`.
    tidied: Time,
    /// Whether everything is compared after the first scan.
    awaits_scan: bool,
    compare_at: Option<Time>,
    comparison: Option<Comparison>,
    /// The pause before the next comparison, if the links could not be kept.
    pause: Option<Duration>,
    /// Whether a warning was logged about files that are not links.
    has_warned_foreign: bool,
}

/// A name whose link was changed a moment ago, or is being changed.
#[derive(Debug)]
struct Changed {
    plugin: Arc<Plugin>,
    /// Whether the link is to be changed again.
    is_delayed: bool,
    /// The earliest time of the next change.
    next: Time,
}

/// A comparison of all links with the registered plugins, in pieces.
#[derive(Debug)]
struct Comparison {
    /// The registered plugins whose links were not compared yet.
    plugins: Vec<Arc<Plugin>>,
    /// The directories of types.
    types: ReadDir,
    /// One type, its directory, and the links in it.
    links: Option<(String, PathBuf, ReadDir)>,
}

impl ByName {
    /// Takes the lock of the run directory. Returns `None` if another process keeps the links
    /// there, or if the run directory cannot be used: both are logged.
    pub(super) fn new(run_dir: Option<&Path>, path_map: PathMap) -> Option<Self> {
        let (dir, lock) = match take_lock(run_dir) {
            Ok(Ok(taken)) => taken,
            Ok(Err(lock)) => {
                let holder = file_lock::holder(&lock);
                let holder = holder.map_or_else(String::new, |pid| format!(" pid={pid}"));
                let lock = escape::path(&lock);
                log::info!("another plugind maintains the links by name lock={lock}{holder}");
                return None;
            }
            Err(error) => {
                log::warn!("cannot maintain links to plugins by name: {error}");
                return None;
            }
        };
        Some(Self {
            awaits_scan: dir.exists(),
            dir,
            run_dir: run_dir.map(Path::to_owned),
            path_map,
            lock,
            changed: Vec::new(),
            queue: VecDeque::new(),
            due: None,
            tidied: Time::ZERO,
            compare_at: None,
            comparison: None,
            pause: None,
            has_warned_foreign: false,
        })
    }

    /// Sets where endpoints are in this process, and has all links compared with that.
    pub(super) fn set_path_map(&mut self, path_map: PathMap, now: Time) {
        self.path_map = path_map;
        self.compare_by(now);
    }

    /// Notes that another plugin, or none, may be the one to use for a name.
    pub(super) fn note(&mut self, event: &PluginEvent, now: Time) {
        let is_change = matches!(
            event.kind,
            EventKind::Registered { .. }
                | EventKind::Deregistered
                | EventKind::NotUndone(_)
                | EventKind::FailureNotUndone(_)
                | EventKind::Promoted
        );
        let Some(plugin) = event.plugin.as_ref().filter(|_| is_change) else {
            return;
        };
        if self.pause.is_some() && self.comparison.is_none() {
            return; // Everything is compared after the pause.
        }
        if self.queue.len() >= MAX_CHANGED_LINKS {
            return self.compare_by(now + LINK_INTERVAL);
        }
        if self.tidied + LINK_INTERVAL <= now {
            self.queue_due(now);
        }
        match self.find(plugin) {
            Ok(at) => self.change(at, now),
            Err(_) if self.changed.len() >= MAX_CHANGED_LINKS => {
                self.compare_by(now + LINK_INTERVAL);
            }
            Err(at) => {
                let plugin = Arc::clone(plugin);
                let changed = Changed {
                    plugin,
                    is_delayed: false,
                    next: now,
                };
                self.changed.insert(at, changed);
                self.change(at, now);
            }
        }
    }

    /// Queues a change, or delays it if the last one was a moment ago.
    fn change(&mut self, at: usize, now: Time) {
        let changed = &mut self.changed[at];
        if changed.next <= now {
            changed.is_delayed = false;
            changed.next = now + LINK_INTERVAL;
            self.queue.push_back(Arc::clone(&changed.plugin));
        } else {
            changed.is_delayed = true;
            self.due = Some(self.due.map_or(changed.next, |due| due.min(changed.next)));
        }
    }

    /// Returns when to call [`ByName::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if self.comparison.is_some() || !self.queue.is_empty() {
            return Some(Time::ZERO);
        }
        self.due.into_iter().chain(self.compare_at).min()
    }

    /// Changes and compares links that are due, up to [`LINKS_AT_ONCE`]. `is_scanned`: whether the
    /// first scan is over.
    pub(super) fn handle_timeout(&mut self, manager: &Manager, is_scanned: bool, now: Time) {
        if self.awaits_scan && is_scanned {
            self.awaits_scan = false;
            self.compare_by(now + READY_TIME);
        }
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        let until = Instant::now() + LINKS_TIME;
        let is_in_time =
            |done: usize| done < LINKS_AT_ONCE && (done == 0 || Instant::now() < until);
        if let Err(error) = self.advance(manager, &is_in_time, now) {
            self.failed(&error, now);
        }
    }

    /// Changes all links that are to be changed, due or not: the process is about to end.
    pub(super) fn finish(&mut self, manager: &Manager, now: Time) {
        for changed in &mut self.changed {
            changed.next = now;
        }
        self.queue_due(now);
        if let Err(error) = self.change_queued(manager, &|_| true, now) {
            self.failed(&error, now);
        }
    }

    fn advance(
        &mut self,
        manager: &Manager,
        is_in_time: &dyn Fn(usize) -> bool,
        now: Time,
    ) -> io::Result<()> {
        if self.due.is_some_and(|due| due <= now) || self.tidied + LINK_INTERVAL <= now {
            self.queue_due(now);
        }
        if !self.queue.is_empty() {
            return self.change_queued(manager, is_in_time, now);
        }
        if self.comparison.is_none() && self.compare_at.is_some_and(|at| at <= now) {
            self.compare_at = None;
            self.comparison = Some(self.begin_comparison(manager)?);
        }
        let mut done = 0;
        while is_in_time(done) {
            done += 1;
            let Some(mut comparison) = self.comparison.take() else {
                return Ok(());
            };
            if self.compare_next(&mut comparison, manager, now)? {
                self.comparison = Some(comparison);
            } else if self.pause.take().is_some() {
                let dir = escape::path(&self.dir);
                log::info!("{dir}: the links to plugins by name are maintained again");
            }
        }
        Ok(())
    }

    /// Queues the delayed changes that are due, and forgets the names that were changed long ago.
    fn queue_due(&mut self, now: Time) {
        self.tidied = now;
        self.due = None;
        self.changed.retain(|it| it.is_delayed || it.next > now);
        for at in 0..self.changed.len() {
            if self.changed[at].is_delayed {
                self.change(at, now);
            }
        }
    }

    /// Changes the links that are queued, as long as there is time.
    fn change_queued(
        &mut self,
        manager: &Manager,
        is_in_time: &dyn Fn(usize) -> bool,
        now: Time,
    ) -> io::Result<()> {
        let mut done = 0;
        while is_in_time(done) {
            let Some(plugin) = self.queue.pop_front() else {
                break;
            };
            self.update(&plugin.kind, &plugin.name, manager, now)?;
            done += 1;
        }
        Ok(())
    }

    /// Begins to compare everything, in a directory that is created if it is missing.
    fn begin_comparison(&mut self, manager: &Manager) -> io::Result<Comparison> {
        if !self.lock.is_in_place() {
            // The run directory was removed.
            let taken = take_lock(self.run_dir.as_deref())?;
            let taken = taken.map_err(|_| io::Error::other("another plugind maintains them now"));
            (self.dir, self.lock) = taken?;
        }
        create_dir(&self.dir)?;
        Ok(Comparison {
            plugins: manager
                .registered()
                .map(|it| Arc::clone(&it.plugin))
                .collect(),
            types: fs::read_dir(&self.dir)?,
            links: None,
        })
    }

    /// Compares one link or one plugin. Returns whether there is more to compare.
    fn compare_next(
        &mut self,
        comparison: &mut Comparison,
        manager: &Manager,
        now: Time,
    ) -> io::Result<bool> {
        if let Some((kind, dir, links)) = &mut comparison.links {
            if let Some(entry) = links.next() {
                self.compare_link(kind, &entry?, manager)?;
            } else {
                let _ = fs::remove_dir(dir); // Fails if it holds links.
                comparison.links = None;
            }
        } else if let Some(entry) = comparison.types.next() {
            comparison.links = self.enter(&entry?)?;
        } else if let Some(plugin) = comparison.plugins.pop() {
            match self.find(&plugin) {
                Ok(at) => self.change(at, now),
                Err(_) => self.update(&plugin.kind, &plugin.name, manager, now)?,
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Removes a link if no plugin of its name is registered.
    fn compare_link(&mut self, kind: &str, entry: &DirEntry, manager: &Manager) -> io::Result<()> {
        let name = entry.file_name().into_string().ok();
        let name = name.and_then(|name| link_name::name_of_link(&name));
        let is_link = entry.file_type().is_ok_and(|it| it.is_symlink());
        match name.filter(|_| is_link) {
            Some(name) if current(manager, kind, &name).is_some() => Ok(()),
            Some(_) => remove(&entry.path()),
            None => {
                self.warn_foreign(&entry.path());
                Ok(())
            }
        }
    }

    /// Returns the type of a directory of links, its path, and the links in it.
    fn enter(&mut self, entry: &DirEntry) -> io::Result<Option<(String, PathBuf, ReadDir)>> {
        let path = entry.path();
        let kind = entry.file_name().into_string().ok();
        let kind = kind.and_then(|kind| link_name::type_of_directory(&kind));
        let is_dir = entry.file_type().is_ok_and(|it| it.is_dir());
        if let Some(kind) = kind.filter(|_| is_dir) {
            let links = fs::read_dir(&path)?;
            return Ok(Some((kind, path, links)));
        }
        if path.ends_with(NEW) {
            remove(&path)?;
        } else {
            self.warn_foreign(&path);
        }
        Ok(None)
    }

    /// Makes, replaces or removes the link of a name, unless it is right.
    fn update(&mut self, kind: &str, name: &str, manager: &Manager, now: Time) -> io::Result<()> {
        let Some(link) = link_name::link_path(kind, name) else {
            let name = escape::text(name).at_most(SHOWN);
            log::debug!(
                target: ABOUT_PLUGINS,
                "{name}: no link by name: the name is too long for a file name"
            );
            return Ok(());
        };
        let path = self.path_of(&link);
        let current = current(manager, kind, name);
        let target = current.map(|plugin| self.path_map.find(&plugin.endpoint));
        match target.filter(|target| target.is_absolute()) {
            Some(target) => self.set(&path, &target, now),
            None => self.unset(&path),
        }
    }

    /// Returns the path of a link: `PathBuf::join` looks at every component first, which takes ten
    /// times as long.
    fn path_of(&self, link: &str) -> PathBuf {
        let dir = self.dir.as_os_str();
        let mut path = OsString::with_capacity(dir.len() + 1 + link.len());
        path.push(dir);
        path.push("/");
        path.push(link);
        path.into()
    }

    /// Makes or replaces a link, unless it is right.
    fn set(&mut self, path: &Path, target: &Path, now: Time) -> io::Result<()> {
        match self.create(path, target, now) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // A directory of the links is a file.
            Err(error) if is_in_the_way(&error) => {
                self.warn_foreign(path);
                return Ok(());
            }
            // The kernel does not accept the path: it is too long.
            Err(error) if error.raw_os_error() == Some(Errno::ENAMETOOLONG as i32) => {
                return Ok(());
            }
            other => return other,
        }
        let found = self.read(path)?;
        if found.is_none_or(|found| found.as_os_str() == target.as_os_str()) {
            return Ok(());
        }
        let new = self.dir.join(NEW);
        remove(&new)?;
        symlink(target, &new)?;
        fs::rename(&new, path).inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })
    }

    /// Makes a link and the directories above it.
    fn create(&mut self, path: &Path, target: &Path, now: Time) -> io::Result<()> {
        match symlink(target, path) {
            Err(error) if is_missing(&error) => {}
            other => return other,
        }
        if !self.dir.exists() {
            create_dir(&self.dir)?;
            self.compare_by(now); // All other links are missing, too.
        }
        if let Some(dir) = path.parent() {
            create_dir(dir)?;
        }
        symlink(target, path)
    }

    /// Removes a link, and the directory of its type if it was the last one there.
    fn unset(&mut self, path: &Path) -> io::Result<()> {
        if self.read(path)?.is_some() {
            remove(path)?;
            if let Some(dir) = path.parent() {
                let _ = fs::remove_dir(dir); // Fails if it holds other links.
            }
        }
        Ok(())
    }

    /// Returns the target of a link. Returns `None` if it does not exist, or is not a link.
    fn read(&mut self, path: &Path) -> io::Result<Option<PathBuf>> {
        match fs::read_link(path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) if is_in_the_way(&error) => {
                self.warn_foreign(path);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Schedules a comparison of everything.
    fn compare_by(&mut self, at: Time) {
        self.compare_at = Some(self.compare_at.map_or(at, |before| before.min(at)));
    }

    /// Schedules a comparison after a pause that doubles each time. Logs only the first failure.
    fn failed(&mut self, error: &io::Error, now: Time) {
        if self.pause.is_none() {
            let dir = escape::path(&self.dir);
            log::warn!("{dir}: cannot update the links to plugins by name, retrying: {error}");
        }
        let pause = self.pause.map_or(LINK_INTERVAL, |last| last * 2);
        let pause = pause.min(LINK_RETRY);
        self.pause = Some(pause);
        self.comparison = None;
        self.compare_at = Some(now + pause);
        self.changed.clear();
        self.queue.clear();
        self.due = None;
    }

    /// Logs, once, that a file is left alone because it is not a link.
    fn warn_foreign(&mut self, path: &Path) {
        if !mem::replace(&mut self.has_warned_foreign, true) {
            log::warn!(
                "{}: not replaced, because plugind did not create it; remove it",
                escape::path(path)
            );
        }
    }

    /// Returns the index of a name as `Ok`, or the index to insert it at as `Err`.
    fn find(&self, plugin: &Plugin) -> Result<usize, usize> {
        let key = plugin.key();
        self.changed
            .binary_search_by(|it| it.plugin.key().cmp(&key))
    }
}

/// Returns the directory of the links, and the lock that allows to change them; or the path of that
/// lock, if another process holds it.
fn take_lock(run_dir: Option<&Path>) -> io::Result<Result<(PathBuf, FileLock), PathBuf>> {
    let unusable = |(dir, problem): run_dir::Unusable| {
        let dir = escape::path(&dir);
        io::Error::other(format!("cannot use the run directory {dir}: {problem}"))
    };
    let run_dir = run_dir::open(run_dir).map_err(unusable)?;
    let path = lock::locks_dir_in(&run_dir).map_err(unusable)?.join(DIR);
    let lock = FileLock::acquire(&path, Instant::now() + BRIEF_LOCK_TIMEOUT)?;
    Ok(match lock {
        Some(lock) => Ok((run_dir.join(DIR), lock)),
        None => Err(path),
    })
}

/// Returns the plugin to use for a name: the newest, or one that was registered before a restart.
/// That one stays registered until it has answered again or its socket has gone.
fn current<'a>(manager: &'a Manager, kind: &str, name: &str) -> Option<&'a Arc<Plugin>> {
    let restored = || {
        let waiting = manager.registered().map(|it| &it.plugin);
        let found = manager.desired();
        let found = found.filter_map(|(_, desired)| desired.restored.as_ref());
        let mut restored = waiting.chain(found);
        restored.find(|it| it.name == name && it.kind == kind)
    };
    manager.instances(kind, name).last().or_else(restored)
}

fn create_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if is_missing(&error) => Ok(()),
        other => other,
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Returns whether an error means that a file of another kind is at the path, or above it.
fn is_in_the_way(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory};
    matches!(error.kind(), InvalidInput | IsADirectory | NotADirectory)
}

/// The name of the directory of the links, and of its lock file.
const DIR: &str = "by-name";

/// The name of a link before it is renamed to its place: no type has it.
const NEW: &str = ".new";

/// The mode of the directories: every user may read the links.
const MODE: u32 = 0o755;

/// The time for changing links in one turn.
const LINKS_TIME: Duration = Duration::from_millis(1);

/// The length of a name that is shown (bytes).
const SHOWN: usize = 64;

/// The target of lines that plugins cause, by which the logger limits them.
const ABOUT_PLUGINS: &str = "plugind::manager";

#[cfg(test)]
mod tests;

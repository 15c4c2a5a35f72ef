//! The known directories: a tree of sockets and subdirectories, and the watch of each directory.
//! Pure.
//!
//! The tree keeps its paths, watches, counts and limits consistent and decides nothing:
//! [`super::Watch`] decides what a change means.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::path::split;
use super::sockets::{Known, Sockets};
use super::{Identity, Place, Problem, WatchId};
use crate::config;
use crate::time::Time;

/// The directories by path, and the watches by number.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Sorted as [`Path`] is: a directory is followed by those below it.
    dirs: BTreeMap<Arc<Path>, Dir>,
    roots: Vec<Arc<Path>>,
    watched: BTreeMap<WatchId, Arc<Path>>,
    sockets: Sockets,
}

/// A directory, whether or not it could be watched and listed.
#[derive(Debug)]
struct Dir {
    /// The number of levels below its root; 0 for a root.
    depth: usize,
    /// The topmost directory of its part of the tree: a root, which is a part without the contents
    /// of its subdirectories, or a directory right below a root.
    top: Arc<Path>,
    watch: Option<WatchId>,
    problem: Option<Problem>,
    /// The time of the next try.
    retry_at: Option<Time>,
    /// The pause before it if a limit is exceeded.
    retry_pause: Option<Duration>,
    /// Whether the problem was reported.
    is_problem_told: bool,
    /// Whether it was listed before.
    is_listed: bool,
    /// Whether a scan of it is wanted that has not begun.
    is_scan_wanted: bool,
    /// The number of times in a row that its watch was found to be that of another path.
    disputes: u8,
    children: BTreeMap<OsString, Child>,
}

/// A known entry of a directory.
#[derive(Debug)]
pub(super) enum Child {
    /// A plugin socket, with its path, which is shared with all consumers of the reports.
    Socket { path: Arc<Path>, identity: Identity },
    /// A subdirectory.
    Directory { path: Arc<Path> },
}

/// The contents of what was removed, a directory before those below it.
#[derive(Debug, Default)]
pub(super) struct Removed {
    pub(super) sockets: Vec<Arc<Path>>,
    /// Further paths that led to these sockets.
    pub(super) second_paths: Vec<Arc<Path>>,
    pub(super) watches: Vec<WatchId>,
    /// The removed directories themselves.
    pub(super) dirs: Vec<Arc<Path>>,
    /// Whether a scan of any of them was wanted that had not begun.
    pub(super) is_scan_wanted: bool,
}

impl Dir {
    /// Creates a directory that was neither watched nor listed yet.
    fn new(depth: usize, top: Arc<Path>) -> Self {
        Self {
            depth,
            top,
            watch: None,
            problem: None,
            retry_at: None,
            retry_pause: None,
            is_problem_told: false,
            is_listed: false,
            is_scan_wanted: false,
            disputes: 0,
            children: BTreeMap::new(),
        }
    }
}

impl Tree {
    /// Adds a root that is not known.
    pub(super) fn add_root(&mut self, path: &Arc<Path>) {
        self.roots.push(Arc::clone(path));
        let dir = Dir::new(0, Arc::clone(path));
        self.dirs.insert(Arc::clone(path), dir);
    }

    /// Removes a root and everything below it.
    pub(super) fn remove_root(&mut self, path: &Path) -> Removed {
        let mut removed = Removed::default();
        self.roots.retain(|root| **root != *path);
        self.take(path, false, &mut removed);
        removed
    }

    /// Returns the roots in the order in which they were added.
    pub(super) fn roots(&self) -> &[Arc<Path>] {
        &self.roots
    }

    pub(super) fn contains(&self, dir: &Path) -> bool {
        self.dirs.contains_key(dir)
    }

    /// Returns the tree's own copy of a directory's path, or `None` if the directory is not known.
    pub(super) fn known(&self, dir: &Path) -> Option<Arc<Path>> {
        let (path, _) = self.dirs.get_key_value(dir)?;
        Some(Arc::clone(path))
    }

    pub(super) fn is_root(&self, dir: &Path) -> bool {
        self.dirs.get(dir).is_some_and(|dir| dir.depth == 0)
    }

    /// Returns all directories at and below a path, a directory before those below it.
    pub(super) fn paths_below(&self, top: &Path) -> Vec<Arc<Path>> {
        let below = self.dirs.keys().filter(|path| path.starts_with(top));
        below.cloned().collect()
    }

    /// Returns all directories, the roots before all others.
    pub(super) fn paths_from_roots(&self) -> Vec<Arc<Path>> {
        let roots = self.dirs.iter().filter(|(_, dir)| dir.depth == 0);
        let others = self.dirs.iter().filter(|(_, dir)| dir.depth > 0);
        roots.chain(others).map(|(path, _)| path.clone()).collect()
    }

    /// Returns the directories that are to be tried again by `now`, each with its position, and
    /// clears their retry times.
    pub(super) fn take_retries(&mut self, now: Time) -> Vec<(Arc<Path>, Place)> {
        let mut due = Vec::new();
        for (path, dir) in &mut self.dirs {
            if dir.retry_at.take_if(|at| *at <= now).is_some() {
                let place = match dir.depth {
                    0 => Place::MissingRoot,
                    _ => Place::Below,
                };
                due.push((Arc::clone(path), place));
            }
        }
        due
    }

    /// Returns when the next directory is to be tried again.
    pub(super) fn next_retry(&self) -> Option<Time> {
        self.dirs.values().filter_map(|dir| dir.retry_at).min()
    }

    /// Schedules another try of a directory: on the common tick, or, if a limit is exceeded there,
    /// after a pause that doubles. Returns the time of the try.
    pub(super) fn retry(&mut self, dir: &Path, is_limited: bool, tick: Time, now: Time) -> Time {
        let Some(dir) = self.dirs.get_mut(dir) else {
            return tick;
        };
        let pause = config::LIMITED_RETRY.after(dir.retry_pause);
        dir.retry_pause = is_limited.then_some(pause);
        let at = if is_limited { now + pause } else { tick };
        dir.retry_at = Some(at);
        at
    }

    /// Cancels the next try of a directory.
    pub(super) fn do_not_retry(&mut self, dir: &Path) {
        if let Some(dir) = self.dirs.get_mut(dir) {
            (dir.retry_at, dir.retry_pause) = (None, None);
        }
    }

    pub(super) fn problem(&self, dir: &Path) -> Option<&Problem> {
        self.dirs.get(dir)?.problem.as_ref()
    }

    /// Returns the directories below the roots that have a problem which the one above does not
    /// have.
    pub(super) fn troubled(&self) -> impl Iterator<Item = &Arc<Path>> {
        let troubled = |dir: &Dir| dir.depth > 0 && dir.is_problem_told;
        let dirs = self.dirs.iter().filter(move |(_, dir)| troubled(dir));
        dirs.map(|(path, _)| path)
    }

    /// Returns whether a directory was listed before, completely or not.
    pub(super) fn is_listed(&self, dir: &Path) -> bool {
        self.dirs.get(dir).is_some_and(|dir| dir.is_listed)
    }

    /// Records that a directory is listed. Returns whether it is the first time.
    pub(super) fn set_listed(&mut self, dir: &Path) -> bool {
        let dir = self.dirs.get_mut(dir);
        dir.is_some_and(|dir| !std::mem::replace(&mut dir.is_listed, true))
    }

    /// Sets or clears the problem of a directory. Returns whether that has to be reported: a
    /// problem that the directory above has, too, is reported only there, and so is its end.
    pub(super) fn set_problem(&mut self, path: &Path, problem: Option<Problem>) -> bool {
        let above = path.parent().and_then(|above| self.problem(above));
        let is_shared = problem.is_some() && above == problem.as_ref();
        let Some(dir) = self.dirs.get_mut(path) else {
            return false;
        };
        let was_told = dir.is_problem_told;
        dir.is_problem_told = problem.is_some() && !is_shared;
        dir.problem = problem;
        was_told || dir.is_problem_told
    }

    /// Returns the directories that were found to be this one under another path.
    pub(super) fn same_as(&self, dir: &Path) -> Vec<Arc<Path>> {
        let is_same =
            |found: &Dir| matches!(&found.problem, Some(Problem::SameAs(it)) if **it == *dir);
        let same = self.dirs.iter().filter(|(_, found)| is_same(found));
        same.map(|(path, _)| Arc::clone(path)).collect()
    }

    /// Counts that the watch of a directory was found to be that of another path.
    pub(super) fn dispute(&mut self, dir: &Path) {
        if let Some(dir) = self.dirs.get_mut(dir) {
            dir.disputes = dir.disputes.saturating_add(1);
        }
    }

    /// Returns the number of times in a row that [`Tree::dispute`] was called for a directory.
    pub(super) fn disputes(&self, dir: &Path) -> u8 {
        self.dirs.get(dir).map_or(0, |dir| dir.disputes)
    }

    /// Records that a directory has a watch of its own.
    pub(super) fn settle(&mut self, dir: &Path) {
        if let Some(dir) = self.dirs.get_mut(dir) {
            dir.disputes = 0;
        }
    }

    /// Returns the directory that a watch belongs to, or `None` for a watch that was given up.
    pub(super) fn watched_by(&self, watch: WatchId) -> Option<Arc<Path>> {
        self.watched.get(&watch).map(Arc::clone)
    }

    /// Sets or clears the watch of a directory. Returns the previous one.
    pub(super) fn set_watch(&mut self, dir: &Path, watch: Option<WatchId>) -> Option<WatchId> {
        let path = self.known(dir)?;
        let old = std::mem::replace(&mut self.dirs.get_mut(dir)?.watch, watch);
        if let Some(old) = old {
            self.watched.remove(&old);
        }
        if let Some(watch) = watch {
            self.watched.insert(watch, path);
        }
        old
    }

    /// Records whether a scan of a directory is wanted. Returns the previous value.
    pub(super) fn set_scan_wanted(&mut self, dir: &Path, is_wanted: bool) -> bool {
        let dir = self.dirs.get_mut(dir);
        dir.is_some_and(|dir| std::mem::replace(&mut dir.is_scan_wanted, is_wanted))
    }

    /// Returns what is known of a name in a directory.
    pub(super) fn child(&self, dir: &Path, name: &OsStr) -> Option<&Child> {
        self.dirs.get(dir)?.children.get(name)
    }

    /// Returns the known names in a directory.
    pub(super) fn names(&self, dir: &Path) -> BTreeSet<OsString> {
        let dir = self.dirs.get(dir).into_iter();
        dir.flat_map(|dir| dir.children.keys().cloned()).collect()
    }

    /// Returns the known directories right below a directory.
    pub(super) fn subdirectories(&self, dir: &Path) -> Vec<Arc<Path>> {
        let children = self.dirs.get(dir).into_iter();
        let children = children.flat_map(|dir| dir.children.values());
        let directories = children.filter_map(|child| match child {
            Child::Directory { path } => Some(Arc::clone(path)),
            Child::Socket { .. } => None,
        });
        directories.collect()
    }

    /// Returns the path under which a socket is known.
    pub(super) fn known_socket(&self, identity: Identity) -> Option<&Known> {
        self.sockets.get(identity)
    }

    /// Remembers another path to a known socket. Returns whether it was not remembered before.
    pub(super) fn add_second_path(&mut self, identity: Identity, path: &Arc<Path>) -> bool {
        self.sockets.add_second_path(identity, path)
    }

    /// Adds a socket that is not known, at a path that is not taken yet.
    pub(super) fn add_socket(
        &mut self,
        path: &Arc<Path>,
        identity: Identity,
        is_link: bool,
    ) -> Result<(), Problem> {
        let (dir, name) = split(path);
        let parent = self.dirs.get_mut(dir).ok_or(Problem::Missing)?;
        let path = Arc::clone(path);
        let known = Known {
            path: Arc::clone(&path),
            is_link,
        };
        let is_root = parent.depth == 0;
        self.sockets.add(&parent.top, is_root, identity, known)?;
        let name = name.to_owned();
        parent
            .children
            .insert(name, Child::Socket { path, identity });
        Ok(())
    }

    /// Replaces the socket at a path with one that is not known. Returns the further paths of the
    /// first one.
    pub(super) fn renew_socket(
        &mut self,
        path: &Arc<Path>,
        seen: Identity,
        is_link: bool,
    ) -> Vec<Arc<Path>> {
        let (dir, name) = split(path);
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        let child = children.and_then(|children| children.get_mut(name));
        let Some(Child::Socket { path, identity }) = child else {
            return Vec::new();
        };
        let path = Arc::clone(path);
        let before = std::mem::replace(identity, seen);
        self.sockets.renew(before, seen, Known { path, is_link })
    }

    /// Adds an empty directory at a path that is not taken yet.
    pub(super) fn add_directory(&mut self, path: &Arc<Path>) -> Result<(), Problem> {
        if self.dirs.len() >= config::MAX_DIRECTORIES {
            return Err(Problem::TooManyDirectories);
        }
        let (dir, name) = split(path);
        let parent = self.dirs.get_mut(dir).ok_or(Problem::Missing)?;
        let depth = parent.depth + 1;
        if depth > config::MAX_TREE_DEPTH {
            return Err(Problem::TooDeep);
        }
        let path = Arc::clone(path);
        let top = Arc::clone(if depth == 1 { &path } else { &parent.top });
        let child = Child::Directory {
            path: Arc::clone(&path),
        };
        parent.children.insert(name.to_owned(), child);
        self.dirs.insert(path, Dir::new(depth, top));
        Ok(())
    }

    /// Removes what is known of a path, and everything below it, unless it is a root.
    pub(super) fn remove(&mut self, path: &Path) -> Removed {
        let mut removed = Removed::default();
        let (dir, name) = split(path);
        let Some(dir) = self.dirs.get_mut(dir) else {
            return removed;
        };
        match dir.children.remove(name) {
            Some(Child::Socket { path, identity }) => {
                removed.second_paths = self.sockets.remove(&dir.top, identity);
                removed.sockets.push(path);
            }
            Some(Child::Directory { path }) => self.take(&path, false, &mut removed),
            None => {}
        }
        removed
    }

    /// Removes a directory's watch and everything below the directory, but not the directory.
    pub(super) fn clear(&mut self, dir: &Path) -> Removed {
        let mut removed = Removed::default();
        self.take(dir, true, &mut removed);
        removed
    }

    /// Removes a directory and those below it.
    fn take(&mut self, top: &Path, is_top_kept: bool, removed: &mut Removed) {
        for path in self.paths_below(top) {
            let Some(dir) = self.dirs.get_mut(&path) else {
                continue;
            };
            if let Some(watch) = dir.watch.take() {
                self.watched.remove(&watch);
                removed.watches.push(watch);
            }
            for child in std::mem::take(&mut dir.children).into_values() {
                if let Child::Socket { path, identity } = child {
                    let second_paths = self.sockets.remove(&dir.top, identity);
                    removed.second_paths.extend(second_paths);
                    removed.sockets.push(path);
                }
            }
            if !is_top_kept || *path != *top {
                removed.is_scan_wanted |= dir.is_scan_wanted;
                self.dirs.remove(&path);
                removed.dirs.push(path);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        let mut sockets = 0;
        for (path, dir) in &self.dirs {
            if let Some(watch) = dir.watch {
                assert_eq!(self.watched.get(&watch), Some(path));
            }
            for (name, child) in &dir.children {
                match child {
                    Child::Socket {
                        path: socket,
                        identity,
                    } => {
                        sockets += 1;
                        assert_eq!(**socket, path.join(name));
                        assert_eq!(self.sockets.get(*identity).map(|it| &it.path), Some(socket));
                    }
                    Child::Directory { path: below } => {
                        assert_eq!(**below, path.join(name));
                        assert_eq!(self.dirs[below].depth, dir.depth + 1);
                    }
                }
            }
        }
        assert_eq!(sockets, self.sockets.count());
        let roots = self.dirs.iter().filter(|(_, dir)| dir.depth == 0);
        let mut known = self.roots.clone();
        known.sort();
        assert!(roots.map(|(path, _)| path).eq(&known));
        let watched = self.dirs.values().filter(|dir| dir.watch.is_some());
        assert_eq!(watched.count(), self.watched.len());
    }
}

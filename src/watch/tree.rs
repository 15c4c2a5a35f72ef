//! The known directories: a tree of sockets and subdirectories, and the watch of each directory.
//! Pure.
//!
//! The tree keeps its paths, watches, counts and limits consistent and decides nothing:
//! [`super::Watch`] decides what a change means.

mod roots;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use litemap::LiteMap;

use self::roots::InnerRoots;
use super::children::{Child, Children};
use super::sockets::{Known, Sockets};
use super::{Identity, Place, Problem, WatchId, is_hidden};
use crate::config;
use crate::time::Time;

/// The directories by path, and the watches by number.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Boxed, because inserting a directory moves those behind it.
    dirs: LiteMap<Arc<Path>, Box<Dir>>,
    roots: Vec<Arc<Path>>,
    watched: LiteMap<WatchId, Arc<Path>>,
    sockets: Sockets,
    /// The number of directories that were found to be another one under another path.
    same: usize,
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
    /// The time of the next try. `retry_pause` is the pause before it if pauses are to double, else
    /// 0.
    retry_at: Option<Time>,
    retry_pause: Duration,
    /// Whether the problem was reported.
    is_problem_told: bool,
    /// Whether it was listed before.
    is_listed: bool,
    /// Whether a scan of it is wanted that has not begun.
    is_scan_wanted: bool,
    /// The number of times in a row that its watch was found to be that of another path.
    disputes: u8,
    children: Children,
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
    fn new(path: &Path, depth: usize, top: Arc<Path>) -> Self {
        Self {
            depth,
            top,
            watch: None,
            problem: None,
            retry_at: None,
            retry_pause: Duration::ZERO,
            is_problem_told: false,
            is_listed: false,
            is_scan_wanted: false,
            disputes: 0,
            children: Children::of(path),
        }
    }
}

impl Tree {
    pub(super) fn contains(&self, dir: &Path) -> bool {
        self.dirs.contains_key(dir)
    }

    /// Returns the tree's own copy of a directory's path, or `None` if the directory is not known.
    pub(super) fn known(&self, dir: &Path) -> Option<Arc<Path>> {
        let place = self.dirs.find_index(dir).ok()?;
        self.dirs
            .get_indexed(place)
            .map(|(path, _)| Arc::clone(path))
    }

    pub(super) fn is_root(&self, dir: &Path) -> bool {
        self.dirs.get(dir).is_some_and(|dir| dir.depth == 0)
    }

    /// Returns all directories, a directory before those below it.
    pub(super) fn paths(&self) -> Vec<Arc<Path>> {
        self.dirs.keys().map(Arc::clone).collect()
    }

    /// Returns all directories, the roots before all others.
    pub(super) fn paths_from_roots(&self) -> Vec<Arc<Path>> {
        let roots = self.dirs.iter().filter(|(_, dir)| dir.depth == 0);
        let others = self.dirs.iter().filter(|(_, dir)| dir.depth > 0);
        roots.chain(others).map(|(path, _)| path.clone()).collect()
    }

    /// Returns at most `most` directories that are to be tried again by `now`, each with its
    /// position, and clears their retry times.
    pub(super) fn take_retries(&mut self, now: Time, most: usize) -> Vec<(Arc<Path>, Place)> {
        let mut due = Vec::new();
        for (path, dir) in self.dirs.iter_mut() {
            if dir.retry_at.is_some_and(|at| at <= now) && due.len() < most {
                dir.retry_at = None;
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
        let pause = (dir.retry_pause * 2).clamp(config::WATCH_RETRY, config::MAX_WATCH_RETRY);
        dir.retry_pause = if is_limited { pause } else { Duration::ZERO };
        let at = if is_limited { now + pause } else { tick };
        dir.retry_at = Some(at);
        at
    }

    /// Cancels the next try of a directory.
    pub(super) fn do_not_retry(&mut self, dir: &Path) {
        if let Some(dir) = self.dirs.get_mut(dir) {
            (dir.retry_at, dir.retry_pause) = (None, Duration::ZERO);
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

    /// Sets or clears the problem of a directory. Returns whether that has to be reported: a
    /// problem that the directory above has, too, is reported only there, and so is its end.
    pub(super) fn set_problem(&mut self, path: &Path, problem: Option<Problem>) -> bool {
        let above = path.parent().and_then(|above| self.problem(above));
        let is_shared = problem.is_some() && above == problem.as_ref();
        let Some(dir) = self.dirs.get_mut(path) else {
            return false;
        };
        let is_same = |problem: &Option<Problem>| matches!(problem, Some(Problem::SameAs(_)));
        self.same += usize::from(is_same(&problem));
        self.same -= usize::from(is_same(&dir.problem));
        let was_told = dir.is_problem_told;
        dir.is_problem_told = problem.is_some() && !is_shared;
        dir.problem = problem;
        was_told || dir.is_problem_told
    }

    /// Returns the directories that were found to be this one under another path.
    pub(super) fn same_as(&self, dir: &Path) -> Vec<Arc<Path>> {
        if self.same == 0 {
            return Vec::new();
        }
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
        let place = self.dirs.find_index(dir).ok()?;
        let (path, _) = self.dirs.get_indexed(place)?;
        let path = Arc::clone(path);
        let old = self.dirs.get_mut(dir).and_then(|dir| dir.watch.take());
        if let Some(old) = old {
            self.watched.remove(&old);
        }
        if let Some(watch) = watch {
            self.watched.insert(watch, path);
        }
        if let Some(dir) = self.dirs.get_mut(dir) {
            dir.watch = watch;
        }
        old
    }

    /// Records whether a scan of a directory is wanted. Returns the previous value.
    pub(super) fn set_scan_wanted(&mut self, dir: &Path, is_wanted: bool) -> bool {
        let dir = self.dirs.get_mut(dir);
        dir.is_some_and(|dir| std::mem::replace(&mut dir.is_scan_wanted, is_wanted))
    }

    /// Starts a listing of a directory, in which none of the known names has been seen yet. Returns
    /// whether it is the first listing.
    pub(super) fn begin_listing(&mut self, dir: &Path) -> bool {
        let Some(dir) = self.dirs.get_mut(dir) else {
            return false;
        };
        for child in dir.children.iter_mut() {
            child.set_listed(false);
        }
        !std::mem::replace(&mut dir.is_listed, true)
    }

    /// Records that the listing of a directory holds a known name.
    pub(super) fn set_listed(&mut self, dir: &Path, name: &OsStr) {
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        if let Some(child) = children.and_then(|children| children.get_mut(name)) {
            child.set_listed(true);
        }
    }

    /// Returns the known paths in a directory that its listing does not hold.
    pub(super) fn unlisted(&self, dir: &Path) -> Vec<Arc<Path>> {
        let children = self.dirs.get(dir).map(|dir| dir.children.iter());
        let unlisted = children.into_iter().flatten().filter(|it| !it.is_listed());
        unlisted.map(|child| Arc::clone(child.path())).collect()
    }

    /// Returns the children of a directory, or `None` if the directory is not known.
    pub(super) fn children(&self, dir: &Path) -> Option<&Children> {
        self.dirs.get(dir).map(|dir| &dir.children)
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
        dir: &Path,
        path: Arc<Path>,
        identity: Identity,
        is_link: bool,
    ) -> Result<(), Problem> {
        let parent = self.dirs.get_mut(dir).ok_or(Problem::Missing)?;
        let known = Known {
            path: Arc::clone(&path),
            is_link,
        };
        let is_root = parent.depth == 0;
        self.sockets.add(&parent.top, is_root, identity, known)?;
        parent.children.insert(Child::Socket {
            path,
            identity,
            is_listed: true,
        });
        Ok(())
    }

    /// Replaces the socket at a path with one that is not known. Returns the further paths of the
    /// first one.
    pub(super) fn renew_socket(
        &mut self,
        dir: &Path,
        name: &OsStr,
        seen: Identity,
        is_link: bool,
    ) -> Vec<Arc<Path>> {
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        let Some(Child::Socket {
            path,
            identity,
            is_listed,
        }) = children.and_then(|children| children.get_mut(name))
        else {
            return Vec::new();
        };
        let path = Arc::clone(path);
        let before = std::mem::replace(identity, seen);
        *is_listed = true;
        self.sockets.renew(before, seen, Known { path, is_link })
    }

    /// Adds an empty directory at a path that is not taken yet.
    pub(super) fn add_directory(&mut self, dir: &Path, path: Arc<Path>) -> Result<(), Problem> {
        if self.dirs.len() >= config::MAX_DIRECTORIES {
            return Err(Problem::TooManyDirectories);
        }
        let parent = self.dirs.get_mut(dir).ok_or(Problem::Missing)?;
        let depth = parent.depth + 1;
        if depth > config::MAX_TREE_DEPTH {
            return Err(Problem::TooDeep);
        }
        parent.children.insert(Child::Directory {
            path: Arc::clone(&path),
            is_listed: true,
        });
        let top = if depth == 1 { &path } else { &parent.top };
        let dir = Dir::new(&path, depth, Arc::clone(top));
        self.dirs.insert(path, Box::new(dir));
        Ok(())
    }

    /// Removes a name and everything below it.
    pub(super) fn remove_child(&mut self, dir: &Path, name: &OsStr) -> Removed {
        let mut removed = Removed::default();
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        match children.and_then(|children| children.remove(name)) {
            Some(Child::Socket { path, identity, .. }) => {
                if let Some(dir) = self.dirs.get(dir) {
                    removed.second_paths = self.sockets.remove(&dir.top, identity);
                }
                removed.sockets.push(path);
            }
            Some(Child::Directory { path, .. }) => self.take(&path, false, &mut removed),
            None => {}
        }
        removed
    }

    /// Removes a directory by its path, and everything below it, unless it is a root.
    pub(super) fn remove_at(&mut self, path: &Path) -> Removed {
        match (path.parent(), path.file_name()) {
            (Some(dir), Some(name)) if !self.is_root(path) => self.remove_child(dir, name),
            _ => Removed::default(),
        }
    }

    /// Removes a directory's watch and everything below the directory, but not the directory.
    pub(super) fn clear(&mut self, dir: &Path) -> Removed {
        let mut removed = Removed::default();
        self.take(dir, true, &mut removed);
        removed
    }

    /// Removes the directories at and below a path in one pass: there may be thousands.
    fn take(&mut self, top: &Path, is_top_kept: bool, removed: &mut Removed) {
        let Ok(start) = self.dirs.find_index(top) else {
            return;
        };
        let from_top = self.dirs.keys().skip(start);
        let end = start + from_top.take_while(|it| it.starts_with(top)).count();
        let mut taken = vec![false; end - start];
        let mut inner = InnerRoots::default();
        let dirs = self.dirs.iter_mut().skip(start);
        for (place, (path, dir)) in dirs.take(end - start).enumerate() {
            if place > 0 && inner.holds(path, dir.depth) {
                continue;
            }
            removed.watches.extend(dir.watch.take());
            for (socket, identity) in dir.children.take().filter_map(Child::into_socket) {
                let second_paths = self.sockets.remove(&dir.top, identity);
                removed.second_paths.extend(second_paths);
                removed.sockets.push(socket);
            }
            if place > 0 || !is_top_kept {
                let is_same = matches!(dir.problem, Some(Problem::SameAs(_)));
                self.same -= usize::from(is_same);
                removed.dirs.push(Arc::clone(path));
                removed.is_scan_wanted |= dir.is_scan_wanted;
                taken[place] = true;
            }
        }
        let mut place = 0;
        self.dirs.retain(|_, _| {
            place += 1;
            let below = (place - 1usize).checked_sub(start);
            !below
                .and_then(|below| taken.get(below))
                .is_some_and(|&it| it)
        });
        self.forget_watches(&removed.watches);
    }

    fn forget_watches(&mut self, watches: &[WatchId]) {
        if watches.len() <= FEW {
            for watch in watches {
                self.watched.remove(watch);
            }
            return;
        }
        let mut sorted = watches.to_vec();
        sorted.sort_unstable();
        self.watched
            .retain(|watch, _| sorted.binary_search(watch).is_err());
    }

    #[cfg(test)]
    pub(super) fn is_any_scan_wanted(&self) -> bool {
        self.dirs.values().any(|dir| dir.is_scan_wanted)
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
            for child in dir.children.iter() {
                let name = dir.children.name(child);
                match child {
                    Child::Socket {
                        path: socket,
                        identity,
                        ..
                    } => {
                        sockets += 1;
                        assert_eq!(self.sockets.get(*identity).map(|it| &it.path), Some(socket));
                        assert_eq!(**socket, path.join(name));
                    }
                    Child::Directory { path: below, .. } => {
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
        let problems = self.dirs.values().map(|dir| &dir.problem);
        let same = problems.filter(|it| matches!(it, Some(Problem::SameAs(_))));
        assert_eq!(same.count(), self.same);
    }
}

/// The most watches that are removed one by one: for more it is cheaper to go through all watches
/// once.
const FEW: usize = 16;

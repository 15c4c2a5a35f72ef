//! The known directories: a tree of sockets and subdirectories, and the watch of each directory.
//!
//! The tree keeps its paths, watches and sockets consistent and within the limits; [`super::Watch`]
//! decides what a change means. An entry that exceeds a limit is not added; known sockets stay.
//!
//! The paths below a root are made of a directory and a name ([`join`]), and split again
//! ([`dir_and_name`]). The results are those of [`Path`], but only for paths of this form: they are
//! not parsed component by component.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use memchr::memrchr;
use smallvec::SmallVec;

use super::{Identity, Problem};
use crate::config;
use crate::octets::PathKey;
use crate::time::Time;

/// The directories by path, and the watches by number.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Sorted as [`Path`] is: a directory is followed by those below it.
    dirs: BTreeMap<Arc<Path>, Dir>,
    roots: Vec<Arc<Path>>,
    watched: BTreeMap<WatchId, Arc<Path>>,
    sockets: HashMap<Identity, Socket>,
}

/// An inotify watch descriptor. An inotify instance does not reuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub i32);

/// A directory, whether or not it could be watched and listed.
#[derive(Debug, Default)]
pub(super) struct Dir {
    /// The number of levels below its root; 0 for a root.
    pub(super) depth: usize,
    watch: Option<WatchId>,
    problem: Option<Problem>,
    /// The time of the next attempt to scan the directory, if it has a problem that may be solved.
    pub(super) retry_at: Option<Time>,
    /// The pause before that attempt, if the problem may last.
    pub(super) retry_pause: Option<Duration>,
    /// Whether the problem was reported.
    is_problem_reported: bool,
    /// Whether the directory was ever listed, completely or not.
    pub(super) is_listed: bool,
    /// Whether a scan of the directory was requested and is not answered yet.
    pub(super) is_scan_wanted: bool,
    /// The known entries by path; only the tree changes them.
    pub(super) children: BTreeMap<PathKey, Child>,
}

/// A known entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    /// A plugin socket.
    Socket(Identity),
    /// A subdirectory.
    Directory,
}

/// A known socket. One socket is one plugin and has one path.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    /// The path, shared with all users of the outputs.
    pub(super) path: Arc<Path>,
    /// Whether the path is a symbolic link to the socket.
    pub(super) is_link: bool,
    /// The directory of the other path that was ignored last: scanned when this path is removed.
    pub(super) other_path_in: Option<Arc<Path>>,
}

/// The removed sockets and watches, those of a directory before those below it.
#[derive(Debug, Default)]
pub(super) struct Removed {
    pub(super) sockets: Vec<Socket>,
    pub(super) watches: Vec<WatchId>,
}

impl Tree {
    /// Adds an unknown root.
    pub(super) fn add_root(&mut self, path: &Arc<Path>) {
        self.roots.push(Arc::clone(path));
        self.dirs.insert(Arc::clone(path), Dir::default());
    }

    /// Removes a root and everything below it.
    pub(super) fn remove_root(&mut self, path: &Path) -> Removed {
        self.roots.retain(|root| **root != *path);
        self.remove_subtree(path, false)
    }

    /// Returns the roots in the order in which they were added.
    pub(super) fn roots(&self) -> &[Arc<Path>] {
        &self.roots
    }

    pub(super) fn get(&self, dir: &Path) -> Option<&Dir> {
        self.dirs.get(dir)
    }

    pub(super) fn get_mut(&mut self, dir: &Path) -> Option<&mut Dir> {
        self.dirs.get_mut(dir)
    }

    /// Returns the tree's own copy of a directory's path, or `None` if the directory is not known.
    pub(super) fn shared_path(&self, dir: &Path) -> Option<Arc<Path>> {
        let (path, _) = self.dirs.get_key_value(dir)?;
        Some(Arc::clone(path))
    }

    pub(super) fn is_root(&self, dir: &Path) -> bool {
        self.get(dir).is_some_and(|dir| dir.depth == 0)
    }

    /// Returns the paths of all directories at and below a path, each before its subdirectories.
    pub(super) fn paths_at_and_below(&self, top: &Path) -> Vec<Arc<Path>> {
        let below = self.dirs.keys().filter(|path| path.starts_with(top));
        below.cloned().collect()
    }

    /// Returns the paths of all directories, the roots before all others.
    pub(super) fn paths_roots_first(&self) -> Vec<Arc<Path>> {
        let others = self.dirs.iter().filter(|(_, dir)| dir.depth > 0);
        let others = others.map(|(path, _)| path);
        self.roots.iter().chain(others).cloned().collect()
    }

    /// Returns the directories whose retry time has come, and clears those times.
    pub(super) fn take_retries(&mut self, now: Time) -> Vec<Arc<Path>> {
        let is_due = |dir: &mut Dir| dir.retry_at.take_if(|at| *at <= now).is_some();
        let dirs = self.dirs.iter_mut();
        let due = dirs.filter_map(|(path, dir)| is_due(dir).then(|| Arc::clone(path)));
        due.collect()
    }

    /// Returns the earliest retry time of any directory.
    pub(super) fn next_retry(&self) -> Option<Time> {
        self.dirs.values().filter_map(|dir| dir.retry_at).min()
    }

    pub(super) fn problem(&self, dir: &Path) -> Option<&Problem> {
        self.get(dir)?.problem.as_ref()
    }

    /// Returns the directories below the roots that have a problem which their parent does not
    /// have.
    pub(super) fn paths_with_own_problem(&self) -> impl Iterator<Item = &Arc<Path>> {
        let troubled = |dir: &Dir| dir.depth > 0 && dir.is_problem_reported;
        let dirs = self.dirs.iter().filter(move |(_, dir)| troubled(dir));
        dirs.map(|(path, _)| path)
    }

    /// Sets or clears the problem of a directory. Returns whether that has to be reported: a
    /// problem that the parent directory has, too, is reported only for the parent, and so is its
    /// end.
    pub(super) fn set_problem(&mut self, path: &Path, problem: Option<Problem>) -> bool {
        let above = path.parent().and_then(|above| self.problem(above));
        let is_shared = problem.is_some() && above == problem.as_ref();
        let Some(dir) = self.dirs.get_mut(path) else {
            return false;
        };
        let was_reported = dir.is_problem_reported;
        dir.is_problem_reported = problem.is_some() && !is_shared;
        let is_same = dir.problem == problem;
        dir.problem = problem;
        !is_same && (was_reported || dir.is_problem_reported)
    }

    /// Returns the directory that a watch belongs to, or `None` if the watch is not in use any
    /// more.
    pub(super) fn dir_of_watch(&self, watch: WatchId) -> Option<Arc<Path>> {
        self.watched.get(&watch).map(Arc::clone)
    }

    /// Sets or clears the watch of a directory. Returns the previous one.
    pub(super) fn set_watch(&mut self, dir: &Path, watch: Option<WatchId>) -> Option<WatchId> {
        let path = self.shared_path(dir)?;
        let old = std::mem::replace(&mut self.dirs.get_mut(dir)?.watch, watch);
        if let Some(old) = old {
            self.watched.remove(&old);
        }
        if let Some(watch) = watch {
            self.watched.insert(watch, path);
        }
        old
    }

    /// Returns the known entry of a directory at a path.
    pub(super) fn child(&self, dir: &Path, path: &Arc<Path>) -> Option<Child> {
        let children = &self.get(dir)?.children;
        children.get(&PathKey(path.clone())).copied()
    }

    /// Returns the known paths in a directory.
    pub(super) fn children(&self, dir: &Path) -> BTreeSet<PathKey> {
        let dir = self.dirs.get(dir).into_iter();
        dir.flat_map(|dir| dir.children.keys().cloned()).collect()
    }

    pub(super) fn socket_mut(&mut self, identity: Identity) -> Option<&mut Socket> {
        self.sockets.get_mut(&identity)
    }

    /// Adds an unknown socket at a free path. Fails if a limit is reached, or if the directory is
    /// not known.
    pub(super) fn add_socket(&mut self, identity: Identity, socket: Socket) -> Result<(), Problem> {
        let key = PathKey(Arc::clone(&socket.path));
        let parent = self
            .dirs
            .get_mut(dir_and_name(&key.0).0)
            .ok_or(Problem::Missing)?;
        if self.sockets.len() >= config::MAX_SOCKETS {
            return Err(Problem::TooManySockets);
        }
        if parent.children.len() >= config::MAX_EXAMINED_NAMES {
            return Err(Problem::TooManyNames);
        }
        let child = Child::Socket(identity);
        parent.children.insert(key, child);
        self.sockets.insert(identity, socket);
        Ok(())
    }

    /// Adds an empty directory at a free path. Fails if a limit is reached, or if the directory
    /// above is not known.
    pub(super) fn add_directory(&mut self, path: &Arc<Path>) -> Result<(), Problem> {
        if self.dirs.len() >= config::MAX_DIRECTORIES {
            return Err(Problem::TooManyDirectories);
        }
        let parent = self
            .dirs
            .get_mut(dir_and_name(path).0)
            .ok_or(Problem::Missing)?;
        let depth = parent.depth + 1;
        if depth > config::MAX_TREE_DEPTH {
            return Err(Problem::TooDeep);
        }
        let key = PathKey(Arc::clone(path));
        parent.children.insert(key, Child::Directory);
        let dir = Dir {
            depth,
            ..Dir::default()
        };
        self.dirs.insert(Arc::clone(path), dir);
        Ok(())
    }

    /// Removes a path and everything below it; does nothing if the path is a root or not known.
    pub(super) fn remove(&mut self, path: &Arc<Path>) -> Removed {
        let parent = self.get_mut(dir_and_name(path).0);
        match parent.and_then(|dir| dir.children.remove(&PathKey(path.clone()))) {
            Some(Child::Socket(identity)) => Removed {
                sockets: self.sockets.remove(&identity).into_iter().collect(),
                watches: Vec::new(),
            },
            Some(Child::Directory) => self.remove_subtree(path, false),
            None => Removed::default(),
        }
    }

    /// Removes a directory's watch and everything below the directory, but not the directory.
    pub(super) fn clear(&mut self, dir: &Path) -> Removed {
        self.remove_subtree(dir, true)
    }

    /// Removes a directory and those below it. If `is_top_kept`, the directory itself stays, empty
    /// and without a watch.
    fn remove_subtree(&mut self, top: &Path, is_top_kept: bool) -> Removed {
        let mut removed = Removed::default();
        for path in self.paths_at_and_below(top) {
            let Some(dir) = self.dirs.get_mut(&path) else {
                continue;
            };
            if let Some(watch) = dir.watch.take() {
                self.watched.remove(&watch);
                removed.watches.push(watch);
            }
            for child in std::mem::take(&mut dir.children).into_values() {
                if let Child::Socket(identity) = child {
                    removed.sockets.extend(self.sockets.remove(&identity));
                }
            }
            if !is_top_kept || *path != *top {
                self.dirs.remove(&path);
            }
        }
        removed
    }

    #[cfg(test)]
    pub(super) fn sockets(&self) -> &HashMap<Identity, Socket> {
        &self.sockets
    }

    /// Asserts the invariants. Only unit tests call this after each input: the whole tree is
    /// checked.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        let mut sockets = 0;
        for (path, dir) in &self.dirs {
            if let Some(watch) = dir.watch {
                assert_eq!(self.watched.get(&watch), Some(path));
            }
            for (PathKey(below), child) in &dir.children {
                assert_eq!(below.parent(), Some(&**path));
                match child {
                    Child::Socket(identity) => {
                        sockets += 1;
                        assert_eq!(self.sockets[identity].path, *below);
                    }
                    Child::Directory => {
                        assert_eq!(self.dirs[below].depth, dir.depth + 1);
                    }
                }
            }
        }
        assert_eq!(sockets, self.sockets.len());
        let roots = self.dirs.iter().filter(|(_, dir)| dir.depth == 0);
        let mut known = self.roots.clone();
        known.sort();
        assert!(roots.map(|(path, _)| path).eq(&known));
        let watched = self.dirs.values().filter(|dir| dir.watch.is_some());
        assert_eq!(watched.count(), self.watched.len());
    }
}

/// Returns the path of a name in a directory.
pub(super) fn join(dir: &Path, name: &OsStr) -> Arc<Path> {
    // Usual paths need no buffer on the heap.
    let mut path = SmallVec::<[u8; 128]>::new();
    path.extend_from_slice(dir.as_os_str().as_bytes());
    if !matches!(path.last(), None | Some(b'/')) {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
    Path::new(OsStr::from_bytes(&path)).into()
}

/// Returns the directory and the name of a path made by [`join`].
pub(super) fn dir_and_name(path: &Path) -> (&Path, &OsStr) {
    let octets = path.as_os_str().as_bytes();
    let (dir_end, name_at) = match memrchr(b'/', octets) {
        // The slash belongs to neither, unless the directory is the root directory.
        Some(slash) => (slash.max(1), slash + 1),
        None => (0, 0),
    };
    let dir = OsStr::from_bytes(&octets[..dir_end]);
    (Path::new(dir), OsStr::from_bytes(&octets[name_at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joined_path_is_split_into_its_parts() {
        for dir in ["/", "/p", "/p/", "/p/q", "p", ""] {
            let (dir, name) = (Path::new(dir), OsStr::new("a"));
            let path = join(dir, name);
            assert_eq!(path, dir.join(name).into());
            assert_eq!(dir_and_name(&path), (dir, name));
        }
    }
}

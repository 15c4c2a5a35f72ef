//! What is known of the directories: a tree of sockets and sub directories, and the watch of each
//! directory. Pure.
//!
//! The tree keeps its own books straight (paths, watches, counts, limits) and decides nothing: what
//! a change means is the business of [`super::Watch`].

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

use super::children::{Child, Children};
use super::{Identity, Place, Problem, WatchId};
use crate::config;

/// All directories by path, all watches by number.
#[derive(Debug, Default)]
pub(super) struct Tree {
    dirs: LiteMap<Arc<Path>, Dir>,
    watched: LiteMap<WatchId, Arc<Path>>,
    sockets: usize,
    /// How many directories were found to be another one under another path.
    same: usize,
}

/// A directory, whether or not it could be watched and listed.
#[derive(Debug)]
struct Dir {
    /// How far below its root it is; a root has 0.
    depth: usize,
    watch: Option<WatchId>,
    problem: Option<Problem>,
    /// Whether the problem was made known.
    is_problem_told: bool,
    /// Whether it was listed before.
    is_listed: bool,
    /// How many times in a row its watch was found to be that of another path.
    disputes: u8,
    children: Children,
}

/// What a removal took away, a directory before what is below it.
#[derive(Debug, Default)]
pub(super) struct Removed {
    pub(super) sockets: Vec<Arc<Path>>,
    pub(super) watches: Vec<WatchId>,
    /// The directories that others were taken for.
    pub(super) dirs: Vec<Arc<Path>>,
}

impl Dir {
    /// A directory of which nothing is known yet.
    fn new(path: &Path, depth: usize) -> Self {
        Self {
            depth,
            watch: None,
            problem: None,
            is_problem_told: false,
            is_listed: false,
            disputes: 0,
            children: Children::of(path),
        }
    }
}

impl Tree {
    pub(super) fn insert_root(&mut self, path: &Arc<Path>) {
        let dir = Dir::new(path, 0);
        self.dirs.insert(Arc::clone(path), dir);
    }

    pub(super) fn contains(&self, dir: &Path) -> bool {
        self.dirs.contains_key(dir)
    }

    /// Returns a directory's own path, if the directory is known.
    pub(super) fn known(&self, dir: &Path) -> Option<Arc<Path>> {
        let place = self.dirs.find_index(dir).ok()?;
        self.dirs
            .get_indexed(place)
            .map(|(path, _)| Arc::clone(path))
    }

    pub(super) fn is_root(&self, dir: &Path) -> bool {
        self.dirs.get(dir).is_some_and(|dir| dir.depth == 0)
    }

    /// Every directory, one above before those below it.
    pub(super) fn paths(&self) -> Vec<Arc<Path>> {
        self.dirs.keys().map(Arc::clone).collect()
    }

    /// The directories whose problem may be over by now, and how to look at them.
    pub(super) fn worth_retrying(&self) -> Vec<(Arc<Path>, Place)> {
        let troubled = self.dirs.iter().filter(|(_, dir)| {
            let problem = dir.problem.as_ref();
            problem.is_some_and(Problem::is_worth_retrying)
        });
        let look = |(path, dir): (&Arc<Path>, &Dir)| {
            let place = match dir.depth {
                0 => Place::MissingRoot,
                _ => Place::Below,
            };
            (Arc::clone(path), place)
        };
        troubled.map(look).collect()
    }

    pub(super) fn problem(&self, dir: &Path) -> Option<&Problem> {
        self.dirs.get(dir)?.problem.as_ref()
    }

    /// Gives a directory another problem, or none, and says whether that is news: a problem that
    /// the directory above has, too, is told there, and so is its end.
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

    /// Returns how many times in a row that was so.
    pub(super) fn disputes(&self, dir: &Path) -> u8 {
        self.dirs.get(dir).map_or(0, |dir| dir.disputes)
    }

    /// Notes that a directory has a watch of its own.
    pub(super) fn settle(&mut self, dir: &Path) {
        if let Some(dir) = self.dirs.get_mut(dir) {
            dir.disputes = 0;
        }
    }

    /// The directory that a watch belongs to; `None` for a watch that was given up.
    pub(super) fn watched_by(&self, watch: WatchId) -> Option<Arc<Path>> {
        self.watched.get(&watch).map(Arc::clone)
    }

    /// Gives a directory its watch, or none, and returns the one that it had.
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

    /// Notes that a directory was listed. Returns whether that was the first time.
    pub(super) fn set_listed(&mut self, dir: &Path) -> bool {
        let dir = self.dirs.get_mut(dir);
        dir.is_some_and(|dir| !std::mem::replace(&mut dir.is_listed, true))
    }

    /// What is in a directory; `None` if there is no such directory.
    pub(super) fn children(&self, dir: &Path) -> Option<&Children> {
        self.dirs.get(dir).map(|dir| &dir.children)
    }

    /// The names known in a directory that are not among `seen`.
    pub(super) fn names_except(&self, dir: &Path, mut seen: Vec<&OsStr>) -> Vec<OsString> {
        let Some(Dir { children, .. }) = self.dirs.get(dir) else {
            return Vec::new();
        };
        let names = children.iter().map(|child| children.name(child));
        seen.sort_unstable();
        let unseen = names.filter(|name| seen.binary_search(name).is_err());
        unseen.map(OsStr::to_owned).collect()
    }

    /// Adds a socket at a path in a directory, which is free.
    pub(super) fn add_socket(
        &mut self,
        dir: &Path,
        path: Arc<Path>,
        identity: Identity,
    ) -> Result<(), Problem> {
        if self.sockets >= config::MAX_SOCKETS {
            return Err(Problem::TooManySockets);
        }
        let parent = self.dirs.get_mut(dir).ok_or(Problem::Missing)?;
        parent.children.insert(Child::Socket { path, identity });
        self.sockets += 1;
        Ok(())
    }

    /// Gives a known socket another identity.
    pub(super) fn renew_socket(&mut self, dir: &Path, name: &OsStr, seen: Identity) {
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        let child = children.and_then(|children| children.get_mut(name));
        if let Some(Child::Socket { identity, .. }) = child {
            *identity = seen;
        }
    }

    /// Adds an empty directory at a path in a directory, which is free.
    pub(super) fn add_directory(&mut self, dir: &Path, path: Arc<Path>) -> Result<(), Problem> {
        if self.dirs.len() >= config::MAX_DIRECTORIES {
            return Err(Problem::TooManyDirectories);
        }
        let parent = self.dirs.get_mut(dir).ok_or(Problem::Missing)?;
        let depth = parent.depth + 1;
        if depth > config::MAX_TREE_DEPTH {
            return Err(Problem::TooDeep);
        }
        let child = Child::Directory(Arc::clone(&path));
        parent.children.insert(child);
        let dir = Dir::new(&path, depth);
        self.dirs.insert(path, dir);
        Ok(())
    }

    /// Forgets a name and all that is below it.
    pub(super) fn remove_child(&mut self, dir: &Path, name: &OsStr) -> Removed {
        let mut removed = Removed::default();
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        if let Some(child) = children.and_then(|children| children.remove(name)) {
            self.take(child, &mut removed);
        }
        removed
    }

    /// Forgets a directory by its path, and all that is below it. A root cannot be forgotten.
    pub(super) fn remove_at(&mut self, path: &Path) -> Removed {
        match (path.parent(), path.file_name()) {
            (Some(dir), Some(name)) if !self.is_root(path) => self.remove_child(dir, name),
            _ => Removed::default(),
        }
    }

    /// Forgets a directory's watch and all that is below it, but not the directory.
    pub(super) fn clear(&mut self, dir: &Path) -> Removed {
        let mut removed = Removed::default();
        removed.watches.extend(self.set_watch(dir, None));
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        for child in children.map(Children::take).into_iter().flatten() {
            self.take(child, &mut removed);
        }
        removed
    }

    /// As deep as the tree is, which is limited.
    fn take(&mut self, child: Child, removed: &mut Removed) {
        match child {
            Child::Socket { path, .. } => {
                self.sockets -= 1;
                removed.sockets.push(path);
            }
            Child::Directory(path) => {
                removed.watches.extend(self.set_watch(&path, None));
                let dir = self.dirs.remove(&path);
                let problem = dir.as_ref().and_then(|dir| dir.problem.as_ref());
                self.same -= usize::from(matches!(problem, Some(Problem::SameAs(_))));
                if self.same > 0 {
                    removed.dirs.push(path);
                }
                for child in dir.into_iter().flat_map(|mut dir| dir.children.take()) {
                    self.take(child, removed);
                }
            }
        }
    }

    pub(super) fn check_invariants(&self) {
        let mut sockets = 0;
        for (path, dir) in &self.dirs {
            if let Some(watch) = dir.watch {
                assert_eq!(self.watched.get(&watch), Some(path));
            }
            for child in dir.children.iter() {
                let name = dir.children.name(child);
                match child {
                    Child::Socket { path: socket, .. } => {
                        sockets += 1;
                        assert_eq!(**socket, path.join(name));
                    }
                    Child::Directory(below) => {
                        assert_eq!(**below, path.join(name));
                        assert_eq!(self.dirs[below].depth, dir.depth + 1);
                    }
                }
            }
        }
        assert_eq!(sockets, self.sockets);
        let watched = self.dirs.values().filter(|dir| dir.watch.is_some());
        assert_eq!(watched.count(), self.watched.len());
        let is_same = |dir: &&Dir| matches!(dir.problem, Some(Problem::SameAs(_)));
        assert_eq!(self.dirs.values().filter(is_same).count(), self.same);
    }
}

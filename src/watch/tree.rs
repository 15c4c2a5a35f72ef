//! What is known of the directories: a tree of sockets and sub directories, and the watch of each
//! directory. Pure.
//!
//! The tree keeps its own books straight (paths, watches, counts, limits) and decides nothing: what
//! a change means is the business of [`super::Watch`].

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use litemap::LiteMap;

use super::children::{Child, Children};
use super::{Identity, Place, Problem, WatchId};
use crate::config;

/// All directories by path, all watches by number.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Boxed, because a directory that is added moves those behind it.
    dirs: LiteMap<Arc<Path>, Box<Dir>>,
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
    /// Whether a scan of it is wanted that has not begun.
    is_scan_wanted: bool,
    /// How many times in a row its watch was found to be that of another path.
    disputes: u8,
    children: Children,
}

/// What a removal took away, a directory before what is below it.
#[derive(Debug, Default)]
pub(super) struct Removed {
    pub(super) sockets: Vec<Arc<Path>>,
    pub(super) watches: Vec<WatchId>,
    /// The directories themselves.
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
            is_scan_wanted: false,
            disputes: 0,
            children: Children::of(path),
        }
    }
}

impl Tree {
    pub(super) fn insert_root(&mut self, path: &Arc<Path>) {
        let dir = Dir::new(path, 0);
        self.dirs.insert(Arc::clone(path), Box::new(dir));
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
        let look = |path: &Arc<Path>, depth: usize| {
            let place = match depth {
                0 => Place::MissingRoot,
                _ => Place::Below,
            };
            (Arc::clone(path), place)
        };
        troubled.map(|(path, dir)| look(path, dir.depth)).collect()
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

    /// Notes whether a scan of a directory is wanted. Returns what was the case before.
    pub(super) fn set_scan_wanted(&mut self, dir: &Path, is_wanted: bool) -> bool {
        let dir = self.dirs.get_mut(dir);
        dir.is_some_and(|dir| std::mem::replace(&mut dir.is_scan_wanted, is_wanted))
    }

    /// Begins a listing of a directory, in which none of the known names has been seen yet. Returns
    /// whether it is the first.
    pub(super) fn begin_listing(&mut self, dir: &Path) -> bool {
        let Some(dir) = self.dirs.get_mut(dir) else {
            return false;
        };
        for child in dir.children.iter_mut() {
            child.set_listed(false);
        }
        !std::mem::replace(&mut dir.is_listed, true)
    }

    /// Notes that the listing of a directory holds a known name.
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

    /// What is in a directory; `None` if there is no such directory.
    pub(super) fn children(&self, dir: &Path) -> Option<&Children> {
        self.dirs.get(dir).map(|dir| &dir.children)
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
        parent.children.insert(Child::Socket {
            path,
            identity,
            is_listed: true,
        });
        self.sockets += 1;
        Ok(())
    }

    /// Gives a known socket another identity.
    pub(super) fn renew_socket(&mut self, dir: &Path, name: &OsStr, seen: Identity) {
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        let child = children.and_then(|children| children.get_mut(name));
        if let Some(Child::Socket {
            identity,
            is_listed,
            ..
        }) = child
        {
            (*identity, *is_listed) = (seen, true);
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
        parent.children.insert(Child::Directory {
            path: Arc::clone(&path),
            is_listed: true,
        });
        let dir = Dir::new(&path, depth);
        self.dirs.insert(path, Box::new(dir));
        Ok(())
    }

    /// Forgets a name and all that is below it.
    pub(super) fn remove_child(&mut self, dir: &Path, name: &OsStr) -> Removed {
        let mut removed = Removed::default();
        let children = self.dirs.get_mut(dir).map(|dir| &mut dir.children);
        match children.and_then(|children| children.remove(name)) {
            Some(Child::Socket { path, .. }) => removed.sockets.push(path),
            Some(Child::Directory { path, .. }) => self.take(&path, false, &mut removed),
            None => {}
        }
        self.sockets -= removed.sockets.len();
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
        self.take(dir, true, &mut removed);
        self.sockets -= removed.sockets.len();
        removed
    }

    /// Takes the directories at and below a path, in one go: there may be thousands.
    fn take(&mut self, top: &Path, is_top_kept: bool, removed: &mut Removed) {
        let Ok(start) = self.dirs.find_index(top) else {
            return;
        };
        let from_top = self.dirs.keys().skip(start);
        let end = start + from_top.take_while(|it| it.starts_with(top)).count();
        let mut taken = vec![false; end - start];
        let mut foreign = None::<Arc<Path>>;
        let dirs = self.dirs.iter_mut().skip(start);
        for (place, (path, dir)) in dirs.take(end - start).enumerate() {
            // A root that begins like this one and is not reached from it: it is hidden.
            if dir.depth == 0 && place > 0 {
                foreign = Some(Arc::clone(path));
            }
            if foreign.as_ref().is_some_and(|root| path.starts_with(root)) {
                continue;
            }
            removed.watches.extend(dir.watch.take());
            let sockets = dir.children.take().filter_map(Child::into_socket);
            removed.sockets.extend(sockets);
            if place > 0 || !is_top_kept {
                let is_same = matches!(dir.problem, Some(Problem::SameAs(_)));
                self.same -= usize::from(is_same);
                removed.dirs.push(Arc::clone(path));
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
                    Child::Directory { path: below, .. } => {
                        assert_eq!(**below, path.join(name));
                        assert_eq!(self.dirs[below].depth, dir.depth + 1);
                    }
                }
            }
        }
        assert_eq!(sockets, self.sockets);
        let watched = self.dirs.values().filter(|dir| dir.watch.is_some());
        assert_eq!(watched.count(), self.watched.len());
        let problems = self.dirs.values().map(|dir| &dir.problem);
        let same = problems.filter(|it| matches!(it, Some(Problem::SameAs(_))));
        assert_eq!(same.count(), self.same);
    }
}

/// Up to how many watches are forgotten one by one: more than that, and it is cheaper to go through
/// all of them once.
const FEW: usize = 16;

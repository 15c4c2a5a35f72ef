//! Directories that become roots while they are known, and roots that become directories below
//! others. Pure.
//!
//! A root may lie inside another one: each has a tree of its own, and the outer one leaves the
//! inner one out. So a known directory that becomes a root is cut off with everything below it, and
//! a root that stops being one is joined to the directory above, if that is known. What is known
//! below it stays, even if it is more or deeper than a limit allows by then: limits hold for what
//! is added.

use std::path::Path;
use std::sync::Arc;

use super::{Child, Dir, Removed, Tree};

impl Tree {
    /// Returns the roots in the order in which they were added.
    pub(in crate::watch) fn roots(&self) -> &[Arc<Path>] {
        &self.roots
    }

    /// Makes a directory a root that is not one, whether it is known or not.
    pub(in crate::watch) fn add_root(&mut self, path: &Arc<Path>) {
        self.roots.push(Arc::clone(path));
        if !self.contains(path) {
            let dir = Dir::new(path, 0, Arc::clone(path));
            self.dirs.insert(Arc::clone(path), Box::new(dir));
            return;
        }
        if let (Some(above), Some(name)) = (path.parent(), path.file_name()) {
            if let Some(above) = self.dirs.get_mut(above) {
                above.children.remove(name);
            }
        }
        self.relocate(path, true);
    }

    /// Makes a root a directory below the one above, or removes it with everything below it if the
    /// directory above is not known.
    pub(in crate::watch) fn remove_root(&mut self, path: &Arc<Path>) -> Removed {
        let mut removed = Removed::default();
        self.roots.retain(|root| root != path);
        let above = path.parent().and_then(|above| self.dirs.get_mut(above));
        let name = path.file_name().filter(|name| !super::is_hidden(name));
        match (above, name) {
            (Some(above), Some(name)) if above.children.get(name).is_none() => {
                above.children.insert(Child::Directory {
                    path: Arc::clone(path),
                    is_listed: true,
                });
                self.relocate(path, false);
            }
            _ => self.take(path, false, &mut removed),
        }
        removed
    }

    /// Derives the depth and the part of a directory and of those below it from the directory above
    /// each of them. The first one has none above if it is a root.
    fn relocate(&mut self, top: &Path, is_root: bool) {
        for path in self.reached_from(top) {
            let is_first = *path == *top;
            let above = path.parent().filter(|_| !(is_root && is_first));
            let (depth, part) = match above.and_then(|above| self.dirs.get(above)) {
                Some(above) if above.depth > 0 => (above.depth + 1, Arc::clone(&above.top)),
                Some(_) => (1, Arc::clone(&path)),
                None => (0, Arc::clone(&path)),
            };
            let Some(dir) = self.dirs.get_mut(&path) else {
                continue;
            };
            dir.depth = depth;
            let before = std::mem::replace(&mut dir.top, part);
            if before == dir.top {
                continue;
            }
            for child in dir.children.iter() {
                if let Child::Socket { .. } = child {
                    self.sockets.relocate(&before, &dir.top);
                }
            }
        }
    }

    /// Returns a directory and all those below it, without other roots and what is below these.
    fn reached_from(&self, top: &Path) -> Vec<Arc<Path>> {
        let mut inner = InnerRoots::default();
        let start = self.dirs.find_index(top).unwrap_or(self.dirs.len());
        let from_top = self.dirs.iter().skip(start);
        let below = from_top.take_while(|(path, _)| path.starts_with(top));
        let reached = below.filter(|(path, dir)| ***path == *top || !inner.holds(path, dir.depth));
        reached.map(|(path, _)| Arc::clone(path)).collect()
    }
}

/// The roots below a directory, whose paths are passed in order.
#[derive(Debug, Default)]
pub(super) struct InnerRoots {
    last: Option<Arc<Path>>,
}

impl InnerRoots {
    /// Returns whether the next directory is such a root, or lies below one.
    pub(super) fn holds(&mut self, path: &Arc<Path>, depth: usize) -> bool {
        let is_below = self.last.as_ref().is_some_and(|it| path.starts_with(it));
        if depth == 0 && !is_below {
            self.last = Some(Arc::clone(path));
        }
        is_below || depth == 0
    }
}

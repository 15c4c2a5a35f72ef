//! Sockets that are expected because their plugins were registered before a restart.
//!
//! An expected socket that is found becomes an ordinary one. It is lost, for example, if a complete
//! listing of its directory does not contain it and an examination of its path does not find it
//! either, or if its root is removed. If a directory cannot be listed completely, the state of the
//! expected sockets below it is unknown: they stay expected.

use std::path::Path;
use std::sync::Arc;
use std::vec::Drain;

/// The expected sockets that have been neither found nor lost yet.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Sorted as `Path` is, so that all paths below one directory are adjacent.
    paths: Vec<Arc<Path>>,
}

impl Expected {
    /// Adds expected sockets.
    pub(super) fn extend(&mut self, sockets: Vec<Arc<Path>>) {
        self.paths.extend(sockets);
        self.paths.sort_unstable();
        self.paths.dedup();
    }

    /// Returns all expected sockets.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.paths.iter()
    }

    /// Stops expecting the socket at this path. Returns whether it was expected.
    pub(super) fn remove(&mut self, path: &Path) -> bool {
        let found = self.paths.binary_search_by(|it| (**it).cmp(path));
        found.map(|at| self.paths.remove(at)).is_ok()
    }

    /// Removes and returns the expected sockets at and below a path.
    pub(super) fn take_at_and_below(&mut self, top: &Path) -> Drain<'_, Arc<Path>> {
        let first = self.paths.partition_point(|path| **path < *top);
        let len = self.paths[first..].partition_point(|path| path.starts_with(top));
        self.paths.drain(first..first + len)
    }

    /// Returns the expected sockets below a directory, at any depth, and at the path itself.
    pub(super) fn at_and_below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = &'a Arc<Path>> {
        let first = self.paths.partition_point(|path| **path < *dir);
        let paths = self.paths[first..].iter();
        paths.take_while(move |path| path.starts_with(dir))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> Arc<Path> {
        Path::new(path).into()
    }

    #[test]
    fn sockets_below_a_directory_are_matched_by_whole_components() {
        let all = ["/p/a/x", "/p/a.b", "/p/a/b/y", "/p/b", "/q", "/p-q"].map(path);
        let mut expected = Expected::default();
        expected.extend(all.into());
        let below = |expected: &Expected, dir: &str| {
            let below = expected.at_and_below(Path::new(dir));
            below.map(|it| it.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            below(&expected, "/p"),
            ["/p/a/b/y", "/p/a/x", "/p/a.b", "/p/b"]
        );
        assert_eq!(below(&expected, "/p/a"), ["/p/a/b/y", "/p/a/x"]);
        assert_eq!(below(&expected, "/q"), ["/q"]);
        assert!(expected.remove(Path::new("/p/a/x")));
        assert_eq!(below(&expected, "/p/a"), ["/p/a/b/y"]);
        let taken: Vec<_> = expected.take_at_and_below(Path::new("/p/a")).collect();
        assert_eq!(taken, [path("/p/a/b/y")]);
        assert_eq!(below(&expected, "/p"), ["/p/a.b", "/p/b"]);
    }
}

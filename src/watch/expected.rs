//! Sockets that are expected because their plugins were registered before a restart.
//!
//! An expected socket that is found is an ordinary one. An expected socket is lost if a complete
//! listing of its directory does not hold it. If a directory cannot be listed, the state of the
//! sockets below it is unknown: they stay expected, and the directory is reported with their
//! number.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// The expected sockets that have been neither found nor lost yet.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Sorted as `Path` is, so that all paths below one directory are adjacent.
    pub(super) paths: BTreeSet<Arc<Path>>,
    /// The number of sockets that each directory was last reported with.
    reported: BTreeMap<Arc<Path>, usize>,
}

impl Expected {
    /// Returns the expected sockets below a directory, at any depth, and at the path itself.
    pub(super) fn below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = &'a Arc<Path>> {
        let from_there = (Bound::Included(dir), Bound::Unbounded);
        let paths = self.paths.range::<Path, _>(from_there);
        paths.take_while(move |path| path.starts_with(dir))
    }

    /// Records that `count` sockets below a directory stay expected. Returns whether this has to be
    /// reported: the number is not 0 and differs from the last report.
    pub(super) fn is_news(&mut self, dir: &Arc<Path>, count: usize) -> bool {
        let before = match count {
            0 => self.reported.remove(&**dir),
            _ => self.reported.insert(dir.clone(), count),
        };
        count > 0 && before != Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> Arc<Path> {
        Path::new(path).into()
    }

    #[test]
    fn what_is_below_a_directory_is_found_by_whole_names() {
        let all = ["/p/a/x", "/p/a.b", "/p/a/b/y", "/p/b", "/q", "/p-q"].map(path);
        let mut expected = Expected {
            paths: all.into_iter().collect(),
            ..Expected::default()
        };
        let below = |expected: &Expected, dir: &str| {
            let below = expected.below(Path::new(dir));
            below.map(|it| it.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            below(&expected, "/p"),
            ["/p/a/b/y", "/p/a/x", "/p/a.b", "/p/b"]
        );
        assert_eq!(below(&expected, "/p/a"), ["/p/a/b/y", "/p/a/x"]);
        assert_eq!(below(&expected, "/q"), ["/q"]);
        expected.paths.remove(Path::new("/p/a/x"));
        assert_eq!(below(&expected, "/p/a"), ["/p/a/b/y"]);
    }
}

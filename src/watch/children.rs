//! The known entries of one directory, sorted by name.
//!
//! Pure. A directory may hold ten thousand sockets, but usually holds a few that stay for days: the
//! entries are stored contiguously in sorted runs that are short enough for a cheap insertion. A
//! name is stored only as the end of its child's path.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::Identity;

/// A known entry of a directory.
#[derive(Debug)]
pub(super) enum Child {
    /// A plugin socket.
    Socket {
        /// Its path, shared with all consumers of the reports.
        path: Arc<Path>,
        identity: Identity,
        /// Whether the current listing, or the last one, holds it.
        is_listed: bool,
    },
    /// A subdirectory.
    Directory {
        /// Its path.
        path: Arc<Path>,
        /// As in [`Child::Socket`].
        is_listed: bool,
    },
}

/// All known entries of one directory, sorted by name.
#[derive(Debug)]
pub(super) struct Children {
    /// The offset of the name in each path.
    name_at: usize,
    /// The sorted runs: none is empty, and none is longer than [`MAX_RUN`].
    runs: Vec<Vec<Child>>,
}

/// The index of a run, and the index of a child in it: where a child is or would be inserted.
type ChildIndex = (usize, usize);

impl Child {
    pub(super) fn path(&self) -> &Arc<Path> {
        match self {
            Self::Socket { path, .. } | Self::Directory { path, .. } => path,
        }
    }

    /// Returns the path and the identity of a socket.
    pub(super) fn into_socket(self) -> Option<(Arc<Path>, Identity)> {
        match self {
            Self::Socket { path, identity, .. } => Some((path, identity)),
            Self::Directory { .. } => None,
        }
    }

    /// Returns whether the current listing of the directory, or the last one, holds the child.
    pub(super) fn is_listed(&self) -> bool {
        match self {
            Self::Socket { is_listed, .. } | Self::Directory { is_listed, .. } => *is_listed,
        }
    }

    pub(super) fn set_listed(&mut self, value: bool) {
        match self {
            Self::Socket { is_listed, .. } | Self::Directory { is_listed, .. } => {
                *is_listed = value;
            }
        }
    }
}

impl Children {
    /// Returns an empty collection for the children of `dir`.
    pub(super) fn of(dir: &Path) -> Self {
        Self {
            name_at: dir.join("").as_os_str().len(),
            runs: Vec::new(),
        }
    }

    pub(super) fn get(&self, name: &OsStr) -> Option<&Child> {
        let (run, place) = self.find(name).ok()?;
        self.runs[run].get(place)
    }

    pub(super) fn get_mut(&mut self, name: &OsStr) -> Option<&mut Child> {
        let (run, place) = self.find(name).ok()?;
        self.runs[run].get_mut(place)
    }

    /// Adds a child whose path is in this directory; replaces the one with the same name.
    pub(super) fn insert(&mut self, child: Child) {
        match self.find(self.name(&child)) {
            Ok((run, place)) => self.runs[run][place] = child,
            Err(place) => self.insert_at(place, child),
        }
    }

    pub(super) fn remove(&mut self, name: &OsStr) -> Option<Child> {
        let (run, place) = self.find(name).ok()?;
        let children = &mut self.runs[run];
        let child = children.remove(place);
        if children.is_empty() {
            self.runs.remove(run);
        } else if children.len() * 4 <= children.capacity() {
            children.shrink_to_fit();
        }
        Some(child)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Child> {
        self.runs.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Child> {
        self.runs.iter_mut().flatten()
    }

    /// Removes and returns all children.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Child> + use<> {
        std::mem::take(&mut self.runs).into_iter().flatten()
    }

    /// Returns the name of one of these children.
    pub(super) fn name<'a>(&self, child: &'a Child) -> &'a OsStr {
        let path = child.path().as_os_str().as_bytes();
        OsStr::from_bytes(path.get(self.name_at..).unwrap_or_default())
    }

    fn find(&self, name: &OsStr) -> Result<ChildIndex, ChildIndex> {
        let compare = |child: &Child| self.name(child).cmp(name);
        let is_before =
            |run: &Vec<Child>| run.last().is_some_and(|it| compare(it) == Ordering::Less);
        // Entries that are created together usually arrive in sorted order.
        let run = match self.runs.last() {
            Some(run) if is_before(run) => self.runs.len(),
            _ => self.runs.partition_point(is_before),
        };
        match self.runs.get(run) {
            Some(children) => match children.binary_search_by(compare) {
                Ok(place) => Ok((run, place)),
                Err(place) => Err((run, place)),
            },
            // After all others, at the end of the last run.
            None => Err((run.saturating_sub(1), self.runs.last().map_or(0, Vec::len))),
        }
    }

    fn insert_at(&mut self, (run, place): ChildIndex, child: Child) {
        match self.runs.get_mut(run) {
            Some(children) if children.len() < MAX_RUN => children.insert(place, child),
            Some(children) if place < MAX_RUN => {
                let upper = children.split_off(MAX_RUN / 2);
                self.runs.insert(run + 1, upper);
                self.insert(child);
            }
            // It sorts after all others: sorted insertions fill every run completely.
            _ => self.runs.push(vec![child]),
        }
    }
}

/// The longest run: at most this many children are moved to insert one.
const MAX_RUN: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::path::PathBuf;

    use super::*;

    fn none() -> Children {
        Children::of(Path::new("/p"))
    }

    fn directory(path: PathBuf) -> Child {
        Child::Directory {
            path: path.into(),
            is_listed: true,
        }
    }

    fn add(children: &mut Children, name: &str) {
        children.insert(directory(Path::new("/p").join(name)));
    }

    fn names(children: &Children) -> Vec<OsString> {
        let names = children.iter().map(|it| children.name(it).to_owned());
        names.collect()
    }

    fn check(children: &Children) {
        let runs = &children.runs;
        assert!(runs.iter().all(|run| (1..=MAX_RUN).contains(&run.len())));
    }

    #[test]
    fn a_name_begins_where_its_directory_ends() {
        for dir in ["/", "/p", "/p/", "/p/q", "p", "", "."] {
            let dir = Path::new(dir);
            let mut children = Children::of(dir);
            children.insert(directory(dir.join("a")));
            assert_eq!(names(&children), ["a"], "{dir:?}");
        }
    }

    #[test]
    fn children_are_in_the_order_of_their_names_whatever_the_order_they_came_in() {
        let upwards: Vec<usize> = (0..1000).collect();
        let downwards = upwards.iter().rev().copied().collect();
        let mixed = upwards.iter().map(|n| n * 617 % 1000).collect();
        for order in [upwards, downwards, mixed] {
            let mut children = none();
            let mut expected = BTreeSet::new();
            for name in order.iter().map(|n| format!("{n:04}")) {
                add(&mut children, &name);
                check(&children);
                expected.insert(OsString::from(name));
            }
            assert!(names(&children).iter().eq(&expected));
            assert!(children.runs.len() <= 2 * 1000 / MAX_RUN + 1);
            for n in order.iter().filter(|&n| n % 3 != 0) {
                let name = OsString::from(format!("{n:04}"));
                assert!(children.get(&name).is_some());
                assert!(children.remove(&name).is_some());
                assert!(children.remove(&name).is_none());
                check(&children);
                expected.remove(&name);
            }
            assert!(names(&children).iter().eq(&expected));
            assert_eq!(children.take().count(), expected.len());
            assert_eq!(names(&children), [""; 0]);
        }
    }

    #[test]
    fn a_name_has_one_child() {
        let mut children = none();
        add(&mut children, "a");
        let identity = Identity {
            device: 1,
            inode: 2,
            btime: (0, 0),
        };
        let path = Path::new("/p/a").into();
        let is_listed = true;
        children.insert(Child::Socket {
            path,
            identity,
            is_listed,
        });
        assert!(matches!(
            children.get_mut(OsStr::new("a")),
            Some(Child::Socket { .. })
        ));
        assert_eq!(names(&children), ["a"]);
    }

    #[test]
    fn those_that_come_in_order_leave_no_room_between_them() {
        let mut children = none();
        for n in 0..10 * MAX_RUN {
            add(&mut children, &format!("{n:04}"));
        }
        assert_eq!(children.runs.len(), 10);
    }
}

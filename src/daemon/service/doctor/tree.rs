//! The sockets in a directory that the daemon would find there.
//!
//! Shell. Lists directories once, and watches nothing.

use std::path::{Path, PathBuf};

use crate::config::MAX_TREE_DEPTH;
use crate::daemon::fs::mounts::Mounts;
use crate::daemon::fs::scan;
use crate::watch::{EntryKind, Place, Problem, is_hidden};

/// The sockets in a directory and below it.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// The sockets, and the symbolic links to sockets, sorted.
    pub(super) paths: Vec<PathBuf>,
    /// The directories that could not be read, with the problem, or that were not read to the end
    /// (`None`).
    pub(super) unread: Vec<(PathBuf, Option<Problem>)>,
    /// The number of directories, including those that could not be read.
    pub(super) directories: usize,
}

/// Returns the sockets that the daemon would find in a directory that exists. Reads at most as many
/// names as `names` allows, and does not enter file systems that may not answer.
pub(super) fn sockets_below(dir: &Path, mounts: &Mounts, names: &mut usize) -> Sockets {
    let mut sockets = Sockets::default();
    sockets.add_from(dir, 0, mounts, names);
    sockets.paths.sort_unstable();
    sockets
}

impl Sockets {
    fn add_from(&mut self, dir: &Path, depth: usize, mounts: &Mounts, names: &mut usize) {
        self.directories += 1;
        if *names == 0 {
            return self.unread.push((dir.to_owned(), None));
        }
        let place = if depth == 0 {
            Place::Root
        } else {
            Place::Below
        };
        let held = scan::prepare(dir, place, mounts);
        let listing = match held.and_then(|held| scan::list(dir, held.as_ref(), mounts, names)) {
            Ok(listing) => listing,
            Err(problem) => return self.unread.push((dir.to_owned(), Some(problem))),
        };
        if listing.is_cut {
            self.unread.push((dir.to_owned(), None));
        }
        for entry in listing.entries {
            let path = dir.join(&entry.name);
            match entry.kind {
                _ if is_hidden(&entry.name) => {}
                // The probe reports why it cannot be examined.
                EntryKind::Socket(_) | EntryKind::Link(_) | EntryKind::Unknown => {
                    self.paths.push(path);
                }
                EntryKind::Directory if depth < MAX_TREE_DEPTH => {
                    self.add_from(&path, depth + 1, mounts, names);
                }
                EntryKind::Directory | EntryKind::Other => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_tree_is_read_until_the_budget_of_names_is_used_up() {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["a", "b"] {
            fs::create_dir(dir.path().join(sub)).unwrap();
            for n in 0..128 {
                fs::write(dir.path().join(sub).join(n.to_string()), "").unwrap();
            }
        }
        let _listener = UnixListener::bind(dir.path().join("reg.sock")).unwrap();
        let read = |mut names: usize| {
            let found = sockets_below(dir.path(), &Mounts::default(), &mut names);
            assert_eq!((found.directories, found.paths.len()), (3, 1));
            (found.unread.len(), names)
        };
        let all = 3 + 256;
        assert_eq!(read(all + 1), (0, 1));
        assert_eq!(read(3 + 192).0, 1);
        assert_eq!(read(3), (2, 0));
    }
}

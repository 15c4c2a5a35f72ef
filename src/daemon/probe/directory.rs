//! The sockets in a directory that the daemon would find there.
//!
//! Shell. Lists directories once, and watches nothing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::config::MAX_TREE_DEPTH;
use crate::daemon::mounts::Mounts;
use crate::daemon::scan;
use crate::watch::{EntryKind, Problem, Rest, is_hidden};

/// The sockets in a directory and below it.
#[derive(Debug, Default)]
pub struct Sockets {
    /// The sockets, and the symbolic links to sockets, sorted.
    pub paths: Vec<PathBuf>,
    /// The directories that could not be read, with the problem, or that were not read to the end
    /// (`None`).
    pub unread: Vec<(PathBuf, Option<Problem>)>,
}

/// Returns the sockets that the daemon would find in `dir`, or `None` if `dir` is not a directory.
pub fn sockets_in(dir: &Path) -> Option<Sockets> {
    if !fs::metadata(dir).is_ok_and(|found| found.is_dir()) {
        return None;
    }
    let mut sockets = Sockets::default();
    sockets.add_from(dir, 0);
    sockets.paths.sort();
    Some(sockets)
}

impl Sockets {
    fn add_from(&mut self, dir: &Path, depth: usize) {
        let listing = match scan::list(dir, &Mounts::default()) {
            Ok(listing) => listing,
            Err(problem) => return self.unread.push((dir.to_owned(), Some(problem))),
        };
        if listing.rest != Rest::None {
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
                EntryKind::Directory if depth < MAX_TREE_DEPTH => self.add_from(&path, depth + 1),
                EntryKind::Directory | EntryKind::Other => {}
            }
        }
    }
}

//! The known sockets by identity, their limits, and the further paths that lead to them.
//!
//! Pure. One socket is one plugin and has one path, the first that was seen. Another path to it (a
//! hard link, or a symbolic link) is remembered only to be examined when the first one goes.
//!
//! The limits keep a plugin that can create sockets from using up all of the room: a directory
//! right below a root, with everything below it, has a limit of its own, and so have the sockets in
//! the root itself. What exceeds a limit is ignored; known sockets stay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::{Identity, Problem};
use crate::config;

/// The known sockets.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    known: BTreeMap<Identity, Known>,
    /// Further paths to these sockets: at most [`config::MAX_SOCKETS`]. A path that is not
    /// remembered is found by the next resync.
    second_paths: BTreeSet<(Identity, Arc<Path>)>,
    /// The number of sockets in each part of the tree, by the topmost directory of the part.
    parts: BTreeMap<Arc<Path>, usize>,
}

/// A known socket.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) path: Arc<Path>,
    pub(super) is_link: bool,
}

impl Sockets {
    /// Returns the path under which a socket is known.
    pub(super) fn get(&self, identity: Identity) -> Option<&Known> {
        self.known.get(&identity)
    }

    /// Adds a socket that is not known to the part below `top`, which may be a root, if there is
    /// room.
    pub(super) fn add(
        &mut self,
        top: &Arc<Path>,
        is_root: bool,
        identity: Identity,
        known: Known,
    ) -> Result<(), Problem> {
        let most = if is_root { MOST_IN_ROOT } else { MOST_BELOW };
        if self.parts.get(top).is_some_and(|count| *count >= most) {
            return Err(Problem::TooManySocketsBelow(most));
        }
        if self.known.len() >= config::MAX_SOCKETS {
            return Err(Problem::TooManySockets);
        }
        *self.parts.entry(Arc::clone(top)).or_default() += 1;
        self.known.insert(identity, known);
        Ok(())
    }

    /// Removes a socket from the part below `top`. Returns its further paths.
    pub(super) fn remove(&mut self, top: &Path, identity: Identity) -> Vec<Arc<Path>> {
        if let Some(count) = self.parts.get_mut(top) {
            *count -= 1;
            if *count == 0 {
                self.parts.remove(top);
            }
        }
        self.known.remove(&identity);
        self.take_second_paths(identity)
    }

    /// Replaces a socket with one that is not known, at the same path. Returns the further paths of
    /// the first one.
    pub(super) fn renew(
        &mut self,
        before: Identity,
        identity: Identity,
        known: Known,
    ) -> Vec<Arc<Path>> {
        self.known.remove(&before);
        self.known.insert(identity, known);
        self.take_second_paths(before)
    }

    /// Remembers another path to a known socket. Returns whether it was not remembered before.
    pub(super) fn add_second_path(&mut self, identity: Identity, path: &Arc<Path>) -> bool {
        self.second_paths.len() < config::MAX_SOCKETS
            && self.second_paths.insert((identity, Arc::clone(path)))
    }

    fn take_second_paths(&mut self, identity: Identity) -> Vec<Arc<Path>> {
        let mut taken = Vec::new();
        let first: (Identity, Arc<Path>) = (identity, Path::new("").into());
        while let Some(next) = self.second_paths.range(first.clone()..).next().cloned() {
            if next.0 != identity {
                break;
            }
            self.second_paths.remove(&next);
            taken.push(next.1);
        }
        taken
    }

    /// Returns the number of sockets.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        assert_eq!(self.parts.values().sum::<usize>(), self.known.len());
        self.known.len()
    }
}

/// The most sockets below one directory that is right below a root.
const MOST_BELOW: usize = config::MAX_SOCKETS / 4;

/// The most sockets in a root itself, where most plugins have theirs: the rest is for the sockets
/// below it.
const MOST_IN_ROOT: usize = config::MAX_SOCKETS - MOST_BELOW;

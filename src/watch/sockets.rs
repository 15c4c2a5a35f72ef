//! Counts and limits of the known sockets, and the choice of the sockets that make room for others.
//!
//! Pure. The limits keep a plugin that can create sockets from using up all of the room:
//! - A socket counts once, however many links lead to it; [`config::MAX_LINKS`] in each part are
//!   followed.
//! - A directory right below a root, with everything below it, has a limit of its own, and so have
//!   the sockets in the root itself.
//! - If a limit is reached, a socket on which nothing listens makes room for a new one: the socket
//!   that was refused first. It is added again if there is room, but does not replace another
//!   socket until all have had their turn: the order of a directory's listing does not change, and
//!   otherwise the sockets listed first would replace each other forever.

use std::path::Path;
use std::sync::Arc;

use super::{Identity, Problem};
use crate::by_path::{ByPath, Octets, octets};
use crate::config;
use crate::sorted_map::SortedMap;

/// The counts of all known sockets.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// The number of paths that lead to each socket.
    links: SortedMap<Identity, usize>,
    /// The paths that are symbolic links.
    symbolic: ByPath<()>,
    /// The number of paths in total.
    paths: usize,
    /// The parts of the tree that hold sockets, by their topmost directory.
    parts: SortedMap<Arc<Path>, Part>,
    /// The sockets on which nothing listens, by turn number: the one refused first has the lowest.
    refused: SortedMap<u64, Arc<Path>>,
    /// The turn number of each of those sockets.
    turns: ByPath<u64>,
    next_turn: u64,
    /// The sockets that have made room for others.
    yielded: SortedMap<Identity, ()>,
    /// Whether any other socket has found no room since the last [`Sockets::forget_yielded`].
    is_any_waiting: bool,
}

/// The counts of one part of the tree.
#[derive(Debug, Default)]
struct Part {
    paths: usize,
    /// The number of further paths in it to each socket that was known already.
    links: SortedMap<Identity, usize>,
    /// The turn numbers of its sockets on which nothing listens.
    refused: SortedMap<u64, ()>,
}

impl Sockets {
    /// Counts a socket in the part below `top`, which may be a root, if there is room. Returns
    /// whether other paths lead to the socket.
    pub(super) fn add(
        &mut self,
        top: &Arc<Path>,
        is_root: bool,
        path: &Arc<Path>,
        identity: Identity,
        is_link: bool,
    ) -> Result<bool, Problem> {
        let links = self.links.get(&identity).copied().unwrap_or(0);
        let most = if is_root { MOST_IN_ROOT } else { MOST_BELOW };
        let most_links = if is_link {
            config::MAX_LINKS / 2 // Any user can create links: leave room for the socket itself.
        } else {
            config::MAX_LINKS
        };
        let known_part = self.parts.get_mut(top);
        if let Some(part) = &known_part {
            let links_here = part.links.get(&identity).map_or(1, |more| more + 1);
            if links > 0 && links_here >= most_links {
                return Err(Problem::TooManyLinks);
            }
            if part.paths >= most {
                return Err(Problem::TooManySocketsBelow(most));
            }
        }
        let is_full = links == 0 && self.links.len() >= config::MAX_SOCKETS;
        if is_full || self.paths >= MOST_PATHS {
            return Err(Problem::TooManySockets);
        }
        *self.links.get_or_insert(identity, 0) += 1;
        let part = match known_part {
            Some(part) => part,
            None => self.parts.get_or_insert(Arc::clone(top), Part::default()),
        };
        part.paths += 1;
        if links > 0 {
            *part.links.get_or_insert(identity, 0) += 1;
        }
        self.paths += 1;
        if is_link {
            self.symbolic.insert(Octets(Arc::clone(path)), ());
        }
        Ok(links > 0)
    }

    /// Removes a path from the counts.
    pub(super) fn remove(&mut self, top: &Path, path: &Path, identity: Identity) {
        self.set_answering(top, path);
        unlink(&mut self.links, identity);
        self.paths -= 1;
        self.symbolic.remove(octets(path));
        if let Some(part) = self.parts.get_mut(top) {
            part.paths -= 1;
            unlink(&mut part.links, identity);
            if part.paths == 0 {
                self.parts.remove(top);
            }
        }
    }

    /// Moves a path from one part to another. A limit of the other part does not matter.
    pub(super) fn relocate(
        &mut self,
        from: &Path,
        to: &Arc<Path>,
        path: &Path,
        identity: Identity,
    ) {
        let turn = self.turns.get(octets(path)).copied();
        let mut is_further = false;
        if let Some(part) = self.parts.get_mut(from) {
            part.paths -= 1;
            is_further = part.links.contains_key(&identity);
            unlink(&mut part.links, identity);
            if let Some(turn) = &turn {
                part.refused.remove(turn);
            }
            if part.paths == 0 {
                self.parts.remove(from);
            }
        }
        let part = self.parts.get_or_insert(Arc::clone(to), Part::default());
        part.paths += 1;
        if is_further {
            *part.links.get_or_insert(identity, 0) += 1;
        }
        if let Some(turn) = turn {
            part.refused.insert(turn, ());
        }
    }

    /// Returns whether any path is a symbolic link.
    pub(super) fn is_any_symbolic(&self) -> bool {
        !self.symbolic.is_empty()
    }

    /// Returns at most `most` symbolic links in the order of their octets: the first ones, or those
    /// after this path.
    pub(super) fn symbolic_after(&self, path: Option<&Path>, most: usize) -> Vec<Arc<Path>> {
        let links = self
            .symbolic
            .iter_from(path.map(octets).unwrap_or_default())
            .map(|(link, ())| &link.0);
        let links = links.skip_while(|link| Some(link.as_os_str()) == path.map(Path::as_os_str));
        links.take(most).cloned().collect()
    }

    /// Returns whether there is a socket on which nothing listens.
    pub(super) fn is_any_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Records that nothing listens on a socket. An earlier record keeps its turn number.
    pub(super) fn set_refused(&mut self, top: &Path, path: &Arc<Path>) {
        if self.turns.contains_key(octets(path)) {
            return;
        }
        if let Some(part) = self.parts.get_mut(top) {
            let turn = self.next_turn;
            self.next_turn += 1;
            part.refused.insert(turn, ());
            self.turns.insert(Octets(Arc::clone(path)), turn);
            self.refused.insert(turn, Arc::clone(path));
        }
    }

    /// Records that something listens on a socket, or that another socket is at its path.
    pub(super) fn set_answering(&mut self, top: &Path, path: &Path) {
        if let Some(turn) = self.turns.remove(octets(path)) {
            self.refused.remove(&turn);
            if let Some(part) = self.parts.get_mut(top) {
                part.refused.remove(&turn);
            }
        }
    }

    /// Records that a socket made room for another one.
    pub(super) fn set_yielded(&mut self, identity: Identity) {
        if self.yielded.len() >= config::MAX_SOCKETS {
            self.yielded.clear();
        }
        self.yielded.insert(identity, ());
    }

    /// Allows the sockets that made room to replace others again, unless since the last call a
    /// socket that may replace others has found no room.
    pub(super) fn forget_yielded(&mut self) {
        if !std::mem::take(&mut self.is_any_waiting) {
            self.yielded.clear();
        }
    }

    /// Returns the socket that makes room for `identity` in the part below `top` after this
    /// problem.
    pub(super) fn victim(
        &mut self,
        top: &Path,
        identity: Identity,
        problem: &Problem,
    ) -> Option<Arc<Path>> {
        if self.yielded.contains_key(&identity) {
            return None;
        }
        let part = self.parts.get(top);
        let part = part.and_then(|part| part.refused.keys().next());
        let turn = match problem {
            Problem::TooManySocketsBelow(_) => part,
            Problem::TooManySockets => part.or_else(|| self.refused.keys().next()),
            _ => return None,
        };
        let victim = turn.and_then(|turn| self.refused.get(turn)).cloned();
        self.is_any_waiting |= victim.is_none();
        victim
    }

    /// Returns the number of paths, and how many of them are refused.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let in_parts: usize = self.parts.values().map(|part| part.paths).sum();
        let refused: usize = self.parts.values().map(|part| part.refused.len()).sum();
        assert_eq!(self.links.values().sum::<usize>(), self.paths);
        assert_eq!(in_parts, self.paths);
        assert_eq!(
            (refused, self.turns.len()),
            (self.refused.len(), self.refused.len())
        );
        (self.paths, refused)
    }

    /// Returns the number of paths that lead to a socket.
    #[cfg(test)]
    pub(super) fn links(&self, identity: Identity) -> usize {
        self.links.get(&identity).copied().unwrap_or(0)
    }
}

/// Removes one link to a socket from the counts.
fn unlink(links: &mut SortedMap<Identity, usize>, identity: Identity) {
    if let Some(count) = links.get_mut(&identity) {
        *count -= 1;
        if *count == 0 {
            links.remove(&identity);
        }
    }
}

/// The most sockets below one directory that is right below a root.
const MOST_BELOW: usize = config::MAX_SOCKETS / 4;

/// The most sockets in a root itself, where most plugins have theirs: the rest is for the sockets
/// below it.
const MOST_IN_ROOT: usize = config::MAX_SOCKETS - MOST_BELOW;

/// The most paths in total: further links to known sockets do not count as sockets, but cost as
/// much.
const MOST_PATHS: usize = config::MAX_SOCKETS + MOST_BELOW;

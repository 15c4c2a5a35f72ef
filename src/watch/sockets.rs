//! How many sockets are known, and which of them make room for others.
//!
//! Pure. The limits keep a plugin that can make sockets from taking all places:
//! - A socket counts once, however many links lead to it; [`config::MAX_LINKS`] in each part are
//!   followed.
//! - A directory right below a root, with all that is below it, has a part of the places, and so
//!   have the sockets in the root itself.
//! - A socket on which nothing listens gives its place to one that comes when all are taken: the
//!   one that was refused first. That one comes back if there is room, but takes no other socket's
//!   place until all had their turn: the order in which a directory is listed does not change, and
//!   those listed first would change places for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::{Identity, Problem};
use crate::config;

/// The books on all known sockets.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// How many paths lead to each socket.
    links: BTreeMap<Identity, usize>,
    /// How many paths there are in all.
    paths: usize,
    /// The parts that have any sockets, by the directory on top.
    parts: BTreeMap<Arc<Path>, Part>,
    /// The sockets on which nothing listens, by their turn: the longest first.
    refused: BTreeMap<u64, Arc<Path>>,
    /// The turn of each.
    turns: BTreeMap<Arc<Path>, u64>,
    next_turn: u64,
    /// The sockets that have made room.
    yielded: BTreeSet<Identity>,
    /// Whether any other socket has found no room since these were last forgotten.
    is_any_waiting: bool,
}

/// What is known of a part of the tree.
#[derive(Debug, Default)]
struct Part {
    paths: usize,
    /// How many paths in it lead to a socket that was known already.
    links: BTreeMap<Identity, usize>,
    /// The turns of the sockets in it on which nothing listens.
    refused: BTreeSet<u64>,
}

impl Sockets {
    /// Counts a socket in the part below `top`, which may be a root, if there is room. Returns
    /// whether other paths lead to it.
    pub(super) fn add(
        &mut self,
        top: &Arc<Path>,
        is_root: bool,
        identity: Identity,
        is_link: bool,
    ) -> Result<bool, Problem> {
        let links = self.links.get(&identity).copied().unwrap_or(0);
        let most = if is_root { MOST_IN_ROOT } else { MOST_BELOW };
        let most_links = if is_link {
            config::MAX_LINKS / 2 // Any user can make them: they leave room for the socket itself.
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
        *self.links.entry(identity).or_default() += 1;
        let part = match known_part {
            Some(part) => part,
            None => self.parts.entry(Arc::clone(top)).or_default(),
        };
        part.paths += 1;
        if links > 0 {
            *part.links.entry(identity).or_default() += 1;
        }
        self.paths += 1;
        Ok(links > 0)
    }

    /// Counts a path no longer.
    pub(super) fn remove(&mut self, top: &Path, path: &Path, identity: Identity) {
        self.set_answering(top, path);
        unlink(&mut self.links, identity);
        self.paths -= 1;
        if let Some(part) = self.parts.get_mut(top) {
            part.paths -= 1;
            unlink(&mut part.links, identity);
            if part.paths == 0 {
                self.parts.remove(top);
            }
        }
    }

    /// Returns whether there is a socket on which nothing listens.
    pub(super) fn is_any_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Notes that nothing listens on a socket, from now on unless it was so before.
    pub(super) fn set_refused(&mut self, top: &Path, path: &Arc<Path>) {
        if self.turns.contains_key(path) {
            return;
        }
        if let Some(part) = self.parts.get_mut(top) {
            let turn = self.next_turn;
            self.next_turn += 1;
            part.refused.insert(turn);
            self.turns.insert(Arc::clone(path), turn);
            self.refused.insert(turn, Arc::clone(path));
        }
    }

    /// Notes that something listens on a socket, or that it is another one.
    pub(super) fn set_answering(&mut self, top: &Path, path: &Path) {
        if let Some(turn) = self.turns.remove(path) {
            self.refused.remove(&turn);
            if let Some(part) = self.parts.get_mut(top) {
                part.refused.remove(&turn);
            }
        }
    }

    /// Notes that a socket made room for another one.
    pub(super) fn set_yielded(&mut self, identity: Identity) {
        if self.yielded.len() >= config::MAX_SOCKETS {
            self.yielded.clear();
        }
        self.yielded.insert(identity);
    }

    /// Has the sockets that made room take the places of others again, unless one that has not had
    /// its turn has found no room since the last call.
    pub(super) fn forget_yielded(&mut self) {
        if !std::mem::take(&mut self.is_any_waiting) {
            self.yielded.clear();
        }
    }

    /// Returns the socket that makes room for `identity` in the part below `top`.
    pub(super) fn victim(
        &mut self,
        top: &Path,
        identity: Identity,
        problem: &Problem,
    ) -> Option<Arc<Path>> {
        if self.yielded.contains(&identity) {
            return None;
        }
        let part = self.parts.get(top).and_then(|part| part.refused.first());
        let turn = match problem {
            Problem::TooManySocketsBelow(_) => part,
            Problem::TooManySockets => part.or_else(|| self.refused.keys().next()),
            _ => return None,
        };
        let victim = turn.and_then(|turn| self.refused.get(turn)).cloned();
        self.is_any_waiting |= victim.is_none();
        victim
    }

    /// Returns how many paths there are, and how many of them are refused.
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

    /// Returns how many paths lead to a socket.
    #[cfg(test)]
    pub(super) fn links(&self, identity: Identity) -> usize {
        self.links.get(&identity).copied().unwrap_or(0)
    }
}

/// Counts one link to a socket less.
fn unlink(links: &mut BTreeMap<Identity, usize>, identity: Identity) {
    if let Some(count) = links.get_mut(&identity) {
        *count -= 1;
        if *count == 0 {
            links.remove(&identity);
        }
    }
}

/// How many sockets there may be below one directory that is right below a root.
const MOST_BELOW: usize = config::MAX_SOCKETS / 4;

/// How many sockets there may be in a root itself, where most plugins have theirs: the rest is for
/// those below it.
const MOST_IN_ROOT: usize = config::MAX_SOCKETS - MOST_BELOW;

/// How many paths there may be in all: further links to known sockets do not count as sockets, but
/// cost as much.
const MOST_PATHS: usize = config::MAX_SOCKETS + MOST_BELOW;

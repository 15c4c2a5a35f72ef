//! A directory tree in memory, and an inotify instance that watches it: with a short queue, and
//! watches that may be used up.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plugind::watch::{Cause, Entry, EntryKind, Event, Identity, Listing, Place, Problem, WatchId};

/// The tree, the watches and the queue.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
    /// The directory of each watch.
    watches: BTreeMap<WatchId, u64>,
    queue: VecDeque<Event>,
    last_directory: u64,
    last_watch: i32,
    /// Whether new watches fail, because all are used up.
    pub(crate) is_used_up: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory(u64),
    Socket(Identity),
}

impl Node {
    fn kind(&self) -> EntryKind {
        match self {
            Self::Directory(_) => EntryKind::Directory,
            Self::Socket(identity) => EntryKind::Socket(*identity),
        }
    }
}

/// The capacity of the event queue (the kernel's default: 16,384).
const QUEUE: usize = 12;

impl Tree {
    /// Creates a tree of one empty directory.
    pub(crate) fn new(root: &str) -> Self {
        let mut tree = Self::default();
        tree.make_directory(Path::new(root));
        tree
    }

    /// Returns whether the path is a directory.
    pub(crate) fn is_directory(&self, path: &Path) -> bool {
        matches!(self.nodes.get(path), Some(Node::Directory(_)))
    }

    /// Returns whether the path exists.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.nodes.contains_key(path)
    }

    /// Returns the socket at the path, if it is one.
    pub(crate) fn socket(&self, path: &Path) -> Option<Identity> {
        match self.nodes.get(path)? {
            Node::Socket(identity) => Some(*identity),
            Node::Directory(_) => None,
        }
    }

    /// Returns all sockets, by path.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (&Path, Identity)> {
        self.nodes.iter().filter_map(|(path, node)| match node {
            Node::Socket(identity) => Some((path.as_path(), *identity)),
            Node::Directory(_) => None,
        })
    }

    /// Creates a directory.
    pub(crate) fn make_directory(&mut self, path: &Path) {
        self.last_directory += 1;
        let node = Node::Directory(self.last_directory);
        self.nodes.insert(path.to_owned(), node);
        self.tell_of(path, true);
    }

    /// Puts a socket at the path, in place of what is there.
    pub(crate) fn put_socket(&mut self, path: &Path, identity: Identity) {
        self.nodes.insert(path.to_owned(), Node::Socket(identity));
        self.tell_of(path, false);
    }

    /// Removes what is at the path, from the bottom up.
    pub(crate) fn remove(&mut self, path: &Path) {
        let below: Vec<_> = self.below(path);
        for path in below.into_iter().rev() {
            let removed = self.nodes.remove(&path);
            if let Some(Node::Directory(id)) = removed {
                for watch in self.watches_of(id) {
                    self.watches.remove(&watch);
                    self.push(Event::Unwatched { watch });
                }
            }
            self.tell_of_loss(&path);
        }
    }

    /// Moves what is at `from` to `to`, which does not exist, or out of the tree.
    pub(crate) fn rename(&mut self, from: &Path, to: Option<&Path>) {
        self.relocate(&[(from, to)]);
    }

    /// Exchanges what is at the two paths, neither of which is above the other.
    pub(crate) fn exchange(&mut self, a: &Path, b: &Path) {
        self.relocate(&[(a, Some(b)), (b, Some(a))]);
    }

    /// Moves what is at each first path to the second one, or out of the tree, at once.
    fn relocate(&mut self, moves: &[(&Path, Option<&Path>)]) {
        let taken: Vec<_> = moves.iter().map(|(from, _)| self.take(from)).collect();
        for ((_, to), taken) in moves.iter().zip(&taken) {
            if let Some(to) = to {
                self.put(to, taken);
            }
        }
        for ((from, to), taken) in moves.iter().zip(taken) {
            let id = taken.iter().find_map(|(rest, node)| match node {
                Node::Directory(id) if rest.as_os_str().is_empty() => Some(*id),
                _ => None,
            });
            self.tell_of_loss(from);
            if let Some(to) = to {
                self.tell_of(to, id.is_some());
            }
            for watch in id.map(|id| self.watches_of(id)).unwrap_or_default() {
                self.push(Event::Moved { watch });
            }
        }
    }

    /// Takes what is at a path and below it, by the rest of the path.
    fn take(&mut self, top: &Path) -> Vec<(PathBuf, Node)> {
        let below = self.below(top).into_iter();
        let taken = below.filter_map(|path| {
            let rest = path.strip_prefix(top).expect("it is below").to_owned();
            self.nodes.remove(&path).map(|node| (rest, node))
        });
        taken.collect()
    }

    fn put(&mut self, top: &Path, taken: &[(PathBuf, Node)]) {
        for (rest, node) in taken {
            let path = top.iter().chain(rest).collect();
            self.nodes.insert(path, node.clone());
        }
    }

    /// Returns the next queued event.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    /// Watches a directory and lists it.
    pub(crate) fn scan(
        &mut self,
        dir: &Path,
        place: Place,
    ) -> (Result<WatchId, Problem>, Result<Listing, Problem>) {
        if place == Place::MissingRoot && !self.exists(dir) {
            self.make_directory(dir);
        }
        let id = match self.nodes.get(dir) {
            Some(Node::Directory(id)) => *id,
            Some(Node::Socket(_)) => {
                return (Err(Problem::NotADirectory), Err(Problem::NotADirectory));
            }
            None => return (Err(Problem::Missing), Err(Problem::Missing)),
        };
        (self.add_watch(id), Ok(self.list(dir)))
    }

    /// Lists a directory.
    fn list(&self, dir: &Path) -> Listing {
        let nodes = self.nodes.iter();
        let nodes = nodes.filter(|(path, _)| path.parent() == Some(dir));
        let entries = nodes.map(|(path, node)| Entry {
            name: path.file_name().expect("a child has a name").to_owned(),
            kind: node.kind(),
        });
        Listing {
            entries: entries.collect(),
            is_cut: false,
            unreported: None,
        }
    }

    /// Returns what is at the path.
    pub(crate) fn examine(&self, path: &Path) -> EntryKind {
        self.nodes.get(path).map_or(EntryKind::Other, Node::kind)
    }

    /// Drops all watches, and their events, because the daemon ends.
    pub(crate) fn forget_watches(&mut self) {
        self.watches.clear();
        self.queue.clear();
    }

    /// Removes a watch.
    pub(crate) fn unwatch(&mut self, watch: WatchId) {
        if self.watches.remove(&watch).is_some() {
            self.push(Event::Unwatched { watch });
        }
    }

    fn add_watch(&mut self, id: u64) -> Result<WatchId, Problem> {
        if let Some(watch) = self.watches_of(id).first() {
            return Ok(*watch);
        }
        if self.is_used_up {
            return Err(Problem::NotWatched(Cause::WatchesUsedUp));
        }
        self.last_watch += 1;
        let watch = WatchId(self.last_watch);
        self.watches.insert(watch, id);
        Ok(watch)
    }

    fn watches_of(&self, id: u64) -> Vec<WatchId> {
        let of_it = self.watches.iter().filter(|(_, of)| **of == id);
        of_it.map(|(watch, _)| *watch).collect()
    }

    /// Returns the path and everything below it, parents first.
    fn below(&self, path: &Path) -> Vec<PathBuf> {
        let all = self.nodes.keys().filter(|other| other.starts_with(path));
        all.cloned().collect()
    }

    fn tell_of(&mut self, path: &Path, is_directory: bool) {
        self.tell(path, |watch, name| Event::Appeared {
            watch,
            name,
            is_directory,
        });
    }

    fn tell_of_loss(&mut self, path: &Path) {
        self.tell(path, |watch, name| Event::Vanished { watch, name });
    }

    fn tell(&mut self, path: &Path, event: impl Fn(WatchId, OsString) -> Event) {
        for watch in self.watches_of_parent(path) {
            let name = path.file_name().expect("a child has a name").to_owned();
            self.push(event(watch, name));
        }
    }

    fn watches_of_parent(&self, path: &Path) -> Vec<WatchId> {
        match path.parent().and_then(|parent| self.nodes.get(parent)) {
            Some(Node::Directory(id)) => self.watches_of(*id),
            _ => Vec::new(),
        }
    }

    /// Queues an event, or one overflow event if the queue is full: what follows is lost then
    /// (inotify(7), IN_Q_OVERFLOW).
    fn push(&mut self, event: Event) {
        if self.queue.len() < QUEUE {
            self.queue.push_back(event);
        } else if self.queue.back() != Some(&Event::Overflowed) {
            self.queue.push_back(Event::Overflowed);
        }
    }
}

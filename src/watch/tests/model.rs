//! A model of a directory that changes while it is watched.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

/// The directory `/p` in the kernel, whose events may be reported long after the changes.
struct World {
    entries: BTreeMap<&'static str, EntryKind>,
    /// The watches of the directories in `/p`, by inode number.
    watches: BTreeMap<u64, i32>,
    /// The inode numbers of the directories in `/p`.
    directories: BTreeMap<&'static str, u64>,
    events: VecDeque<Event>,
    last_inode: u64,
    last_watch: i32,
    random: u64,
    /// The sockets that were found and not lost.
    found: BTreeMap<String, u64>,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl World {
    fn new(seed: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            watches: BTreeMap::new(),
            directories: BTreeMap::new(),
            events: VecDeque::new(),
            last_inode: 0,
            last_watch: 1,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            found: BTreeMap::new(),
        }
    }

    /// Returns a number below `count` (xorshift64).
    fn pick(&mut self, count: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % count
    }

    fn pick_name(&mut self) -> &'static str {
        NAMES[usize::try_from(self.pick(5)).unwrap()]
    }

    fn queue_vanished(&mut self, name: &str) {
        self.events.push_back(Event::Vanished {
            watch: WatchId(1),
            name: name.into(),
        });
    }

    fn queue_appeared(&mut self, name: &str) {
        self.events.push_back(Event::Appeared {
            watch: WatchId(1),
            name: name.into(),
            is_directory: self.directories.contains_key(name),
        });
    }

    fn queue_moved(&mut self, name: &str) {
        let inode = self.directories.get(name);
        if let Some(watch) = inode.and_then(|inode| self.watches.get(inode)) {
            let watch = WatchId(*watch);
            self.events.push_back(Event::Moved { watch });
        }
    }

    fn remove(&mut self, name: &str) {
        if self.entries.remove(name).is_some() {
            let inode = self.directories.remove(name);
            if let Some(watch) = inode.and_then(|inode| self.watches.remove(&inode)) {
                let watch = WatchId(watch);
                self.events.push_back(Event::Unwatched { watch });
            }
            self.queue_vanished(name);
        }
    }

    fn create(&mut self, name: &'static str, is_directory: bool) {
        self.remove(name);
        self.last_inode += 1;
        let kind = if is_directory {
            self.directories.insert(name, self.last_inode);
            EntryKind::Directory
        } else {
            socket(self.last_inode)
        };
        self.entries.insert(name, kind);
        self.queue_appeared(name);
    }

    /// Creates a hard link `to` to the socket at `from`.
    fn link(&mut self, from: &str, to: &'static str) {
        if let (Some(kind @ EntryKind::Socket(_)), false) = (
            self.entries.get(from).copied(),
            self.entries.contains_key(to),
        ) {
            self.entries.insert(to, kind);
            self.queue_appeared(to);
        }
    }

    /// Exchanges two names, either of which may be missing.
    fn exchange(&mut self, a: &'static str, b: &'static str) {
        let entries = (self.entries.remove(a), self.entries.remove(b));
        let directories = (self.directories.remove(a), self.directories.remove(b));
        self.entries.extend(entries.0.map(|it| (b, it)));
        self.entries.extend(entries.1.map(|it| (a, it)));
        self.directories.extend(directories.0.map(|it| (b, it)));
        self.directories.extend(directories.1.map(|it| (a, it)));
        for (from, to) in [(a, b), (b, a)] {
            if self.entries.contains_key(to) {
                self.queue_vanished(from);
                self.queue_appeared(to);
                self.queue_moved(to);
            }
        }
    }

    fn change_something(&mut self) {
        let (a, b) = (self.pick_name(), self.pick_name());
        match self.pick(6) {
            0 => self.remove(a),
            5 => self.link(a, b),
            1 => self.create(a, true),
            2 | 3 => self.create(a, false),
            _ if a != b => self.exchange(a, b),
            _ => {}
        }
    }

    fn scan(&mut self, t: &mut Timeline, dir: &str) {
        if dir == "/p" {
            let entries: Vec<_> = self
                .entries
                .iter()
                .map(|(name, kind)| (*name, *kind))
                .collect();
            return t.answer_scan_ok(dir, 1, &entries);
        }
        let name = dir.trim_start_matches("/p/");
        let Some(inode) = self.directories.get(name) else {
            return t.answer_scan_missing(dir);
        };
        let watch = self.watches.entry(*inode).or_insert_with(|| {
            self.last_watch += 1;
            self.last_watch
        });
        // Each directory contains a different socket.
        let (watch, inside) = (*watch, socket(1000 + inode));
        t.answer_scan_ok(dir, watch, &[("s", inside)]);
    }

    fn examine(&self, path: &str) -> EntryKind {
        let rest = path.trim_start_matches("/p/");
        match rest.split_once('/') {
            None => self.entries.get(rest).copied().unwrap_or(EntryKind::Other),
            Some((dir, _)) => match self.directories.get(dir) {
                Some(inode) => socket(1000 + inode),
                None => EntryKind::Other,
            },
        }
    }

    /// Carries out the next output of the watch. Returns `false` if there is none.
    fn carry_out_output(&mut self, t: &mut Timeline) -> bool {
        let Some(output) = t.watch.poll_output() else {
            return false;
        };
        match output {
            Output::Scan { dir, .. } => self.scan(t, dir.to_str().unwrap()),
            Output::Examine { path } => {
                let path = path.to_str().unwrap();
                t.answer_examination(path, self.examine(path));
            }
            Output::Unwatch { watch } => {
                self.watches.retain(|_, it| *it != watch.0);
                self.events.push_back(Event::Unwatched { watch });
            }
            Output::Found { path, identity, .. } => {
                let path = path.display().to_string();
                let is_other =
                    |(it, inode): (&String, &u64)| *it != path && *inode == identity.inode;
                assert!(!self.found.iter().any(is_other), "{path} is a second path");
                self.found.insert(path, identity.inode);
            }
            Output::Lost { path } => {
                self.found.remove(path.to_str().unwrap());
            }
            Output::Report(_) => {}
        }
        true
    }

    /// Returns the sockets that exist.
    fn sockets(&self) -> BTreeMap<String, u64> {
        let direct = self.entries.iter().filter_map(|(name, kind)| match kind {
            EntryKind::Socket(identity) => Some((format!("/p/{name}"), identity.inode)),
            _ => None,
        });
        let below = self.directories.iter();
        let below = below.map(|(name, inode)| (format!("/p/{name}/s"), 1000 + inode));
        direct.chain(below).collect()
    }
}

#[test]
fn all_sockets_are_known_after_any_changes() {
    for seed in 1..=1000 {
        let mut world = World::new(seed);
        for _ in 0..6 {
            world.change_something();
        }
        world.events.clear();
        let mut t = Timeline::new();
        let (mut requested, mut rescanned) = (None, None);
        for _ in 0..40 {
            rescanned = t.watch.take_rescanned().or(rescanned);
            match world.pick(4) {
                0 => world.change_something(),
                1 => {
                    if let Some(event) = world.events.pop_front() {
                        t.handle_event(event);
                    }
                }
                2 if world.pick(8) == 0 => {
                    world.events.clear();
                    match world.pick(2) {
                        0 => t.handle_event(Event::Overflowed),
                        _ => requested = Some(t.watch.request_rescan()),
                    }
                }
                _ => {
                    world.carry_out_output(&mut t);
                }
            }
            t.now += config::SCAN_PAUSES.first / 4;
            t.watch.handle_timeout(t.now);
        }
        // From now on, all events are reported, and no resync is due.
        let end = t.now + config::SYSTEM_RETRY;
        loop {
            while world.carry_out_output(&mut t) {}
            match world.events.pop_front() {
                Some(event) => t.handle_event(event),
                None if t.watch.poll_timeout() < Some(end) => t.tick(),
                None => break,
            }
        }
        let sockets = world.sockets();
        let exists = |(path, inode): (&String, &u64)| sockets.get(path) == Some(inode);
        assert!(world.found.iter().all(exists), "seed {seed}");
        let found: BTreeSet<_> = world.found.values().collect();
        assert!(found == sockets.values().collect(), "seed {seed}");
        let rescanned = t.watch.take_rescanned().or(rescanned);
        assert_eq!(rescanned.map(|it| it.number), requested, "seed {seed}");
        assert!(t.watch.is_scanned());
    }
}

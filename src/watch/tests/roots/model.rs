//! Roots that are added and removed at random, while the kernel's events arrive late.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::watch::tests::*;

/// Directories inside and beside each other, any of which may become a root.
struct World {
    /// The sockets by path, with their inode numbers.
    sockets: BTreeMap<String, u64>,
    roots: BTreeSet<&'static str>,
    /// The kernel's watches by directory.
    watches: BTreeMap<String, i32>,
    events: VecDeque<Event>,
    /// The sockets that were found and not lost.
    found: BTreeMap<String, u64>,
    /// The last number that was used, as a watch or as an inode number.
    last_number: i32,
    random: u64,
}

const DIRS: [&str; 6] = ["/p", "/p/a", "/p/a/b", "/p/a/b/c", "/p/z", "/q"];

impl World {
    /// Returns a number below `count` (xorshift64).
    fn pick(&mut self, count: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % count as u64).unwrap()
    }

    fn watch(&mut self, dir: &str) -> WatchId {
        let next = self.last_number + 1;
        let watch = *self.watches.entry(dir.to_owned()).or_insert(next);
        self.last_number = self.last_number.max(watch);
        WatchId(watch)
    }

    /// Returns the entries of a directory: at most one socket, and subdirectories.
    fn entries(&self, dir: &str) -> Listing {
        let names = DIRS
            .iter()
            .filter_map(|it| it.strip_prefix(dir)?.strip_prefix('/'));
        let names = names.filter(|name| !name.contains('/'));
        let mut entries: Vec<_> = names.map(|name| (name, EntryKind::Directory)).collect();
        let inode = self.sockets.get(&format!("{dir}/s"));
        entries.extend(inode.map(|inode| ("s", socket(*inode))));
        listing(&entries)
    }

    /// Adds or removes the socket of a directory.
    fn toggle_socket(&mut self, dir: &str) {
        let path = format!("{dir}/s");
        let is_new = self.sockets.remove(&path).is_none();
        if is_new {
            self.last_number += 1;
            let inode = u64::try_from(self.last_number).unwrap();
            self.sockets.insert(path, inode);
        }
        if let Some(watch) = self.watches.get(dir).copied().map(WatchId) {
            let name = "s".into();
            self.events.push_back(if is_new {
                Event::Appeared {
                    watch,
                    name,
                    is_directory: false,
                }
            } else {
                Event::Vanished { watch, name }
            });
        }
    }

    /// Makes a directory a root, or removes that root.
    fn toggle_root(&mut self, t: &mut Timeline, dir: &'static str) {
        if self.roots.remove(dir) {
            t.remove_root(dir);
        } else {
            let is_inside = |one: &str, other: &str| Path::new(one).starts_with(other);
            let is_nested = |root: &&str| is_inside(root, dir) || is_inside(dir, root);
            if self.roots.iter().any(is_nested) {
                return; // The daemon refuses such a root before it is scanned.
            }
            self.roots.insert(dir);
            let watch = self.watch(dir);
            let added = t.try_add_root(dir, Ok(watch), Ok(self.entries(dir)));
            assert_eq!(added, Ok(()));
        }
    }

    /// Carries out the next output of the watch. Returns `false` if there is none.
    fn carry_out_output(&mut self, t: &mut Timeline) -> bool {
        let Some(output) = t.watch.poll_output() else {
            return false;
        };
        match output {
            Output::Scan { dir, .. } => {
                let dir = dir.to_str().unwrap();
                let watch = self.watch(dir);
                t.answer_scan(dir, Ok(watch), Ok(self.entries(dir)));
            }
            Output::Examine { path } => {
                let path = path.to_str().unwrap();
                let inode = self.sockets.get(path);
                t.answer_examination(path, inode.map_or(EntryKind::Other, |inode| socket(*inode)));
            }
            Output::Unwatch { watch } => {
                self.watches.retain(|_, it| *it != watch.0);
                self.events.push_back(Event::Unwatched { watch });
            }
            Output::Found { path, identity, .. } => {
                self.found
                    .insert(path.display().to_string(), identity.inode);
            }
            Output::Lost { path } => {
                self.found.remove(path.to_str().unwrap());
            }
            Output::Report(report) => panic!("{report:?}"),
        }
        true
    }

    /// Returns the sockets below the roots.
    fn covered_sockets(&self) -> BTreeMap<String, u64> {
        let is_covered = |path: &str| {
            self.roots
                .iter()
                .any(|root| Path::new(path).starts_with(root))
        };
        let sockets = self.sockets.iter().filter(|(path, _)| is_covered(path));
        sockets
            .map(|(path, inode)| (path.clone(), *inode))
            .collect()
    }
}

#[test]
fn all_sockets_of_the_final_roots_are_known() {
    for seed in 1..=500_u64 {
        let mut world = World {
            sockets: BTreeMap::new(),
            roots: BTreeSet::new(),
            watches: BTreeMap::new(),
            events: VecDeque::new(),
            found: BTreeMap::new(),
            last_number: 0,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        };
        let mut t = Timeline::on(&[]);
        for _ in 0..60 {
            let dir = DIRS[world.pick(DIRS.len())];
            match world.pick(6) {
                0 => world.toggle_root(&mut t, dir),
                1 => world.toggle_socket(dir),
                2 => {
                    if let Some(event) = world.events.pop_front() {
                        t.handle_event(event);
                    }
                }
                _ => {
                    world.carry_out_output(&mut t);
                }
            }
            t.now += config::SCAN_PAUSES.first / 4;
            t.watch.handle_timeout(t.now);
        }
        let end = t.now + config::SYSTEM_RETRY;
        loop {
            while world.carry_out_output(&mut t) {}
            match world.events.pop_front() {
                Some(event) => t.handle_event(event),
                None if t.watch.poll_timeout().is_some_and(|at| at < end) => t.tick(),
                None => break,
            }
        }
        assert_eq!(world.found, world.covered_sockets(), "seed {seed}");
        let is_followed =
            |dir: &String| world.roots.iter().any(|it| Path::new(dir).starts_with(it));
        assert!(world.watches.keys().all(is_followed), "seed {seed}");
    }
}

//! A whole node in virtual time: a directory tree, the watch over it, the manager, and the plugins.

use std::path::Path;
use std::time::Duration;

use plugind::manager::{Input, Manager};
use plugind::watch::{self, Output, Watch};

use crate::script::Script;
use crate::tree::Tree;
use crate::world::World;

/// The tree's root, which is watched.
pub(crate) const ROOT: &str = "/r";

/// Everything there is.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) world: World,
    pub(crate) tree: Tree,
    watch: Watch,
}

impl Node {
    /// A node whose directory is empty.
    pub(crate) fn new(manager: Manager) -> Self {
        let mut node = Self {
            world: World::with(manager),
            tree: Tree::new(ROOT),
            watch: Watch::new([ROOT.into()]),
        };
        node.follow();
        node
    }

    /// A plugin binds its socket, having unlinked what was there, or moves it over what is there.
    pub(crate) fn bind(&mut self, path: &str, plugin: Option<Script>, moves_over: bool) {
        let place = Path::new(path);
        let parent = place.parent().expect("a socket is in a directory");
        if !self.tree.is_directory(parent) || self.tree.is_directory(place) {
            return;
        }
        if !moves_over {
            self.tree.remove(place);
        }
        let identity = self.world.create(path, plugin);
        self.tree.put_socket(place, identity);
    }

    /// A hard link to the socket at `from` is made at `to`, if that is possible.
    pub(crate) fn link(&mut self, from: &str, to: &str) {
        let place = Path::new(to);
        let parent = place.parent().expect("a link is in a directory");
        if !self.tree.exists(place) && self.tree.is_directory(parent) {
            if let Some(identity) = self.tree.socket(Path::new(from)) {
                self.world.link(from, to);
                self.tree.put_socket(place, identity);
            }
        }
    }

    /// Whatever is at the path is removed.
    pub(crate) fn remove(&mut self, path: &str) {
        self.tree.remove(Path::new(path));
        self.world.rename(Path::new(path), None);
    }

    /// A directory is made, unless something is there or there is nowhere to make it.
    pub(crate) fn make_directory(&mut self, path: &str) {
        let path = Path::new(path);
        let parent = path.parent().expect("a directory is in a directory");
        if !self.tree.exists(path) && (self.tree.is_directory(parent) || path == Path::new(ROOT)) {
            self.tree.make_directory(path);
        }
    }

    /// Whatever is at `from` is moved to `to`, or out of the tree, if that is possible.
    pub(crate) fn rename(&mut self, from: &str, to: Option<&str>) {
        let (from, to) = (Path::new(from), to.map(Path::new));
        let is_possible = to.is_none_or(|to| {
            let parent = to.parent().expect("it has a directory");
            !to.starts_with(from) && !self.tree.exists(to) && self.tree.is_directory(parent)
        });
        if self.tree.exists(from) && is_possible {
            self.tree.rename(from, to);
            self.world.rename(from, to);
        }
    }

    /// What is at the two paths changes places, if that is possible.
    pub(crate) fn exchange(&mut self, a: &str, b: &str) {
        let (a, b) = (Path::new(a), Path::new(b));
        let is_possible = !a.starts_with(b) && !b.starts_with(a);
        if is_possible && self.tree.exists(a) && self.tree.exists(b) {
            self.tree.exchange(a, b);
            let aside = Path::new("/aside");
            self.world.rename(a, Some(aside));
            self.world.rename(b, Some(a));
            self.world.rename(aside, Some(b));
        }
    }

    /// The watch hears of the next event. False when there was none.
    pub(crate) fn hear(&mut self) -> bool {
        let Some(event) = self.tree.next_event() else {
            return false;
        };
        let input = watch::Input::Event(event);
        self.watch.handle_input(input, self.world.now);
        self.follow();
        true
    }

    /// The watch hears of everything.
    pub(crate) fn hear_all(&mut self) {
        while self.hear() {}
    }

    /// Lets time pass, waking whoever wants to be woken.
    pub(crate) fn advance(&mut self, by: Duration) {
        let end = self.world.now + by;
        while let Some(at) = self.watch.poll_timeout().filter(|at| *at <= end) {
            let left = at.saturating_since(self.world.now);
            self.world.advance(left);
            self.watch.handle_timeout(self.world.now);
            self.follow();
            if !self.world.is_slow {
                self.hear_all();
            }
        }
        self.world.advance(end.saturating_since(self.world.now));
    }

    /// Does what the watch wants done, tells the manager what it found, and the watch what the
    /// manager doubts.
    fn follow(&mut self) {
        loop {
            self.drain_watch();
            self.world.run();
            if self.world.examined.is_empty() {
                return;
            }
            for path in std::mem::take(&mut self.world.examined) {
                let doubted = watch::Input::Doubted { path };
                self.watch.handle_input(doubted, self.world.now);
            }
        }
    }

    fn drain_watch(&mut self) {
        let now = self.world.now;
        while let Some(output) = self.watch.poll_output() {
            if self.world.is_loud {
                println!("  {output:?}");
            }
            match output {
                Output::Scan { dir, place } => {
                    let (watch, entries) = self.tree.scan(&dir, place);
                    let scanned = watch::Input::Scanned {
                        dir,
                        watch,
                        entries,
                    };
                    self.watch.handle_input(scanned, now);
                }
                Output::List { dir } => {
                    let entries = Ok(self.tree.list(&dir));
                    let listed = watch::Input::Listed { dir, entries };
                    self.watch.handle_input(listed, now);
                }
                Output::Close { dir } => self.tree.close(&dir),
                Output::Look { path } => {
                    let kind = self.tree.look(&path);
                    let looked = watch::Input::Looked { path, kind };
                    self.watch.handle_input(looked, now);
                }
                Output::Unwatch { watch } => self.tree.unwatch(watch),
                Output::Found {
                    path,
                    identity,
                    is_link,
                } => {
                    let found = Input::Found {
                        path,
                        identity,
                        is_link,
                    };
                    self.world.manager.handle_input(found, now);
                }
                Output::Alias {
                    path,
                    identity,
                    is_link,
                } => {
                    let alias = Input::Alias {
                        path,
                        identity,
                        is_link,
                    };
                    self.world.manager.handle_input(alias, now);
                }
                Output::Lost { path } => {
                    let lost = Input::Lost { path };
                    self.world.manager.handle_input(lost, now);
                }
                Output::Report(_) => {}
            }
        }
    }
}

//! A whole node in virtual time: a directory tree, the watch over it, the manager, and the plugins.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plugind::manager::{Input, Manager};
use plugind::watch::{self, EntryKind, Output, Place, Problem, Watch};

use crate::restored::Restored;
use crate::script::Script;
use crate::tree::Tree;
use crate::world::{World, awaited_sockets};

/// The tree's root, which is watched.
pub(crate) const ROOT: &str = "/r";

/// Another top of the tree, which a test may have watched, too.
pub(crate) const OTHER_ROOT: &str = "/s";

/// The node: its world, its tree and the watch between them.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) world: World,
    pub(crate) tree: Tree,
    /// The plugins that the daemon has restored.
    pub(crate) restored: Restored,
    /// Whether what the watch requests after a restart waits for [`Node::scan_next`].
    pub(crate) is_starting: bool,
    /// The directories that are watched with all that is below them.
    roots: Vec<PathBuf>,
    watch: Watch,
}

impl Node {
    /// Creates a node with an empty directory.
    pub(crate) fn new(manager: Manager) -> Self {
        let mut node = Self {
            world: World::with(manager),
            tree: Tree::new(ROOT),
            restored: Restored::default(),
            is_starting: false,
            roots: vec![ROOT.into()],
            watch: Watch::new([ROOT.into()]),
        };
        node.follow();
        node
    }

    /// Ends the daemon, which does not see any change until [`Node::start`]. That one has this
    /// manager.
    pub(crate) fn end(&mut self, manager: Manager) {
        self.tree.forget_watches();
        self.world.restart(manager);
        self.watch = Watch::new([]);
    }

    /// Starts the daemon, whose manager may have restored plugins. If `is_slow`, the first scans
    /// wait for [`Node::scan_next`].
    pub(crate) fn start(&mut self, is_slow: bool) {
        let manager = &mut self.world.manager;
        let plugins = manager.registered();
        let plugins = plugins.map(|it| (it.plugin.clone(), it.identity));
        self.restored.restart(plugins);
        self.watch = Watch::new(self.roots.iter().cloned());
        self.watch.expect(awaited_sockets(manager));
        self.restored.uncovered(|path| self.watch.covers(path));
        manager.handle_timeout(self.world.now);
        self.is_starting = is_slow;
        self.follow();
    }

    /// Carries out the next request of the watch after a restart. After the last one, the rest is
    /// carried out at once.
    pub(crate) fn scan_next(&mut self) {
        if let Some(output) = self.watch.poll_output() {
            self.carry_out(output);
        }
        self.is_starting = self.watch.backlog() > 0;
        self.follow();
    }

    /// Carries out all requests of the watch after a restart.
    pub(crate) fn finish_start(&mut self) {
        while self.is_starting {
            self.scan_next();
        }
    }

    /// Lets another process listen on the socket at the path, or none.
    pub(crate) fn listen(&mut self, path: &str, plugin: Option<Script>) {
        if let Some(identity) = self.world.identity(Path::new(path)) {
            self.world.kill(path);
            self.restored.changed(identity);
            if let Some(plugin) = plugin {
                self.world.listen(path, plugin);
            }
        }
    }

    /// Makes the plugin behind the path do everything right from now on.
    pub(crate) fn behave(&mut self, path: &str) {
        let identity = self.world.identity(Path::new(path));
        let is_changed = self.world.behave(path);
        if let Some(identity) = identity.filter(|_| is_changed) {
            self.restored.changed(identity);
        }
    }

    /// Binds a plugin's socket after unlinking what is at the path, or moves the socket over it.
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

    /// Makes a hard link at `to` to the socket at `from`, if that is possible.
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

    /// Removes what is at the path.
    pub(crate) fn remove(&mut self, path: &str) {
        self.tree.remove(Path::new(path));
        self.world.rename(Path::new(path), None);
    }

    /// Creates a directory, unless the path exists or its parent does not.
    pub(crate) fn make_directory(&mut self, path: &str) {
        let path = Path::new(path);
        let parent = path.parent().expect("a directory is in a directory");
        let is_top = [ROOT, OTHER_ROOT].contains(&path.to_str().expect("the path is text"));
        if !self.tree.exists(path) && (self.tree.is_directory(parent) || is_top) {
            self.tree.make_directory(path);
        }
    }

    /// Moves what is at `from` to `to`, or out of the tree, if that is possible.
    pub(crate) fn rename(&mut self, from: &str, to: Option<&str>) {
        let (from, to) = (Path::new(from), to.map(Path::new));
        let is_possible = to.is_none_or(|to| {
            let parent = to.parent().expect("a target is in a directory");
            !to.starts_with(from) && !self.tree.exists(to) && self.tree.is_directory(parent)
        });
        if self.tree.exists(from) && is_possible {
            self.tree.rename(from, to);
            self.world.rename(from, to);
        }
    }

    /// Exchanges what is at the two paths, if that is possible.
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

    // --- The directories that are watched ---

    /// Returns whether a watched directory leads to a path.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.watch.covers(path)
    }

    /// Starts to watch a directory, or stops watching it if it is watched.
    pub(crate) fn toggle_root(&mut self, dir: &str) {
        let now = self.world.now;
        let path: Arc<Path> = Path::new(dir).into();
        if let Some(place) = self.roots.iter().position(|it| **it == *path) {
            self.roots.remove(place);
            self.watch.remove_root(&path, now);
            self.restored.uncovered(|path| self.watch.covers(path));
        } else if self.roots.iter().any(|root| path.starts_with(root)) {
            return; // It is refused.
        } else if self.world.answers(&path) {
            let inside = self.roots.iter().find(|root| root.starts_with(&path));
            if let Some(inside) = inside.and_then(|root| root.to_str()).map(str::to_owned) {
                self.toggle_root(&inside);
            }
            let (watch, entries) = self.tree.scan(&path, Place::MissingRoot);
            self.restored.scanned(&path, &entries);
            let added = self.watch.add_root(&path, watch, entries, now);
            self.roots.extend(added.is_ok().then(|| PathBuf::from(dir)));
        }
        self.follow();
    }

    /// Has the directory of the simulation watched, whatever else is.
    pub(crate) fn watch_root(&mut self) {
        if !self.roots.iter().any(|it| *it == Path::new(ROOT)) {
            self.toggle_root(ROOT);
        }
    }

    /// Mounts a file system that may not answer at a directory, or unmounts it.
    pub(crate) fn toggle_answering(&mut self, dir: &str) {
        let unanswering = &mut self.world.unanswering;
        if !unanswering.remove(Path::new(dir)) {
            unanswering.insert(dir.into());
        }
        self.remounted();
    }

    /// Has all file systems answer again.
    pub(crate) fn answer_again(&mut self) {
        self.world.unanswering.clear();
        self.remounted();
    }

    fn remounted(&mut self) {
        for dir in self.roots.clone() {
            let remounted = watch::Input::Remounted { dir };
            self.watch.handle_input(remounted, self.world.now);
        }
        self.follow();
    }

    // --- The watch ---

    /// Passes the next event to the watch. Returns whether there was one.
    pub(crate) fn hear(&mut self) -> bool {
        let Some(event) = self.tree.next_event() else {
            return false;
        };
        let input = watch::Input::Event(event);
        self.watch.handle_input(input, self.world.now);
        self.follow();
        true
    }

    /// Passes all events to the watch.
    pub(crate) fn hear_all(&mut self) {
        while self.hear() {}
    }

    /// Advances the clock, with a timeout of the watch and of the manager at each of their
    /// deadlines.
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

    /// Carries out what the watch requests, passes what it finds to the manager, and passes the
    /// manager's doubts to the watch.
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
        while !self.is_starting {
            let Some(output) = self.watch.poll_output() else {
                return;
            };
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        let now = self.world.now;
        if self.world.is_loud {
            println!("  {output:?}");
        }
        self.restored.reported(&output);
        match output {
            Output::Scan { dir, place } => {
                let (watch, entries) = if self.world.answers(&dir) {
                    self.tree.scan(&dir, place)
                } else {
                    (Err(hung()), Err(hung()))
                };
                self.restored.scanned(&dir, &entries);
                let scanned = watch::Input::Scanned {
                    dir,
                    watch,
                    entries,
                };
                self.watch.handle_input(scanned, now);
            }
            Output::Examine { path } => {
                let kind = if self.world.answers(&path) {
                    self.tree.examine(&path)
                } else {
                    EntryKind::Other
                };
                self.restored.examined(&path, &kind);
                let examined = watch::Input::Examined { path, kind };
                self.watch.handle_input(examined, now);
            }
            Output::Unwatch { watch } => self.tree.unwatch(watch),
            Output::Found { path, identity } => {
                let found = Input::Found { path, identity };
                self.world.manager.handle_input(found, now);
            }
            Output::Lost { path } => {
                let lost = Input::Lost { path };
                self.world.manager.handle_input(lost, now);
            }
            Output::Report(_) => {}
        }
    }
}

fn hung() -> Problem {
    Problem::MayNotAnswer(World::HUNG.to_owned())
}

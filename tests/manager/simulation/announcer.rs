//! Plugins that announce themselves, in runs of their own: their sockets are in a directory that is
//! not watched, and their names are those of the watched plugins, too.

use std::collections::BTreeSet;
use std::path::Path;

use plugind::config::DEVICE_GRACE;
use plugind::manager::{AnnouncementId, Input};

use super::Simulation;
use crate::announced::plugin;
use crate::rng::Rng;
use crate::script::Script;
use crate::world::desired_sockets;

/// Announces plugins at random, from a seed of its own.
#[derive(Debug)]
pub(super) struct Announcer {
    rng: Rng,
    last: AnnouncementId,
    /// The calls that are not answered yet.
    open: BTreeSet<AnnouncementId>,
}

impl Announcer {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed.rotate_left(16)),
            last: AnnouncementId(0),
            open: BTreeSet::new(),
        }
    }

    /// Forgets the calls of the process before, whose numbers begin again.
    pub(super) fn restarted(&mut self) {
        self.open.clear();
        self.last = AnnouncementId(0);
    }
}

/// Returns whether a path is in the directory that is not watched.
pub(super) fn is_announced(path: &Path) -> bool {
    path.starts_with(DIR)
}

impl Simulation {
    /// Lets something happen to the plugins that announce themselves, and accepts the answers.
    pub(super) fn announce(&mut self) {
        let Some(mut announcer) = self.announcer.take() else {
            return;
        };
        let socket = *announcer.rng.pick(&SOCKETS).expect("the list is not empty");
        match announcer.rng.below(0..6) {
            0 => {
                self.say(format_args!("  {socket} is created"));
                let listens = announcer.rng.one_in(2);
                let script = listens.then(|| Script::serving([]));
                self.node.world.create(socket, script);
            }
            1 => {
                self.say(format_args!("  the process behind {socket} is killed"));
                self.node.world.kill(socket);
            }
            2 => self.node.world.remove(socket),
            3 => {}
            // The daemon cannot accept the connection.
            _ if !self.node.world.has_descriptors => {}
            _ => self.call(&mut announcer, socket),
        }
        self.node.world.run();
        self.announcer = Some(announcer);
        self.accept_answers();
    }

    /// Accepts the answers to calls: each is answered once.
    fn accept_answers(&mut self) {
        for (id, result) in std::mem::take(&mut self.node.world.answered) {
            self.say(format_args!("  {id:?} is answered: {result:?}"));
            let was_open = self.announcer.as_mut().map(|it| it.open.remove(&id));
            assert_eq!(was_open, Some(true), "{id:?} is answered again");
        }
    }

    fn call(&mut self, announcer: &mut Announcer, socket: &str) {
        announcer.last.0 += 1;
        let id = announcer.last;
        let name = announcer.rng.pick(&super::events::NAMES);
        let name = name.expect("the list is not empty");
        self.say(format_args!(
            "  {name} announces itself at {socket}: {id:?}"
        ));
        let plugin = Box::new(plugin(socket, name));
        announcer.open.insert(id);
        let caller = None;
        let announced = Input::Announced { id, plugin, caller };
        let world = &mut self.node.world;
        world.manager.handle_input(announced, world.now);
    }

    /// Checks, after the faults, that every call was answered, and that the plugins whose sockets
    /// have a listener are registered. Then ends them all.
    pub(super) fn end_announced(&mut self) {
        if self.announcer.is_none() {
            return;
        }
        self.announce_nothing();
        let world = &mut self.node.world;
        for socket in SOCKETS {
            world.kill(socket);
            world.remove(socket);
            world.cut(socket);
        }
        world.lose_processes();
        self.node.advance(DEVICE_GRACE * 2);
        let announced = desired_sockets(&self.node.world.manager);
        let left: Vec<_> = announced.filter(|(path, _)| is_announced(path)).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Checks that no call is open.
    fn announce_nothing(&mut self) {
        self.accept_answers();
        let announcer = self.announcer.as_ref().expect("the caller has looked");
        assert!(announcer.open.is_empty(), "{:?} are open", announcer.open);
        let mut plugins = BTreeSet::new();
        for registered in self.node.world.manager.registered() {
            let plugin = &registered.plugin;
            let is_awaited = self.node.restored.has_announced(plugin);
            if is_announced(&plugin.endpoint) && !is_awaited {
                let is_new = plugins.insert((plugin.name.clone(), plugin.endpoint.clone()));
                assert!(is_new, "{plugin} twice");
            }
        }
    }
}

/// The directory, which is not watched.
const DIR: &str = "/d";

const SOCKETS: [&str; 3] = ["/d/a.sock", "/d/b.sock", "/d/c.sock"];

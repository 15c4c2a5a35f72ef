//! Restarts of the daemon: what it has saved, what happens while it is down, and what the next one
//! restores.

use std::sync::Arc;

use plugind::config::{RESYNC_INTERVAL, STOP_GRACE};
use plugind::handler::{HandlerTable, Plugin};
use plugind::manager::{Input, Manager, OnDown, SavedState};

use super::Simulation;
use super::operator::Operator;
use super::oracle::Oracle;
use super::readers::Reader;

/// What may happen while the daemon is down.
const MEANWHILE: [fn(&mut Simulation); 9] = [
    Simulation::bind,
    Simulation::remove,
    Simulation::link,
    Simulation::make_directory,
    Simulation::rename,
    Simulation::exchange,
    Simulation::remove_root,
    Simulation::kill,
    Simulation::listen,
];

/// The name of the boot.
pub(super) const BOOT: &str = "boot";

impl Simulation {
    /// Writes the state file, unless the disk is full.
    pub(super) fn save(&mut self) {
        let manager = &self.node.world.manager;
        let saved = saved(&manager.snapshot(BOOT).encode());
        for plugin in self.oracle.lock().registered() {
            assert!(saved.contains(plugin), "{plugin} is not saved");
        }
        self.disk.save(manager);
    }

    /// Checks that the daemon forgets no plugin that was restored.
    pub(super) fn check_saved(&self) {
        if !self.node.restored.is_empty() {
            let manager = &self.node.world.manager;
            let file = manager.snapshot(BOOT).encode();
            self.node.restored.check_saved(&saved(&file));
        }
    }

    /// Ends the daemon, and starts it again with what the state file has. The daemon may have been
    /// killed before it could write the file, and the file may be lost.
    pub(super) fn restart(&mut self) {
        if self.rng.one_in(2) {
            self.catch_up();
        }
        match self.rng.below(0..8) {
            0 => self.disk.file = None,
            1 | 2 => {} // As it was written last.
            3..6 => self.save(),
            _ => {
                self.stop();
                self.save();
            }
        }
        self.begin_again();
    }

    /// Stops the daemon, which then writes the state file, and starts it again.
    pub(super) fn stop_and_start(&mut self) {
        if self.rng.one_in(2) {
            self.catch_up();
        }
        self.stop();
        self.accept_programs();
        self.save();
        self.begin_again();
    }

    /// Kills the daemon between two turns, and starts it again. Sometimes the state file is lost.
    pub(super) fn kill_daemon(&mut self) {
        if self.rng.one_in(8) {
            self.disk.file = None;
        }
        self.begin_again();
    }

    /// Kills the daemon while it carries out the outputs of an event, and starts it again. The rest
    /// of the outputs is lost.
    pub(super) fn kill_in_turn(&mut self) {
        self.node.world.fuse = Some(self.rng.below(1..8));
        self.happen();
        self.begin_again();
    }

    /// Ends the daemon as it is, and starts it again with what the state file has.
    fn begin_again(&mut self) {
        if self.faults.is_some() {
            self.kill_programs();
            self.accept_events();
        }
        self.programs.restarted(&self.disk);
        self.disk.restarted();
        self.devices.restarted();
        self.waiting.restarted();
        if let Some(announcer) = &mut self.announcer {
            announcer.restarted();
        }
        self.oracle = self.oracle.restarted();
        self.operator = Operator::default();
        self.reader = Reader::default();
        self.node.world.events.clear();
        self.node.world.measured.clear();
        self.dials.clear();
        let mut manager = manager(&self.oracle, &self.types, self.on_down);
        if self.faults.is_some() {
            manager = self.with_built_in(manager);
        }
        self.node.end(manager);
        for _ in 0..self.rng.below(0..8) {
            if let Some(happen) = self.rng.pick(&MEANWHILE) {
                happen(self);
            }
        }
        self.disk.restore(&mut self.node.world.manager);
        if self.faults.is_some() {
            self.set_descriptors(self.waiting.limit);
        }
        let is_slow = self.rng.one_in(2);
        self.node.start(is_slow);
        self.programs.check_restored(&self.node.world.manager);
        if is_slow && self.rng.one_in(4) {
            for _ in 0..self.rng.below(0..12) {
                self.node.scan_next();
            }
            self.say(format_args!("  the next scan takes long"));
            self.node.advance(RESYNC_INTERVAL);
        }
    }

    /// Lets the daemon do everything that it can do now, so that it has plugins to save.
    pub(super) fn catch_up(&mut self) {
        self.node.finish_start();
        self.node.world.is_slow = false;
        self.node.hear_all();
        self.node.world.run();
        self.node.world.is_slow = true;
    }

    /// Stops the daemon in an orderly way.
    fn stop(&mut self) {
        let world = &mut self.node.world;
        world.manager.handle_input(Input::Stop, world.now);
        world.run();
        self.node.advance(STOP_GRACE);
        assert!(self.node.world.manager.is_stopped());
    }
}

/// Returns the plugins in a state file.
fn saved(file: &[u8]) -> Vec<Arc<Plugin>> {
    let mut manager = Manager::new(HandlerTable::new());
    manager.restore(decode(file));
    manager.registered().map(|it| it.plugin.clone()).collect()
}

pub(super) fn decode(file: &[u8]) -> SavedState {
    SavedState::decode(file, BOOT).expect("it was written whole")
}

/// Returns a manager with this handler.
pub(super) fn manager(oracle: &Oracle, types: &[&str], on_down: OnDown) -> Manager {
    let mut table = HandlerTable::new();
    table.add(types.iter().copied(), oracle.clone());
    let mut manager = Manager::new(table);
    manager.set_on_down(on_down);
    manager
}

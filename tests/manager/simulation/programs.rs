//! What programs have set up on the node, by the names of plugins: a table that outlives the
//! daemon.
//!
//! A program counts as run from its start. Once an `add` or a `re-add` was started, what it may
//! have set up stays in the table until a `del` for the same plugin is started, or until the
//! program fails without being killed: it is trusted to have undone its changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plugind::handler::{EffectId, Plugin, Program, ProgramEnd};
use plugind::manager::Manager;
use serde_json::Value;

use super::Simulation;
use super::disk::Disk;
use super::restart::BOOT;

/// The plugins with programs, and the verbs that were run for each name, in order.
#[derive(Debug, Default)]
pub(super) struct Programs {
    set_up: BTreeMap<Key, SetUp>,
    records: BTreeMap<(String, String), Vec<String>>,
    /// The programs that have yet to be started, in this order, and whether each has to be saved
    /// before.
    waiting: VecDeque<(EffectId, Program, bool)>,
    /// The programs that run, and what they are run for.
    running: BTreeMap<EffectId, (String, Key)>,
    /// Whether programs cannot be started.
    pub(super) is_missing: bool,
    /// Whether the handler was replaced since the start. One handler runs one program at a time for
    /// each name, but two do not wait for each other.
    has_two_handlers: bool,
}

/// The type, the name and the endpoint of a plugin.
type Key = (String, String, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetUp {
    /// A program runs, or was killed.
    Perhaps,
    /// A program has succeeded.
    Certainly,
}

impl Programs {
    fn started(&mut self, id: EffectId, program: &Program) {
        let words = program.arguments.iter();
        let words: Vec<_> = words.map(|it| it.to_string_lossy().into_owned()).collect();
        let [verb, kind, name, endpoint] = words.try_into().expect("a program has four arguments");
        let key = (kind.clone(), name.clone(), endpoint);
        if verb == "del" {
            self.set_up.remove(&key);
        } else {
            self.set_up.insert(key.clone(), SetUp::Perhaps);
        }
        let records = self.records.entry((kind, name)).or_default();
        records.push(verb.clone());
        let same = |it: &&(String, Key)| (&it.1.0, &it.1.1) == (&key.0, &key.1);
        let other = self.running.values().find(same);
        let is_alone = other.is_none() || self.has_two_handlers;
        assert!(is_alone, "{verb} {key:?} beside {other:?}: {records:?}");
        self.running.insert(id, (verb, key));
    }

    /// Records the end of a program.
    fn ended(&mut self, id: EffectId, end: &ProgramEnd) {
        let Some((verb, key)) = self.running.remove(&id).filter(|it| it.0 != "del") else {
            return;
        };
        // A `del` that was started since then is one of another handler.
        match (end, self.set_up.get_mut(&key)) {
            (ProgramEnd::Exited(0), Some(set_up)) => *set_up = SetUp::Certainly,
            (ProgramEnd::Exited(_), Some(_)) if verb == "add" => {
                self.set_up.remove(&key);
            }
            _ => {}
        }
    }

    /// Records that the handler was replaced by another one.
    pub(super) fn handler_replaced(&mut self) {
        self.has_two_handlers = true;
    }

    /// Records that the daemon was ended. If the state file was lost, the next one knows nothing.
    pub(super) fn restarted(&mut self, disk: &Disk) {
        self.running.clear();
        self.waiting.clear();
        self.has_two_handlers = false;
        if disk.file.is_none() {
            self.set_up.clear();
        }
    }

    /// Checks that the next daemon knows everything that may be set up.
    pub(super) fn check_restored(&self, manager: &Manager) {
        if self.set_up.is_empty() {
            return;
        }
        let known = saved(&manager.snapshot(BOOT).encode());
        for key in self.set_up.keys() {
            let records = &self.records;
            assert!(known.contains(key), "{key:?} is forgotten: {records:?}");
        }
    }

    /// Records that a `del` is not tried any more.
    pub(super) fn given_up(&mut self, plugin: &Plugin) {
        self.set_up.remove(&key(plugin));
    }

    /// Checks that what a registered plugin needs is set up. After a handler was replaced, a `del`
    /// that the old one could not start yet may follow the `add` of the new one.
    pub(super) fn check_registered(&self, plugin: &Plugin) {
        let records = self
            .records
            .get(&(plugin.kind.clone(), plugin.name.clone()));
        let set_up = self.set_up.get(&key(plugin));
        let is_set_up = set_up.is_some() || self.has_two_handlers;
        assert!(is_set_up, "{plugin} is not set up: {records:?}");
    }

    /// Checks that everything was undone.
    pub(super) fn check_undone(&self) {
        let left = &self.set_up;
        assert!(left.is_empty(), "{left:?} is left: {:?}", self.records);
    }
}

/// Returns the plugins in a state file: those that are registered, and those with a `del` to come.
fn saved(file: &[u8]) -> BTreeSet<Key> {
    let file: Value = serde_json::from_slice(file).expect("the file is JSON");
    let lists = ["owed", "plugins"].map(|list| file[list].as_array().expect("it is a list"));
    lists.into_iter().flatten().map(key_in).collect()
}

/// Returns the key of a plugin in a file.
fn key_in(plugin: &Value) -> Key {
    let text = |key: &str| plugin[key].as_str().expect("it is a text").to_owned();
    ["type", "name", "endpoint"].map(text).into()
}

fn key(plugin: &Plugin) -> Key {
    let endpoint = plugin.endpoint.to_string_lossy().into_owned();
    (plugin.kind.clone(), plugin.name.clone(), endpoint)
}

impl Simulation {
    /// Starts the programs that the manager has requested, but only one if the disk is slow.
    pub(super) fn accept_programs(&mut self) {
        self.forget_waiting();
        let mut most = if self.disk.is_slow { 1 } else { usize::MAX };
        self.queue_programs();
        while (most > 0 || self.is_any_over()) && self.start_next() {
            most = most.saturating_sub(1);
        }
    }

    /// Returns whether a program waits whose time is over: no disk delays programs for that long.
    fn is_any_over(&self) -> bool {
        let requested = &self.node.world.programs;
        let mut waiting = self.programs.waiting.iter();
        waiting.any(|(id, ..)| !requested.contains_key(id))
    }

    /// Lets the daemon be killed at any moment while it starts programs. The state file may have
    /// been written for the next one.
    pub(super) fn kill_programs(&mut self) {
        self.forget_waiting();
        self.queue_programs();
        while self.is_any_over() && self.start_next() {}
        while let Some(faults) = &mut self.faults {
            let moment = faults.rng.below(0..4);
            if moment > 1 && self.start_next() {
                continue;
            }
            if moment > 0 && !self.programs.waiting.is_empty() {
                self.disk.save(&self.node.world.manager);
            }
            return;
        }
    }

    /// Queues the programs that the manager has requested.
    fn queue_programs(&mut self) {
        self.forget_killed();
        let world = &mut self.node.world;
        for (id, program, is_add) in std::mem::take(&mut world.spawned) {
            world.unstarted.insert(id);
            self.programs.waiting.push_back((id, program, is_add));
        }
    }

    /// Starts the next program, or ends it if it cannot be started. Returns whether there was one.
    fn start_next(&mut self) -> bool {
        self.queue_programs();
        let Some((id, program, is_add)) = self.programs.waiting.pop_front() else {
            return false;
        };
        self.node.world.unstarted.remove(&id);
        // One that was killed, or has ended, at the moment of its request has run.
        let runs = self.node.world.programs.contains_key(&id);
        let may_start = self.disk.save(&self.node.world.manager) || !is_add;
        if !may_start || self.programs.is_missing && runs {
            let why = ProgramEnd::NotStarted("it is missing, or the disk is full".to_owned());
            self.node.world.end_program(id, why);
        } else {
            self.say(format_args!("  a program starts: {:?}", program.arguments));
            self.programs.started(id, &program);
            self.forget_killed();
        }
        true
    }

    /// Forgets the programs that were killed before they could be started.
    fn forget_waiting(&mut self) {
        let requested = &self.node.world.programs;
        let waiting = &mut self.programs.waiting;
        waiting.retain(|(id, ..)| requested.contains_key(id));
    }

    /// Forgets the programs that the daemon has killed, at their deadline or because nothing waits
    /// for them any more.
    fn forget_killed(&mut self) {
        let running = &self.node.world.programs;
        let known = &mut self.programs.running;
        known.retain(|id, _| running.contains_key(id));
    }

    /// Ends one of the programs that run.
    pub(super) fn end_program(&mut self) {
        let running: Vec<_> = self.programs.running.keys().copied().collect();
        let Some(id) = self.rng.pick(&running).copied() else {
            return;
        };
        let end = match self.rng.below(0..6) {
            0 => ProgramEnd::Exited(1),
            1 => ProgramEnd::Killed(9),
            _ => ProgramEnd::Exited(0),
        };
        self.say(format_args!("  {end}"));
        self.programs.ended(id, &end);
        self.node.world.end_program(id, end);
    }
}

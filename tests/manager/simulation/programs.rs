//! What programs have set up on the node, by the names of plugins: a table that outlives the
//! daemon.
//!
//! A program counts as run from its start. Once an `add` or a `re-add` was started, what it may
//! have set up stays in the table until a `del` for the same plugin is started, or until the
//! program fails without being killed: it is trusted to have undone its changes.

use std::collections::{BTreeMap, BTreeSet};

use plugind::handler::{EffectId, Plugin, Program, ProgramEnd};
use serde_json::Value;

use super::Simulation;

/// The plugins with programs, and the verbs that were run for each name, in order.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// With the step at which the first program was started.
    set_up: BTreeMap<Key, (SetUp, u64)>,
    /// The current step of the simulation.
    step: u64,
    records: BTreeMap<(String, String), Vec<String>>,
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
            let step = self.step;
            let set_up = self.set_up.entry(key.clone());
            set_up.or_insert((SetUp::Perhaps, step)).0 = SetUp::Perhaps;
        }
        let records = self.records.entry((kind, name)).or_default();
        records.push(verb.clone());
        let same = |it: &&(String, Key)| (&it.1.0, &it.1.1) == (&key.0, &key.1);
        let other = self.running.values().find(same);
        assert!(
            other.is_none() || self.has_two_handlers,
            "{verb} {key:?} while {other:?} runs: {records:?}"
        );
        self.running.insert(id, (verb, key));
    }

    /// Records the end of a program.
    fn ended(&mut self, id: EffectId, end: &ProgramEnd) {
        let Some((verb, key)) = self.running.remove(&id).filter(|it| it.0 != "del") else {
            return;
        };
        // A `del` that was started since then is one of another handler.
        match (end, self.set_up.get_mut(&key)) {
            (ProgramEnd::Exited(0), Some(set_up)) => set_up.0 = SetUp::Certainly,
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

    /// Records that the next step has begun.
    pub(super) fn advance(&mut self) {
        self.step += 1;
    }

    /// Returns the current step.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Records that the daemon was ended with the state file of this step. Its programs go on,
    /// unseen.
    pub(super) fn restarted(&mut self, file: Option<(&[u8], u64)>) {
        self.running.clear();
        self.has_two_handlers = false;
        let Some((file, written)) = file else {
            return self.set_up.clear();
        };
        let saved = saved(file);
        let records = &self.records;
        self.set_up.retain(|key, (_, started)| {
            let is_saved = saved.contains(key);
            let is_excused = is_excused(*started, written);
            assert!(is_saved || is_excused, "{key:?} is forgotten: {records:?}");
            is_saved
        });
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

/// Returns whether a restart may forget a plugin whose first program was started at one step, with
/// a state file that was written at another one: the daemon was killed before it could write the
/// file that follows.
fn is_excused(started: u64, written: u64) -> bool {
    started > written
}

/// Returns the plugins in a state file: those that are registered, and those with a `del` to come.
fn saved(file: &[u8]) -> BTreeSet<Key> {
    let file: Value = serde_json::from_slice(file).expect("the file is JSON");
    let lists = ["owed", "plugins"].map(|list| file[list].as_array().expect("it is a list"));
    let text = |plugin: &Value, key| plugin[key].as_str().expect("it is a text").to_owned();
    let key = |plugin: &Value| {
        let words = ["type", "name", "endpoint"].map(|key| text(plugin, key));
        words.into()
    };
    lists.into_iter().flatten().map(key).collect()
}

fn key(plugin: &Plugin) -> Key {
    let endpoint = plugin.endpoint.to_string_lossy().into_owned();
    (plugin.kind.clone(), plugin.name.clone(), endpoint)
}

impl Simulation {
    /// Records the programs that were started, and ends those that cannot be.
    pub(super) fn accept_programs(&mut self) {
        loop {
            self.forget_killed();
            let spawned = std::mem::take(&mut self.node.world.spawned);
            if spawned.is_empty() {
                return;
            }
            for (id, program) in spawned {
                // One that was killed meanwhile has run.
                let runs = self.node.world.programs.contains_key(&id);
                if self.programs.is_missing && runs {
                    let why = ProgramEnd::NotStarted("it is missing".to_owned());
                    self.node.world.end_program(id, why);
                } else {
                    self.say(format_args!("  a program starts: {:?}", program.arguments));
                    self.programs.started(id, &program);
                    self.forget_killed();
                }
            }
        }
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
        let running: Vec<_> = self.node.world.programs.keys().copied().collect();
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

//! Random orders of events: a random world around the manager, in virtual time, and an oracle that
//! checks what must never happen. What the events report is compared with what the manager knows.
//! In every other run the daemon is restarted up to three times. Runs of a second kind have plugins
//! that announce themselves, and those of a third kind have faults of the node ([`faults`]).
//!
//! `cargo test` runs [`SEEDS`] seeds, or as many as the environment variable of that name sets. If
//! one fails, its number is printed; `SEED=n cargo test --test manager simulation -- --nocapture`
//! runs only that seed and prints its events, once for each kind of run.

mod announcer;
mod devices;
mod disk;
mod events;
mod faults;
mod operator;
mod oracle;
mod programs;
mod readers;
mod restart;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF, DEFAULT_TYPES, RESYNC_INTERVAL};
use plugind::handler::Plugin;
use plugind::manager::OnDown;
use plugind::manager::event::EventKind;
use plugind::time::Time;
use plugind::watch::Identity;

use self::announcer::{Announcer, is_announced};
use self::devices::Devices;
use self::disk::Disk;
use self::events::{HAPPENINGS, Happening, PATHS};
use self::faults::Faults;
use self::operator::Operator;
use self::oracle::{Oracle, Phase};
use self::programs::Programs;
use self::readers::Reader;
use self::waiting::Waiting;
use crate::node::{Node, ROOT};
use crate::restored::{BUILT_IN, Restored};
use crate::rng::Rng;
use crate::world::{awaited_sockets, desired_sockets, world_plan};

/// The number of seeds in every test run.
const SEEDS: u64 = 1000;

/// The number of events in one run before the faults cease.
const STEPS: u64 = 300;

/// The same in runs with faults of the node.
const STEPS_WITH_FAULTS: u64 = 120;

#[test]
fn whatever_happens_the_contract_is_kept() {
    play(1, Simulation::new);
}

#[test]
fn plugins_that_announce_themselves_keep_the_contract() {
    play(4, Simulation::with_announced);
}

#[test]
fn faults_of_the_node_break_no_promise() {
    play(1, Simulation::with_faults);
}

/// Plays one of `part` seeds, or the one that the environment names, which is printed.
fn play(part: u64, new: fn(u64, bool) -> Simulation) {
    if let Some(seed) = variable("SEED") {
        return new(seed, true).run();
    }
    for seed in 0..variable("SEEDS").unwrap_or(SEEDS) / part {
        let failed = std::panic::catch_unwind(|| new(seed, false).run()).is_err();
        assert!(!failed, "SEED={seed} replays the failure");
    }
}

/// Returns the number in an environment variable.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A run: the node, the oracle, and what happens next.
struct Simulation {
    node: Node,
    oracle: Oracle,
    operator: Operator,
    /// Follows the records at every step.
    reader: Reader,
    rng: Rng,
    /// The weight of each event in this run: some never happen, some all the time.
    weights: Vec<u64>,
    /// The steps at which the daemon is restarted.
    restarts: BTreeSet<u64>,
    on_down: OnDown,
    /// The types that the oracle's handlers are for.
    types: Vec<&'static str>,
    disk: Disk,
    programs: Programs,
    devices: Devices,
    waiting: Waiting,
    /// The faults of the node, in runs that have any.
    faults: Option<Faults>,
    /// The time of the first dial of each socket, and the number of its dials.
    dials: BTreeMap<Identity, (Time, usize)>,
    /// Announces plugins, in runs that have any.
    announcer: Option<Announcer>,
    /// The sockets that had more than two paths.
    many_paths: BTreeSet<Identity>,
    is_loud: bool,
}

impl Simulation {
    /// Creates a run in which plugins announce themselves, too. The daemon is not restarted.
    fn with_announced(seed: u64, is_loud: bool) -> Self {
        let mut simulation = Self::new(seed, is_loud);
        simulation.restarts.clear();
        simulation.announcer = Some(Announcer::new(seed));
        simulation
    }

    fn new(seed: u64, is_loud: bool) -> Self {
        let mut rng = Rng::new(seed);
        let watches_processes = !rng.one_in(2);
        let on_down = if rng.one_in(2) {
            OnDown::Deregister(Duration::from_secs(rng.below(0..60)))
        } else {
            OnDown::Keep
        };
        let weights = weigh(2, &HAPPENINGS, &mut rng);
        let restarts = if rng.one_in(2) { rng.below(1..4) } else { 0 };
        let restored = Restored::default();
        let oracle = Oracle::new(!seed, restored.clone());
        let types = DEFAULT_TYPES.to_vec();
        let mut node = Node::new(restart::manager(&oracle, &types, on_down));
        node.restored = restored;
        node.world.is_slow = true;
        node.world.is_loud = is_loud;
        node.world.watches_processes = watches_processes;
        Self {
            node,
            oracle,
            operator: Operator::default(),
            reader: Reader::default(),
            restarts: (0..restarts).map(|_| rng.below(0..STEPS)).collect(),
            rng,
            weights,
            on_down,
            types,
            disk: Disk::default(),
            programs: Programs::default(),
            devices: Devices::default(),
            waiting: Waiting::default(),
            faults: None,
            dials: BTreeMap::new(),
            announcer: None,
            many_paths: BTreeSet::new(),
            is_loud,
        }
    }

    fn run(mut self) {
        let steps = self.faults.as_ref().map_or(STEPS, |_| STEPS_WITH_FAULTS);
        for step in 0..steps {
            if self.restarts.contains(&step) {
                self.say(format_args!("the daemon is restarted"));
                self.restart();
            } else {
                self.happen_or_fail();
                self.announce();
            }
            self.accept_programs();
            self.check();
        }
        self.cease();
        self.converge();
        self.vanish_all();
    }

    fn say(&self, what: fmt::Arguments<'_>) {
        if self.is_loud {
            println!("{:?} {what}", self.node.world.now);
        }
    }

    /// Causes one random event.
    fn happen(&mut self) {
        let total: u64 = self.weights.iter().sum();
        let at = self.rng.below(0..total.max(1));
        if let Some((_, happening)) = choose(at, &self.weights, &HAPPENINGS) {
            self.cause(*happening);
        }
    }

    fn cause(&mut self, (what, happen): Happening) {
        self.say(format_args!("{what}"));
        happen(self);
        self.node.world.run();
    }

    /// Checks what must hold at every moment.
    fn check(&mut self) {
        let has_failed = self.oracle.has_panicked();
        assert!(!has_failed, "the contract is broken: the handler panicked");
        self.check_saved();
        self.check_events();
        self.check_node();
        self.reader.check(&self.node.world.manager);
        let mut state = self.oracle.lock();
        let world = &mut self.node.world;
        for twin in std::mem::take(&mut state.undone) {
            let registered = world.manager.socket(&twin).and_then(|it| it.registered());
            assert!(registered.is_none(), "{twin:?} is undone");
        }
        let registered = world.manager.registered();
        for registered in registered.filter(|it| !is_built_in(&it.plugin)) {
            let path = &registered.plugin.socket;
            let known = state.phases.get(path);
            let known = known.map(|(plugin, phase)| (plugin, *phase));
            let is_known = matches!(known, Some((plugin, Phase::Registering | Phase::Registered))
                if *plugin == registered.plugin);
            assert!(
                is_known || self.node.restored.has(&registered.plugin),
                "{path:?} is in the actual world, and its handler knows {known:?}"
            );
        }
        // A plugin that had announced itself and was about to be deregistered is awaited, too,
        // until it announces itself again or the watch has no place for its socket.
        let awaited = awaited_sockets(&world.manager).into_iter();
        let awaited: BTreeSet<_> = awaited.filter(|path| !is_announced(path)).collect();
        assert_eq!(awaited, self.node.restored.awaited());
        if let Some((at, why)) = world.manager.poll_timeout() {
            assert!(at > world.now, "{why:?} has been due since {at:?}");
        }
        for (identity, at) in world.take_dials() {
            let (first, count) = self.dials.entry(identity).or_insert((at, 0));
            *count += 1;
            let bound = 2 * DIALS_AT_ONCE + 4 * at.saturating_since(*first).as_secs();
            assert!(*count as u64 <= bound, "{identity:?} has {count} dials");
        }
        let connections = world.open_connections().len();
        assert!(connections <= MAX_CONNECTIONS, "{connections} are open");
    }

    /// Checks what is known of the faults of the node.
    fn check_node(&mut self) {
        if let Some(faults) = &mut self.faults {
            let (manager, now) = (&self.node.world.manager, self.node.world.now);
            self.disk.advance(manager, now);
            self.waiting.check(manager, now);
            self.devices.see(&self.node.world);
            if faults.is_any_check_due() {
                self.disk.check(manager);
                self.devices.check(manager);
            }
        }
    }

    /// Checks that the events of the manager have reported what it knows.
    fn check_events(&mut self) {
        self.accept_events();
        let node = &self.node;
        self.operator.check(&node.world.manager, &node.restored);
    }

    /// Passes on what the manager has emitted and measured.
    fn accept_events(&mut self) {
        let world = &mut self.node.world;
        world.measured.clear();
        let events = std::mem::take(&mut world.events);
        for event in &events {
            if let (EventKind::Reported(notice), Some(plugin)) = (&event.kind, &event.plugin) {
                if notice.reason == "ProgramGivenUp" {
                    self.programs.given_up(plugin);
                }
            }
        }
        self.operator.accept(events);
    }

    /// Ends all faults: plugins do everything right, handlers answer yes, and the watch receives
    /// every event.
    fn cease(&mut self) {
        self.say(format_args!("--- the faults cease"));
        self.node.world.is_slow = false;
        self.node.tree.is_used_up = false;
        self.node.finish_start();
        self.recover();
        self.node.make_directory(ROOT);
        for path in self.node.world.paths() {
            if !is_announced(Path::new(&path)) {
                self.node.behave(&path);
            }
        }
        self.oracle.lock().is_honest = true;
        self.oracle.lock().wanted.cease();
        while !self.oracle.lock().open.is_empty() {
            self.answer();
        }
        self.node.hear_all();
        self.node.world.run();
        // Long enough for every backoff, and too short for a resync to hide what was forgotten.
        self.node.advance(BACKOFF.cap + Duration::from_secs(30));
        self.end_announced();
    }

    /// Has the directories read again if a socket that had more than two paths is not known: where
    /// the others are is not remembered.
    fn resync_many_paths(&mut self) {
        let manager = &self.node.world.manager;
        let known: BTreeSet<_> = desired_sockets(manager)
            .map(|(_, it)| it.identity)
            .collect();
        let mut sockets = self.node.tree.sockets();
        let is_missing = sockets.any(|(path, it)| {
            !known.contains(&it) && self.many_paths.contains(&it) && self.node.covers(path)
        });
        drop(sockets);
        if is_missing {
            self.node.advance(RESYNC_INTERVAL);
        }
    }

    fn converge(&mut self) {
        self.resync_many_paths();
        self.check_events();
        self.check_saved();
        assert!(self.node.restored.is_empty(), "{:?}", self.node.restored);
        let manager = &self.node.world.manager;
        let running = PATHS.map(|path| self.node.world.operation(Path::new(path)));
        assert!(manager.is_idle(), "operations still run: {running:?}");
        let is_left_out = |path: &Path| {
            let is_hidden = path.to_str().is_some_and(|path| path.contains("/."));
            is_hidden || !self.node.covers(path)
        };
        let there: BTreeMap<_, _> = self
            .node
            .tree
            .sockets()
            .filter(|(path, _)| !is_left_out(path))
            .collect();
        let mut known = BTreeSet::new();
        for (path, socket) in desired_sockets(manager) {
            assert_eq!(there.get(&**path), Some(&socket.identity), "{path:?}");
            assert!(known.insert(socket.identity), "{path:?} is known once");
            let plugin = manager.socket(path).and_then(|it| it.registered());
            let health = plugin.map(|it| it.health.down_since());
            assert_eq!(health, Some(None), "{path:?} is up");
        }
        let all: BTreeSet<Identity> = there.values().copied().collect();
        assert_eq!(known, all, "the desired sockets are those that exist");
        let left = world_plan(manager);
        assert_eq!(left, [], "the plan is empty");
        for (path, identity) in there {
            // A process that takes over the socket of its predecessor and describes itself in the
            // same way is the same plugin, which is not notified again.
            let is_taken_over = self.node.restored.has_changed(identity);
            let notified = self.node.world.notification_of(path);
            assert!(
                notified == Some((true, "")) || notified.is_none() && is_taken_over,
                "{path:?} was notified of {notified:?}"
            );
        }
        self.check_built_in();
    }

    /// Checks that the handlers of programs and devices know the plugins, and the disk all of them.
    fn check_built_in(&mut self) {
        if self.faults.is_none() {
            return;
        }
        self.accept_programs();
        let world = &self.node.world;
        self.disk.check_written(&world.manager, world.now);
        self.check_devices();
        let registered = self.node.world.manager.registered();
        let registered = registered.filter(|it| it.plugin.kind == "Program");
        for registered in registered {
            self.programs.check_registered(&registered.plugin);
        }
    }

    fn vanish_all(&mut self) {
        for path in self.node.world.paths() {
            self.node.remove(&path);
        }
        self.node.hear_all();
        self.accept_programs();
        self.accept_events();
        let world = &mut self.node.world;
        let manager = &world.manager;
        assert!(manager.is_idle() && manager.sockets().next().is_none());
        self.operator.check(manager, &self.node.restored);
        assert!(self.oracle.lock().phases.is_empty(), "all deregistered");
        self.devices.check_empty();
        self.programs.check_undone();
        assert!(world.open_connections().is_empty(), "none is left open");
        assert_eq!(world.watched_processes(), 0, "no process is watched");
        world.advance(Duration::from_secs(3600));
        let wake = world.manager.poll_timeout();
        assert_eq!(wake, None, "no deadline is left");
        let handlers = self.oracle.handlers();
        assert_eq!(handlers, 1, "handlers that were replaced are dropped");
    }
}

/// Returns weights for a run, in this unit: some are 0, some are high.
fn weigh(unit: u64, from: &[(u64, Happening)], rng: &mut Rng) -> Vec<u64> {
    let weights = from.iter().map(|(weight, _)| match rng.below(0..4) {
        0 => 0,
        1 => weight * unit * 4,
        _ => weight * unit,
    });
    weights.collect()
}

/// Returns the element that is `at` this sum of weights, if any is.
fn choose<'a, T>(mut at: u64, weights: &[u64], from: &'a [T]) -> Option<&'a T> {
    let mut weighed = weights.iter().zip(from);
    let chosen = weighed.find(|(weight, _)| {
        let is_here = at < **weight;
        at = at.saturating_sub(**weight);
        is_here
    });
    chosen.map(|(_, it)| it)
}

/// Returns whether a plugin has a built-in handler, not one of the oracle.
fn is_built_in(plugin: &Plugin) -> bool {
    BUILT_IN.contains(&plugin.kind.as_str())
}

/// The number of times that a socket may be dialed within a moment: the retries of a dial, a
/// second connection for the outcome, and a check or two.
const DIALS_AT_ONCE: u64 = 20;

/// The limit of connections: one for each socket that exists or existed a moment ago.
const MAX_CONNECTIONS: usize = 64;

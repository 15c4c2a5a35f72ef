//! Random orders of events: a random world around the manager, in virtual time, and an oracle that
//! checks what must never happen. What the events report is compared with what the manager knows.
//! In every other run the daemon is restarted up to three times.
//!
//! `cargo test` runs [`SEEDS`] seeds, or as many as the environment variable of that name sets. If
//! one fails, its number is printed; `SEED=n cargo test --test manager simulation -- --nocapture`
//! runs only that seed and prints its events.

mod announcer;
mod events;
mod operator;
mod oracle;
mod readers;
mod restart;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF_CAP, OUTLIVED_GRACE};
use plugind::manager::{LivenessSource, OnDown};
use plugind::time::Time;
use plugind::watch::Identity;

use self::announcer::{Announcer, is_announced};
use self::events::{HAPPENINGS, PATHS};
use self::operator::Operator;
use self::oracle::{Oracle, Phase};
use self::readers::Reader;
use self::tally::Tally;
use crate::node::{Node, ROOT};
use crate::restored::Restored;
use crate::rng::Rng;
use crate::world::world_plan;

/// The number of seeds in every test run.
const SEEDS: u64 = 1000;

/// The number of events in one run before the faults cease.
const STEPS: u64 = 300;

/// The number of steps between two checks of the metrics.
const STEPS_TO_SCRAPE: u64 = 60;

#[test]
fn whatever_happens_in_whatever_order_the_contract_is_kept_and_the_worlds_agree_in_the_end() {
    if let Some(seed) = variable("SEED") {
        return Simulation::new(seed, true).run();
    }
    for seed in 0..variable("SEEDS").unwrap_or(SEEDS) {
        let failed = std::panic::catch_unwind(|| Simulation::new(seed, false).run()).is_err();
        assert!(!failed, "SEED={seed} replays the failure");
    }
}

#[test]
fn plugins_that_announce_themselves_keep_the_contract_beside_the_others() {
    if let Some(seed) = variable("SEED") {
        return Simulation::with_announced(seed, true).run();
    }
    for seed in 0..variable("SEEDS").unwrap_or(SEEDS) / 4 {
        let run = || Simulation::with_announced(seed, false).run();
        let failed = std::panic::catch_unwind(run).is_err();
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
    /// Follows the records from time to time.
    slow_reader: Reader,
    /// Decides when that is, so that readers do not change what else happens.
    reader_rng: Rng,
    tally: Tally,
    rng: Rng,
    /// The weight of each event in this run: some never happen, some all the time.
    weights: Vec<u64>,
    /// The steps at which the daemon is restarted.
    restarts: BTreeSet<u64>,
    on_down: OnDown,
    /// The state file, as it was written last.
    file: Option<Vec<u8>>,
    /// The time of the first dial of each socket, and the number of its dials.
    dials: BTreeMap<Identity, (Time, usize)>,
    /// Announces plugins, in runs that have any.
    announcer: Option<Announcer>,
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
        let liveness_source = if rng.one_in(2) {
            LivenessSource::Connection
        } else {
            LivenessSource::Process
        };
        let on_down = if rng.one_in(2) {
            OnDown::Deregister(Duration::from_secs(rng.below(0..60)))
        } else {
            OnDown::Keep
        };
        let weights = HAPPENINGS.iter().map(|(weight, _)| match rng.below(0..4) {
            0 => 0,
            1 => weight * 8,
            _ => weight * 2,
        });
        let weights = weights.collect();
        let restarts = if rng.one_in(2) { rng.below(1..4) } else { 0 };
        let restored = Restored::default();
        let oracle = Oracle::new(!seed, restored.clone());
        let mut node = Node::new(restart::manager(&oracle, on_down));
        node.restored = restored;
        node.world.is_slow = true;
        node.world.is_loud = is_loud;
        node.world.liveness_source = liveness_source;
        Self {
            node,
            oracle,
            operator: Operator::default(),
            reader: Reader::default(),
            slow_reader: Reader::default(),
            reader_rng: Rng::new(seed),
            tally: Tally::default(),
            restarts: (0..restarts).map(|_| rng.below(0..STEPS)).collect(),
            rng,
            weights,
            on_down,
            file: None,
            dials: BTreeMap::new(),
            announcer: None,
            is_loud,
        }
    }

    fn run(mut self) {
        for step in 0..STEPS {
            if self.restarts.contains(&step) {
                self.say(format_args!("the daemon is restarted"));
                self.restart();
            } else {
                self.happen();
                self.announce();
            }
            self.check();
            if step % STEPS_TO_SCRAPE == 0 {
                self.check_metrics();
            }
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
        let mut at = self.rng.below(0..total.max(1));
        for (index, (_, (what, happen))) in HAPPENINGS.iter().enumerate() {
            let weight = self.weights[index];
            if at < weight {
                self.say(format_args!("{what}"));
                happen(self);
                return self.node.world.run();
            }
            at -= weight;
        }
    }

    /// Checks what must hold at every moment.
    fn check(&mut self) {
        let has_failed = self.oracle.has_panicked();
        assert!(!has_failed, "the contract is broken: the handler panicked");
        self.check_saved();
        self.check_events();
        self.check_readers();
        let mut state = self.oracle.lock();
        let world = &mut self.node.world;
        for twin in std::mem::take(&mut state.undone) {
            let registered = world.manager.socket(&twin).and_then(|it| it.registered());
            assert!(
                registered.is_none(),
                "the registration of {twin:?} is undone"
            );
        }
        for registered in world.manager.registered() {
            let path = &registered.plugin.socket;
            let known = state
                .phases
                .get(path)
                .map(|(plugin, phase)| (plugin, *phase));
            let is_known = matches!(known, Some((plugin, Phase::Registering | Phase::Registered))
                if *plugin == registered.plugin);
            assert!(
                is_known || self.node.restored.has(&registered.plugin),
                "{path:?} is in the actual world, and its handler knows {known:?}"
            );
        }
        let awaited: BTreeSet<_> = world.manager.restored().into_iter().collect();
        assert_eq!(awaited, self.node.restored.awaited());
        if let Some((at, why)) = world.manager.poll_timeout() {
            assert!(at > world.now, "{why:?} has been due since {at:?}");
        }
        for (identity, at) in world.take_dials() {
            let (first, count) = self.dials.entry(identity).or_insert((at, 0));
            *count += 1;
            let bound = 2 * DIALS_AT_ONCE + 4 * at.saturating_since(*first).as_secs();
            assert!(
                *count as u64 <= bound,
                "{identity:?} was dialled {count} times since {first:?}"
            );
        }
        let connections = world.open_connections().len();
        assert!(
            connections <= MAX_CONNECTIONS,
            "{connections} connections are open"
        );
    }

    /// Checks that the events of the manager have reported what it knows.
    fn check_events(&mut self) {
        self.accept_events();
        self.operator.check(&self.node.world.manager);
    }

    fn accept_events(&mut self) {
        let world = &mut self.node.world;
        let (events, measured) = (
            std::mem::take(&mut world.events),
            std::mem::take(&mut world.measured),
        );
        self.tally.count(&events, measured, &world.manager);
        self.operator.accept(events);
    }

    /// Checks that the metrics agree with what has happened, and with the plugins that handlers
    /// know.
    fn check_metrics(&self) {
        let manager = &self.node.world.manager;
        let scraped = self.tally.check(manager);
        let registered = manager.registered().count() as u64;
        let state = [("state", "actual_state_of_world")];
        let actual = scraped.sum("plugin_manager_total_plugins", &state);
        assert_eq!(actual, registered, "the actual state of the world");
        if manager.is_idle() && self.node.restored.is_empty() {
            let state = self.oracle.lock();
            assert_eq!(actual, state.registered().count() as u64);
        }
    }

    /// Checks that a reader of the changes has the records, and lets another one read a little.
    fn check_readers(&mut self) {
        let manager = &self.node.world.manager;
        self.reader.check(manager);
        if self.reader_rng.one_in(8) {
            let count = self.reader_rng.below(0..6);
            self.slow_reader.read(manager, count);
        }
    }

    /// Ends all faults: plugins do everything right, handlers answer yes, and the watch receives
    /// every event.
    fn cease(&mut self) {
        self.say(format_args!("--- the faults cease"));
        self.node.world.is_slow = false;
        self.node.tree.is_used_up = false;
        self.node.finish_start();
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
        self.node.advance(BACKOFF_CAP + Duration::from_secs(30));
        self.end_announced();
    }

    fn converge(&mut self) {
        self.check_events();
        self.check_metrics();
        assert!(self.node.restored.is_empty(), "{:?}", self.node.restored);
        let manager = &self.node.world.manager;
        let running = PATHS.map(|path| manager.operation(Path::new(path)));
        assert!(manager.is_idle(), "operations still run: {running:?}");
        let is_hidden = |path: &Path| path.to_str().is_some_and(|path| path.contains("/."));
        let there: BTreeMap<_, _> = self
            .node
            .tree
            .sockets()
            .filter(|(path, _)| !is_hidden(path))
            .collect();
        let mut known = BTreeSet::new();
        for (path, socket) in manager.desired() {
            let place = manager.dial_path(path).expect("the socket is desired");
            let at_place = there.get(&*place).copied();
            assert_eq!(at_place, Some(socket.identity), "{path:?} is at {place:?}");
            assert!(known.insert(socket.identity), "{path:?} is known once");
            let plugin = manager.socket(path).and_then(|it| it.registered());
            let health = plugin.map(|it| it.health.down_since());
            assert_eq!(health, Some(None), "{path:?} is up");
        }
        let all: BTreeSet<Identity> = there.values().copied().collect();
        assert_eq!(known, all, "the desired sockets are those that exist");
        let left = world_plan(manager);
        assert_eq!(left, [], "the plan is empty");
        for path in there.into_keys() {
            let notified = self.node.world.notification_of(path);
            assert_eq!(
                notified,
                Some((true, "")),
                "{path:?} was notified of success"
            );
        }
    }

    fn vanish_all(&mut self) {
        for path in self.node.world.paths() {
            self.node.remove(&path);
        }
        self.node.hear_all();
        self.accept_events();
        self.check_metrics();
        let world = &mut self.node.world;
        let manager = &world.manager;
        assert!(manager.is_idle() && manager.sockets().next().is_none());
        self.slow_reader.check(manager);
        self.operator.check(manager);
        assert!(
            self.oracle.lock().phases.is_empty(),
            "everything was deregistered"
        );
        world.advance(OUTLIVED_GRACE);
        assert!(
            world.open_connections().is_empty(),
            "no connection is left open"
        );
        assert_eq!(world.watched_processes(), 0, "no process is watched");
        world.advance(Duration::from_secs(3600));
        let wake = world.manager.poll_timeout();
        assert_eq!(wake, None, "no deadline is left");
        let handlers = self.oracle.handlers();
        assert_eq!(handlers, 1, "handlers that were replaced are dropped");
    }
}

/// The number of times that a socket may be dialled within a moment: the retries of a dial, a
/// second connection for the outcome, and a check or two.
const DIALS_AT_ONCE: u64 = 20;

/// The limit of connections: one for each socket that exists or existed a moment ago.
const MAX_CONNECTIONS: usize = 64;

//! Random orders of events: a random world around the manager, in virtual time, and an oracle that
//! checks what must never happen.
//!
//! `cargo test` runs [`SEEDS`] seeds, or as many as the environment variable of that name sets. If
//! one fails, its number is printed; `SEED=n cargo test --test manager simulation -- --nocapture`
//! runs only that seed and prints its events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plugind::config::{BACKOFF_CAP, DEFAULT_TYPES, HANDLER_TIMEOUT, OUTLIVED_GRACE, STALLED_AFTER};
use plugind::handler::{
    Answer as Say, Context, Event, HandlerTable, Plugin, PluginHandler, Reason, Ticket,
};
use plugind::manager::{Guard, Input, Manager, OnDown};
use plugind::time::Time;
use plugind::watch::Identity;

use crate::node::{Node, ROOT};
use crate::rng::Rng;
use crate::script::{Answer, Script};
use crate::wanted::Wanted;
use crate::world::world_plan;

/// The number of seeds in every test run.
const SEEDS: u64 = 1000;

/// The number of events in one run before the faults cease.
const STEPS: usize = 300;

#[test]
fn whatever_happens_in_whatever_order_the_contract_is_kept_and_the_worlds_agree_in_the_end() {
    let variable = |name| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
    };
    if let Some(seed) = variable("SEED") {
        return Simulation::new(seed, true).run();
    }
    for seed in 0..variable("SEEDS").unwrap_or(SEEDS) {
        let failed = std::panic::catch_unwind(|| Simulation::new(seed, false).run()).is_err();
        assert!(!failed, "SEED={seed} replays the failure");
    }
}

// --- The oracle ----------------------------------------------------------------------------------

/// A handler that answers at random, from the seed, and checks its contract: per plugin name,
/// validate, then register, then deregister, each after the last question has been answered or
/// abandoned. Questions about two sockets of one name overlap only if one question stayed open for
/// [`STALLED_AFTER`]. Handlers that replace each other share this state: the handler that validated
/// a plugin receives all later questions about that plugin.
#[derive(Clone, Debug)]
struct Oracle {
    state: Arc<Mutex<OracleState>>,
    /// The number of handlers before this one.
    number: usize,
}

#[derive(Debug)]
struct OracleState {
    rng: Rng,
    /// Whether the faults have ceased: every answer is an immediate yes.
    is_honest: bool,
    /// The open question about the plugin behind each socket, and its time.
    open: BTreeMap<Arc<Path>, (Ticket, &'static str, Time)>,
    /// The sockets whose question stayed open for so long that others of the name went ahead.
    stalled: BTreeSet<Arc<Path>>,
    /// Tickets that were abandoned: an answer to them must not change anything.
    stale: Vec<Ticket>,
    /// The plugin behind each socket, and how far it is.
    phases: BTreeMap<Arc<Path>, (Arc<Plugin>, Phase)>,
    /// The handler that was asked to validate the plugin behind each socket.
    asked: BTreeMap<Arc<Path>, usize>,
    /// The effects that the handlers asked for.
    wanted: Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Validating,
    Valid,
    Registering,
    Registered,
    Deregistering,
}

fn name(plugin: &Plugin) -> (String, String) {
    (plugin.kind.clone(), plugin.name.clone())
}

impl OracleState {
    fn ask(&mut self, question: &'static str, plugin: &Arc<Plugin>, context: &Context<'_>) -> Say {
        let open = self.open.get(&plugin.socket);
        assert!(open.is_none(), "{question} {plugin} while {open:?} is open");
        let now = context.now();
        for (socket, (_, _, since)) in &self.open {
            if now.saturating_since(*since) >= STALLED_AFTER {
                self.stalled.insert(socket.clone());
            }
        }
        if question == "validate" {
            self.stalled.remove(&plugin.socket);
        }
        let is_held_up = |other: &Plugin| {
            let stalled = [&plugin.socket, &other.socket].map(|it| self.stalled.contains(it));
            stalled == [false; 2]
        };
        let busy = self.phases.values().find(|(other, phase)| {
            name(other) == name(plugin)
                && other.socket != plugin.socket
                && *phase != Phase::Registered
                && is_held_up(other)
        });
        assert!(
            busy.is_none(),
            "{question} {plugin} in the middle of {busy:?}"
        );
        let before = self
            .phases
            .get(&plugin.socket)
            .map(|(known, phase)| (known, *phase));
        let after = match (question, before) {
            ("validate", None) => Phase::Validating,
            ("register", Some((known, Phase::Valid))) if known == plugin => Phase::Registering,
            ("deregister", Some((known, Phase::Registered))) if known == plugin => {
                Phase::Deregistering
            }
            other => panic!("{plugin} at {:?}: {other:?}", plugin.socket),
        };
        self.phases
            .insert(plugin.socket.clone(), (plugin.clone(), after));
        let say = match self.rng.below(0..8) {
            _ if self.is_honest => Say::YES,
            0 => Say::no("the oracle says so"),
            1 | 2 => Say::Pending,
            _ => Say::YES,
        };
        match &say {
            Say::Done(result) => self.answered(question, &plugin.socket.clone(), result.is_ok()),
            Say::Pending => {
                let ticket = context.ticket().expect("a question has a ticket");
                self.open
                    .insert(plugin.socket.clone(), (ticket, question, now));
            }
        }
        say
    }

    fn answered(&mut self, question: &str, socket: &Arc<Path>, yes: bool) {
        let (_, phase) = self.phases.get_mut(socket).expect("it was asked about");
        match (question, yes) {
            ("validate", true) => *phase = Phase::Valid,
            ("register", true) => *phase = Phase::Registered,
            _ => {
                self.phases.remove(socket);
                self.wanted.cancelled(socket);
            }
        }
    }

    /// Abandons a question. A registration that is abandoned may have taken effect: the manager
    /// must undo it.
    fn abandon(&mut self, ticket: Ticket, now: Time) {
        let mut open = self.open.keys();
        let socket = open.find(|socket| self.open[*socket].0 == ticket).cloned();
        let socket = socket.expect("only open questions are abandoned");
        let question = self.close(&socket, now);
        self.stale.push(ticket);
        self.answered(question, &socket, question == "register");
    }

    /// Closes the open question about the plugin behind that socket, and returns the question.
    fn close(&mut self, socket: &Arc<Path>, now: Time) -> &'static str {
        let (_, question, since) = self.open.remove(socket).expect("the question is open");
        if now.saturating_since(since) >= STALLED_AFTER {
            self.stalled.insert(socket.clone());
        }
        question
    }
}

impl Oracle {
    fn lock(&self) -> std::sync::MutexGuard<'_, OracleState> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn ask(&self, question: &'static str, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Say {
        let mut state = self.lock();
        if question == "validate" {
            state.asked.insert(plugin.socket.clone(), self.number);
        } else if question == "deregister" {
            state.wanted.cancelled(&plugin.socket);
        }
        let asked = state.asked.get(&plugin.socket);
        assert_eq!(asked, Some(&self.number), "{question} {plugin}");
        let say = state.ask(question, plugin, context);
        if state.phases.contains_key(&plugin.socket) {
            state.wanted.ask(self.number, context);
        }
        say
    }
}

impl PluginHandler for Oracle {
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Say {
        self.ask("validate", plugin, context)
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Say {
        self.ask("register", plugin, context)
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Say {
        self.ask("deregister", plugin, context)
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) {
        let mut state = self.lock();
        let known = state.phases.get(&plugin.socket);
        assert_eq!(known, Some(&(plugin.clone(), Phase::Registered)));
        state.wanted.ask(self.number, context);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let wanted = &mut self.lock().wanted;
        wanted.happened(self.number, &event, context);
        wanted.ask(self.number, context);
    }

    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        self.lock().abandon(ticket, context.now());
    }
}

// --- The world -----------------------------------------------------------------------------------

struct Simulation {
    node: Node,
    oracle: Oracle,
    rng: Rng,
    /// The weight of each event in this run: some never happen, some all the time.
    weights: Vec<u64>,
    /// The time of the first dial of each socket, and the number of its dials.
    dials: BTreeMap<Identity, (Time, usize)>,
    is_loud: bool,
}

/// Few paths and few names, so that they often collide.
const PATHS: [&str; 7] = [
    "/r/a.sock",
    "/r/b.sock",
    "/r/d/a.sock",
    "/r/d/b.sock",
    "/r/d/e/a.sock",
    "/r/f/a.sock",
    "/r/.hidden.sock",
];
const DIRECTORIES: [&str; 4] = ["/r/d", "/r/d/e", "/r/f", "/r/.git"];
const NAMES: [&str; 3] = ["one", "two", "three"];

/// An event: its description, and what causes it.
type Happening = (&'static str, fn(&mut Simulation));

/// All events, each with its weight relative to the others.
const HAPPENINGS: [(u64, Happening); 18] = [
    (4, ("a plugin binds its socket", Simulation::bind)),
    (2, ("a path is removed", Simulation::remove)),
    (2, ("a socket is linked", Simulation::link)),
    (2, ("a directory is created", Simulation::make_directory)),
    (2, ("a path is moved", Simulation::rename)),
    (2, ("two paths are exchanged", Simulation::exchange)),
    (1, ("the root is removed", Simulation::remove_root)),
    (1, ("watches are used up, or freed", Simulation::use_up)),
    (8, ("the watch gets an event", Simulation::hear)),
    (2, ("the watch gets all events", Simulation::hear_all)),
    (24, ("data in flight arrives", Simulation::deliver)),
    (2, ("a connection is closed", Simulation::break_link)),
    (2, ("a plugin is killed", Simulation::kill)),
    (3, ("a handler answers", Simulation::answer)),
    (1, ("an answer is too late", Simulation::answer_too_late)),
    (3, ("a moment passes", Simulation::wait)),
    (1, ("a long time passes", Simulation::wait_long)),
    (1, ("the handlers change", Simulation::reconsider)),
];

impl Simulation {
    fn new(seed: u64, is_loud: bool) -> Self {
        let mut rng = Rng::new(seed);
        let state = OracleState {
            rng: Rng::new(!seed),
            is_honest: false,
            open: BTreeMap::new(),
            stalled: BTreeSet::new(),
            stale: Vec::new(),
            phases: BTreeMap::new(),
            asked: BTreeMap::new(),
            wanted: Wanted::new(seed),
        };
        let oracle = Oracle {
            state: Arc::new(Mutex::new(state)),
            number: 0,
        };
        let mut table = HandlerTable::new();
        table.add(DEFAULT_TYPES, oracle.clone());
        let mut node = Node::new(Manager::new(table));
        node.world.is_slow = true;
        node.world.is_loud = is_loud;
        if rng.one_in(2) {
            node.world.guard_by = Guard::Connection;
        }
        if rng.one_in(2) {
            let grace = Duration::from_secs(rng.below(0..60));
            node.world.manager.set_on_down(OnDown::Deregister(grace));
        }
        let weights = HAPPENINGS.iter().map(|(weight, _)| match rng.below(0..4) {
            0 => 0,
            1 => weight * 8,
            _ => weight * 2,
        });
        Self {
            node,
            oracle,
            weights: weights.collect(),
            rng,
            dials: BTreeMap::new(),
            is_loud,
        }
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            self.happen();
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

    fn path(&mut self) -> &'static str {
        self.rng.pick(&PATHS).expect("the list is not empty")
    }

    fn anything(&mut self) -> &'static str {
        let all = [&PATHS[..], &DIRECTORIES[..]].concat();
        self.rng.pick(&all).copied().expect("the list is not empty")
    }

    fn bind(&mut self) {
        let (path, script) = (self.path(), self.script());
        let moves_over = self.rng.one_in(4);
        self.say(format_args!("  {path} {moves_over}: {script:?}"));
        self.node.bind(path, script, moves_over);
    }

    fn remove(&mut self) {
        let path = self.anything();
        self.say(format_args!("  {path}"));
        self.node.remove(path);
    }

    fn link(&mut self) {
        let (from, to) = (self.path(), self.path());
        self.say(format_args!("  {from} = {to}"));
        self.node.link(from, to);
    }

    fn make_directory(&mut self) {
        let path = *self.rng.pick(&DIRECTORIES).expect("the list is not empty");
        self.say(format_args!("  {path}"));
        self.node.make_directory(path);
    }

    fn rename(&mut self) {
        let (from, to) = (self.anything(), self.anything());
        let to = (!self.rng.one_in(4)).then_some(to);
        self.say(format_args!("  {from} -> {to:?}"));
        self.node.rename(from, to);
    }

    fn exchange(&mut self) {
        let (a, b) = (self.anything(), self.anything());
        self.say(format_args!("  {a} <-> {b}"));
        self.node.exchange(a, b);
    }

    fn remove_root(&mut self) {
        self.node.remove(ROOT);
        if self.rng.one_in(2) {
            self.node.make_directory(ROOT);
        }
    }

    fn use_up(&mut self) {
        self.node.tree.is_used_up = self.rng.one_in(2);
    }

    fn hear(&mut self) {
        self.node.hear();
    }

    fn hear_all(&mut self) {
        self.node.hear_all();
    }

    fn break_link(&mut self) {
        let links = self.node.world.open_links();
        if let Some(link) = self.rng.pick(&links) {
            self.say(format_args!("  {link:?}"));
            self.node.world.break_link(*link);
        }
    }

    /// Kills a plugin, preferably a registered one.
    fn kill(&mut self) {
        let registered = self.node.world.manager.registered();
        let registered = registered.filter_map(|it| it.plugin.socket.to_str().map(str::to_owned));
        let registered: Vec<_> = registered.collect();
        let path = match self.rng.pick(&registered) {
            Some(path) => path.clone(),
            None => self.path().to_owned(),
        };
        self.say(format_args!("  {path}"));
        self.node.world.kill(&path);
    }

    fn wait(&mut self) {
        let by = Duration::from_millis(self.rng.below(0..3000));
        self.node.advance(by);
    }

    fn wait_long(&mut self) {
        self.node.advance(HANDLER_TIMEOUT);
    }

    fn reconsider(&mut self) {
        let now = self.node.world.now;
        let manager = &mut self.node.world.manager;
        if self.rng.one_in(2) {
            self.oracle.number += 1;
            manager.add_handler(DEFAULT_TYPES, self.oracle.clone(), now);
        } else {
            manager.handle_input(Input::Reconsider, now);
        }
        self.dials.clear();
    }

    /// Returns a random plugin for a new socket, or `None` if no process listens on it.
    fn script(&mut self) -> Option<Script> {
        if self.rng.one_in(6) {
            return None;
        }
        let unknown = self.rng.one_in(8);
        let kind = if unknown { "Unknown" } else { DEFAULT_TYPES[0] };
        let name = *self.rng.pick(&NAMES)?;
        let mut script = Script::good(kind, if self.rng.one_in(10) { "" } else { name });
        let endpoint = *self.rng.pick(&["", "", "/p/one.sock", "/p/two.sock"])?;
        script.info.endpoint = endpoint.into();
        script.get_info = self.misbehave();
        script.notify = self.misbehave();
        if self.rng.one_in(12) {
            script.babble = Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
        }
        Some(script)
    }

    fn misbehave(&mut self) -> Answer {
        match self.rng.below(0..16) {
            0 => Answer::Status(12, "unimplemented"),
            1 => Answer::Octets(vec![0xff]),
            2 => Answer::Silence,
            3 => Answer::Close,
            _ => Answer::Good,
        }
    }

    /// Delivers what is in flight first on one connection, perhaps only a part of it.
    fn deliver(&mut self) {
        let links = self.node.world.busy_links();
        if let Some(link) = self.rng.pick(&links).copied() {
            let at = usize::try_from(self.rng.below(1..40)).expect("a small number");
            self.node.world.split(link, at);
            self.say(format_args!("  {link:?}"));
            self.node.world.deliver(link);
        }
    }

    /// Answers a question that a handler left open.
    fn answer(&mut self) {
        let mut state = self.oracle.lock();
        let open: Vec<_> = state
            .open
            .iter()
            .map(|(socket, (ticket, ..))| (socket.clone(), *ticket))
            .collect();
        let Some((socket, ticket)) = self.rng.pick(&open) else {
            return;
        };
        let yes = state.is_honest || state.rng.below(0..3) > 0;
        let question = state.close(socket, self.node.world.now);
        state.answered(question, socket, yes);
        drop(state);
        self.say(format_args!("  {question} {socket:?}: {yes}"));
        let result = if yes {
            Ok(())
        } else {
            Err(Reason::new("no, after all"))
        };
        self.node.world.answer(*ticket, result);
    }

    /// Answers a question that was abandoned.
    fn answer_too_late(&mut self) {
        let stale = self.oracle.lock().stale.pop();
        if let Some(ticket) = stale {
            self.node.world.answer(ticket, Ok(()));
        }
    }

    /// Checks what must hold at every moment.
    fn check(&mut self) {
        let has_failed = self.oracle.state.is_poisoned();
        assert!(!has_failed, "the contract is broken: the handler panicked");
        let state = self.oracle.lock();
        let world = &mut self.node.world;
        for registered in world.manager.registered() {
            let path = &registered.plugin.socket;
            let known = state
                .phases
                .get(path)
                .map(|(plugin, phase)| (plugin, *phase));
            assert!(
                matches!(known, Some((plugin, Phase::Registering | Phase::Registered))
                    if *plugin == registered.plugin),
                "{path:?} is in the actual world, and its handler knows {known:?}"
            );
        }
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
        let links = world.open_links().len();
        assert!(links <= MAX_LINKS, "{links} connections are open");
    }

    /// Ends all faults: plugins do everything right, handlers answer yes, and the watch receives
    /// every event.
    fn cease(&mut self) {
        self.say(format_args!("--- the faults cease"));
        self.node.world.is_slow = false;
        self.node.tree.is_used_up = false;
        self.node.make_directory(ROOT);
        for path in self.node.world.paths() {
            self.node.world.behave(&path);
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
    }

    fn converge(&self) {
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
            let place = manager.place_of(path).expect("the socket is desired");
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
            let told = self.node.world.told_by(path);
            assert_eq!(told, Some((true, "")), "{path:?} was notified of success");
        }
    }

    fn vanish_all(&mut self) {
        for path in self.node.world.paths() {
            self.node.remove(&path);
        }
        self.node.hear_all();
        let world = &mut self.node.world;
        let manager = &world.manager;
        assert!(manager.is_idle() && manager.sockets().next().is_none());
        assert!(
            self.oracle.lock().phases.is_empty(),
            "everything was deregistered"
        );
        world.advance(OUTLIVED_GRACE);
        assert!(world.open_links().is_empty(), "no connection is left open");
        assert_eq!(world.guards(), 0, "no process is watched");
        world.advance(Duration::from_secs(3600));
        let wake = world.manager.poll_timeout();
        assert_eq!(wake, None, "no deadline is left");
        let handlers = Arc::strong_count(&self.oracle.state) - 1;
        assert_eq!(handlers, 1, "handlers that were replaced are dropped");
    }
}

/// The number of times that a socket may be dialled within a moment: the ladder, a second
/// connection for the outcome, and a check or two.
const DIALS_AT_ONCE: u64 = 20;

/// The limit of connections: one for each socket that exists or existed a moment ago.
const MAX_LINKS: usize = 64;

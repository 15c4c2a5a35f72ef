//! Orders of events that nobody thought of: a random world around the manager, in virtual time, and
//! an oracle that knows what must never happen.
//!
//! `cargo test` runs [`SEEDS`] seeds, or as many as the environment variable of that name says.
//! When one fails, its number is printed; `SEED=n cargo test --test manager simulation --
//! --nocapture` runs that one alone and prints what happened.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plugind::config::{BACKOFF_CAP, DEFAULT_TYPES, HANDLER_TIMEOUT};
use plugind::handler::{
    Answer as Say, Context, HandlerTable, Plugin, PluginHandler, Reason, Ticket,
};
use plugind::manager::reconcile::plan;
use plugind::manager::{Guard, Manager, OnDown};

use crate::rng::Rng;
use crate::script::{Answer, Script};
use crate::world::World;

/// How many seeds every test run tries.
const SEEDS: u64 = 512;

/// How many things happen in one run before the faults cease.
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

/// A handler that answers as the seed says, and knows its contract: per plugin name, validate, then
/// register, then deregister, each after the last has been answered or given up.
#[derive(Clone, Debug)]
struct Oracle(Arc<Mutex<OracleState>>);

#[derive(Debug)]
struct OracleState {
    rng: Rng,
    /// Once faults have ceased, every answer is an immediate yes.
    is_honest: bool,
    /// The question that is open about each plugin name.
    open: BTreeMap<(String, String), (Ticket, Question)>,
    /// Tickets whose time has passed: an answer to them must change nothing.
    stale: Vec<Ticket>,
    /// What is known of the plugin behind each socket.
    phases: BTreeMap<Arc<Path>, (Plugin, Phase)>,
}

type Question = (&'static str, Arc<Path>);

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
    fn ask(&mut self, question: &'static str, plugin: &Plugin, context: &Context<'_>) -> Say {
        let open = self.open.get(&name(plugin));
        assert!(open.is_none(), "{question} {plugin} while {open:?} is open");
        let busy = self.phases.values().find(|(other, phase)| {
            name(other) == name(plugin)
                && other.socket != plugin.socket
                && *phase != Phase::Registered
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
                    .insert(name(plugin), (ticket, (question, plugin.socket.clone())));
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
            }
        }
    }

    /// A registration that was given up may have taken hold: it must be undone.
    fn abandon(&mut self, ticket: Ticket) {
        let (name, question) = self
            .open
            .iter()
            .find(|(_, (open, _))| *open == ticket)
            .map(|(name, (_, question))| (name.clone(), question.clone()))
            .expect("only open questions are given up");
        self.open.remove(&name);
        self.stale.push(ticket);
        let (question, socket) = question;
        self.answered(question, &socket, question == "register");
    }
}

impl Oracle {
    fn lock(&self) -> std::sync::MutexGuard<'_, OracleState> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl PluginHandler for Oracle {
    fn validate(&mut self, plugin: &Plugin, context: &mut Context<'_>) -> Say {
        self.lock().ask("validate", plugin, context)
    }

    fn register(&mut self, plugin: &Plugin, context: &mut Context<'_>) -> Say {
        self.lock().ask("register", plugin, context)
    }

    fn deregister(&mut self, plugin: &Plugin, context: &mut Context<'_>) -> Say {
        self.lock().ask("deregister", plugin, context)
    }

    fn promoted(&mut self, plugin: &Plugin, _: &mut Context<'_>) {
        let state = self.lock();
        let known = state.phases.get(&plugin.socket);
        assert_eq!(known, Some(&(plugin.clone(), Phase::Registered)));
    }

    fn abandon(&mut self, ticket: Ticket, _: &mut Context<'_>) {
        self.lock().abandon(ticket);
    }
}

// --- The world -----------------------------------------------------------------------------------

struct Simulation {
    world: World,
    oracle: Oracle,
    rng: Rng,
    is_loud: bool,
}

/// Few paths and few names, so that everything meets everything.
const PATHS: [&str; 6] = [
    "/r/a.sock",
    "/r/b.sock",
    "/r/c.sock",
    "/r/d/a.sock",
    "/r/d/b.sock",
    "/r/e.sock",
];
const NAMES: [&str; 3] = ["one", "two", "three"];

impl Simulation {
    fn new(seed: u64, is_loud: bool) -> Self {
        let oracle = Oracle(Arc::new(Mutex::new(OracleState {
            rng: Rng::new(!seed),
            is_honest: false,
            open: BTreeMap::new(),
            stale: Vec::new(),
            phases: BTreeMap::new(),
        })));
        let mut table = HandlerTable::new();
        table.add(DEFAULT_TYPES, oracle.clone());
        let mut world = World::with(Manager::new(table));
        let mut rng = Rng::new(seed);
        world.is_slow = true;
        if rng.one_in(2) {
            world.guard_by = Guard::Connection;
        }
        if rng.one_in(2) {
            let grace = Duration::from_secs(rng.below(0..60));
            world.manager.set_on_down(OnDown::Deregister(grace));
        }
        Self {
            world,
            oracle,
            rng,
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
            println!("{:?} {what}", self.world.now);
        }
    }

    /// Something happens.
    fn happen(&mut self) {
        let path = *self.rng.pick(&PATHS).expect("there are some");
        match self.rng.below(0..16) {
            0 | 1 => {
                let script = self.script();
                self.say(format_args!("{path} appears: {script:?}"));
                self.world.create(path, script);
                self.world.notice(path);
            }
            2 => {
                self.say(format_args!("{path} goes"));
                self.world.remove(path);
                self.world.notice(path);
            }
            3 => {
                self.say(format_args!("{path} is replaced unnoticed"));
                let script = self.script();
                self.world.create(path, script);
            }
            4 => {
                self.say(format_args!("{path} is looked at"));
                self.world.notice(path);
            }
            5 => {
                let links = self.world.open_links();
                if let Some(link) = self.rng.pick(&links) {
                    self.say(format_args!("{link:?} breaks"));
                    self.world.break_link(*link);
                }
            }
            6 | 7 => self.answer(),
            8 => {
                let by = Duration::from_millis(self.rng.below(0..3000));
                self.say(format_args!("{by:?} pass"));
                self.world.advance(by);
            }
            9 if self.rng.one_in(2) => {
                self.say(format_args!("{path} is killed"));
                self.world.kill(path);
            }
            10 if self.rng.one_in(8) => {
                self.say(format_args!("a long time passes"));
                self.world.advance(HANDLER_TIMEOUT);
            }
            _ => self.deliver(),
        }
        self.world.run();
    }

    /// A plugin, or nobody, for a new socket.
    fn script(&mut self) -> Option<Script> {
        if self.rng.one_in(6) {
            return None;
        }
        let kind = if self.rng.one_in(8) {
            "Unknown"
        } else {
            DEFAULT_TYPES[0]
        };
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

    /// Something that is on its way arrives, perhaps in part.
    fn deliver(&mut self) {
        let links = self.world.busy_links();
        if let Some(link) = self.rng.pick(&links).copied() {
            let at = usize::try_from(self.rng.below(1..40)).expect("a small number");
            self.world.split(link, at);
            self.say(format_args!("news for {link:?}"));
            self.world.deliver(link);
        }
    }

    /// A handler answers a question that it left open; or one for which nobody waits any more.
    fn answer(&mut self) {
        let mut state = self.oracle.lock();
        let (open, stale): (Vec<_>, _) = (
            state
                .open
                .iter()
                .map(|(name, it)| (name.clone(), it.clone()))
                .collect(),
            state.stale.pop(),
        );
        let yes = state.rng.below(0..3) > 0;
        if let Some(ticket) = stale {
            drop(state);
            self.say(format_args!("{ticket:?} is answered too late"));
            return self.world.answer(ticket, Ok(()));
        }
        let Some((name, (ticket, (question, socket)))) = self.rng.pick(&open) else {
            return;
        };
        state.open.remove(name);
        state.answered(question, socket, yes);
        drop(state);
        self.say(format_args!("{question} {socket:?} is answered: {yes}"));
        let result = if yes {
            Ok(())
        } else {
            Err(Reason::new("no, after all"))
        };
        self.world.answer(*ticket, result);
    }

    /// What must hold at every moment.
    fn check(&mut self) {
        let state = self.oracle.lock();
        for (path, registered) in self.world.manager.actual().iter() {
            let known = state
                .phases
                .get(path)
                .map(|(plugin, phase)| (plugin, *phase));
            assert!(
                matches!(known, Some((plugin, Phase::Registering | Phase::Registered))
                    if *plugin == *registered.plugin),
                "{path:?} is in the actual world, and its handler knows {known:?}"
            );
        }
        if let Some((at, why)) = self.world.manager.poll_timeout() {
            assert!(at > self.world.now, "{why:?} is due since {at:?}");
        }
    }

    /// Plugins behave from now on, handlers say yes, and nothing goes unnoticed.
    fn cease(&mut self) {
        self.say(format_args!("--- the faults cease"));
        self.world.is_slow = false;
        for path in PATHS {
            self.world.behave(path);
            self.world.notice(path);
        }
        self.oracle.lock().is_honest = true;
        while !self.oracle.lock().open.is_empty() {
            self.answer();
        }
        self.world.run();
        self.world.advance(HANDLER_TIMEOUT + 2 * BACKOFF_CAP);
    }

    fn converge(&self) {
        let manager = &self.world.manager;
        let running = PATHS.map(|path| manager.operation(Path::new(path)));
        assert!(manager.is_idle(), "what still runs: {running:?}");
        let there: Vec<_> = PATHS
            .iter()
            .filter_map(|path| Some((Path::new(path), self.world.identity(path)?)))
            .collect();
        let desired: Vec<_> = manager
            .desired()
            .iter()
            .map(|(path, socket)| (&**path, socket.identity))
            .collect();
        let mut sorted = there.clone();
        sorted.sort();
        assert_eq!(desired, sorted, "what is desired is what is there");
        assert_eq!(
            plan(manager.desired(), manager.actual()),
            [],
            "nothing is left to do"
        );
        for path in PATHS
            .iter()
            .filter(|path| self.world.identity(path).is_some())
        {
            let told = self.world.told_by(path);
            assert_eq!(told, Some((true, "")), "{path} believes it is registered");
        }
    }

    fn vanish_all(&mut self) {
        for path in PATHS {
            self.world.vanish(path);
        }
        let manager = &self.world.manager;
        assert!(manager.is_idle() && manager.desired().is_empty() && manager.actual().is_empty());
        assert!(
            self.oracle.lock().phases.is_empty(),
            "everything was deregistered"
        );
        assert!(
            self.world.open_links().is_empty(),
            "no connection is left open"
        );
        self.world.advance(Duration::from_secs(3600));
        assert_eq!(
            self.world.manager.poll_timeout(),
            None,
            "nothing is worth waking up for"
        );
    }
}

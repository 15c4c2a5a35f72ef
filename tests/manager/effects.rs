//! Effects belong to plugins: which of them are cancelled, when, and what their events name.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plugind::config::DEFAULT_TYPES;
use plugind::handler::{
    Answer as HandlerAnswer, Call, Context, Event, HandlerTable, Plugin, PluginHandler, Program,
    Stream, Ticket,
};
use plugind::manager::{Manager, Timer};

use crate::script::{Answer, Script, WATCH};
use crate::world::World;

const A: &str = "/r/a.sock";
const B: &str = "/r/b.sock";
/// The endpoint of every plugin.
pub(crate) const ENDPOINT: &str = "/p/endpoint.sock";
/// The length of every timer.
pub(crate) const PAUSE: Duration = Duration::from_secs(60);

/// An effect to ask for, for the plugin in question unless it is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Timer,
    DetachedTimer,
    Call,
    Stream,
    Connection,
    Program,
    /// A debt, which is not settled.
    Debt,
}

/// What a [`Scripted`] handler is to do, and what it was told; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan(Arc<Mutex<PlanState>>);

#[derive(Debug, Default)]
struct PlanState {
    /// The steps to take in the next calls that have this name.
    steps: VecDeque<(&'static str, Vec<Ask>, HandlerAnswer)>,
    tickets: Vec<Ticket>,
    notified: Vec<String>,
}

impl Plan {
    fn lock(&self) -> MutexGuard<'_, PlanState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the handler ask for effects in the next call of a method, and answer that.
    pub(crate) fn then(&self, method: &'static str, asks: &[Ask], say: HandlerAnswer) {
        let step = (method, asks.to_vec(), say);
        self.lock().steps.push_back(step);
    }

    /// Returns what the handler was told since the last call.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.lock().notified).join(", ")
    }

    /// Returns whether the handler still exists.
    pub(crate) fn is_followed(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Returns the last question that was left open.
    pub(crate) fn ticket(&self) -> Ticket {
        self.lock().tickets.pop().expect("a question is open")
    }

    fn called(&self, method: &'static str, context: &mut Context<'_>) -> HandlerAnswer {
        let mut state = self.lock();
        let mut line = method.to_owned();
        if let Some(plugin) = context.plugin() {
            write!(line, " {}", plugin.name).expect("a string can be written to");
        }
        state.notified.push(line);
        let is_next = state
            .steps
            .front()
            .is_some_and(|(next, ..)| *next == method);
        let step = is_next.then(|| state.steps.pop_front()).flatten();
        let (_, asks, say) = step.unwrap_or((method, Vec::new(), HandlerAnswer::YES));
        if say == HandlerAnswer::Pending {
            state.tickets.extend(context.ticket());
        }
        for asked in asks {
            ask(asked, context);
        }
        say
    }
}

fn ask(effect: Ask, context: &mut Context<'_>) {
    let endpoint: Arc<Path> = Path::new(ENDPOINT).into();
    let _id = match effect {
        Ask::Timer => context.set_timer(PAUSE),
        Ask::DetachedTimer => context.detached().set_timer(PAUSE),
        Ask::Call => context.call(Call {
            endpoint,
            method: "/a.B/C",
            request: Vec::new(),
            timeout: 2 * PAUSE,
            wait_for_ready: false,
        }),
        Ask::Stream => context.stream(Stream {
            endpoint,
            method: WATCH,
            request: Vec::new(),
            dial_timeout: PAUSE,
        }),
        Ask::Connection => context.connect(endpoint),
        Ask::Program => context.spawn(program()),
        Ask::Debt => {
            let plugin = context.plugin().expect("the call is about a plugin");
            context.owe(plugin.clone())
        }
    };
}

fn program() -> Program {
    Program {
        path: "/lib/hook".into(),
        arguments: Vec::new(),
        environment: Vec::new(),
        input: Vec::new(),
        timeout: PAUSE,
    }
}

/// A handler that follows a [`Plan`].
#[derive(Debug)]
pub(crate) struct Scripted(pub(crate) Plan);

impl PluginHandler for Scripted {
    fn validate(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        self.0.called("validate", context)
    }

    fn register(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        self.0.called("register", context)
    }

    fn deregister(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        self.0.called("deregister", context)
    }

    fn registered(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) {
        self.0.called("registered", context);
    }

    fn promoted(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) {
        self.0.called("promoted", context);
    }

    fn abandon(&mut self, _: Ticket, context: &mut Context<'_>) {
        self.0.called("abandon", context);
    }

    fn resume_deregistration(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) -> bool {
        self.0.called("resume", context);
        true
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        let name = match event {
            Event::TimerFired { .. } => "fired",
            Event::Called { .. } => "called",
            Event::StreamMessage { .. } => "message",
            Event::StreamEnded { .. } => "ended",
            Event::Connected { .. } => "connected",
            Event::Disconnected { .. } => "disconnected",
            Event::ProgramEnded { .. } => "program",
        };
        self.0.called(name, context);
    }
}

/// Returns a world with an endpoint that never answers calls, and the plan of its handler.
pub(crate) fn planned() -> (World, Plan) {
    let plan = Plan::default();
    let mut table = HandlerTable::new();
    table.add(DEFAULT_TYPES, Scripted(plan.clone()));
    let mut world = World::with(Manager::new(table));
    let endpoint = Script::serving([
        ("/a.B/C", Answer::Silence),
        (WATCH, Answer::Stream(vec![b"one".to_vec()])),
    ]);
    world.create(ENDPOINT, endpoint);
    (world, plan)
}

fn appear(world: &mut World, path: &str, name: &str) {
    world.appear(path, Script::good("CSIPlugin", name));
}

/// Returns the number of deadlines of effects that pass within the next hours, by letting them.
fn timers_left(world: &mut World) -> usize {
    let mut left = 0;
    while let Some((at, timer)) = world.manager.poll_timeout() {
        left += usize::from(matches!(timer, Timer::Effect(_)));
        world.advance(at.saturating_since(world.now));
    }
    left
}

const ALL: [Ask; 5] = [
    Ask::Timer,
    Ask::Call,
    Ask::Stream,
    Ask::Connection,
    Ask::Program,
];

#[test]
fn what_is_open_for_a_plugin_is_cancelled_before_it_goes() {
    let (mut world, plan) = planned();
    plan.then("register", &ALL, HandlerAnswer::YES);
    appear(&mut world, A, "a");
    let before = "validate a, register a, connected a, message a, registered a";
    let mut notified: Vec<_> = plan.take().split(", ").map(str::to_owned).collect();
    notified.sort_unstable();
    let mut expected: Vec<_> = before.split(", ").collect();
    expected.sort_unstable();
    assert_eq!(notified, expected);
    assert_eq!((world.open_to(ENDPOINT), world.programs.len()), (3, 1));
    plan.then("deregister", &[], HandlerAnswer::Pending);
    world.vanish(A);
    assert_eq!(plan.take(), "deregister a");
    assert_eq!((world.open_to(ENDPOINT), world.programs.len()), (0, 0));
    assert_eq!(world.killed.len(), 1);
    world.answer(plan.ticket(), Ok(()));
    assert_eq!((timers_left(&mut world), plan.take()), (0, String::new()));
}

#[test]
fn the_effects_of_another_plugin_stay_open() {
    let (mut world, plan) = planned();
    for (path, name) in [(A, "a"), (B, "b")] {
        plan.then("register", &[Ask::Stream, Ask::Timer], HandlerAnswer::YES);
        appear(&mut world, path, name);
    }
    plan.take();
    world.vanish(A);
    assert_eq!(
        (plan.take().as_str(), world.open_to(ENDPOINT)),
        ("deregister a", 1)
    );
    plan.then("fired", &[Ask::Timer], HandlerAnswer::YES);
    world.push(ENDPOINT, b"two");
    world.advance(PAUSE);
    world.advance(PAUSE);
    assert_eq!(plan.take(), "message b, fired b, fired b");
}

#[test]
fn a_detached_effect_outlives_its_plugin() {
    let (mut world, plan) = planned();
    plan.then("register", &[Ask::DetachedTimer], HandlerAnswer::YES);
    appear(&mut world, A, "a");
    world.vanish(A);
    plan.take();
    plan.then("fired", &[Ask::Timer], HandlerAnswer::YES);
    world.advance(PAUSE);
    world.advance(PAUSE);
    assert_eq!(plan.take(), "fired, fired");
}

#[test]
fn what_a_handler_comes_to_owe_is_saved() {
    let (mut world, plan) = planned();
    plan.then("register", &[Ask::Timer], HandlerAnswer::YES);
    appear(&mut world, A, "a");
    plan.then("fired", &[Ask::Debt], HandlerAnswer::YES);
    let revision = world.manager.revision();
    world.advance(PAUSE);
    assert_ne!(
        world.manager.revision(),
        revision,
        "the file is out of date"
    );
}

#[test]
fn a_deregistration_that_is_resumed_is_saved_no_longer() {
    let (mut world, plan) = planned();
    appear(&mut world, A, "a");
    plan.then("deregister", &[Ask::Debt], HandlerAnswer::YES);
    world.vanish(A);
    let saved = world.saved();
    let (mut world, plan) = planned();
    world.manager.restore(saved);
    let revision = world.manager.revision();
    world.manager.handle_timeout(world.now);
    assert_eq!(plan.take(), "resume");
    assert_ne!(
        world.manager.revision(),
        revision,
        "the file is out of date"
    );
    let saved = world.manager.snapshot("boot").encode();
    assert!(!String::from_utf8_lossy(&saved).contains(A));
}

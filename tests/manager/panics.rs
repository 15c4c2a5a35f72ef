//! Handlers that panic: their plugins are refused, and nothing else is held up.

#[path = "../handlers/log.rs"]
mod log;

use std::sync::Arc;
use std::time::Duration;

use plugind::config::{BACKOFF_CAP, DEFAULT_TYPES, Mode};
use plugind::handler::{
    Answer as HandlerAnswer, Context, EndpointUse, Event, HandlerTable, Plugin, PluginHandler,
    Reason, Ticket,
};
use plugind::manager::{Manager, SavedState};

use crate::effects::{Ask, ENDPOINT, PAUSE, Plan, Scripted, planned};
use crate::script::{Answer, Script};
use crate::world::{Log, Recorder, World};

const A: &str = "/r/a.sock";
const B: &str = "/r/b.sock";
const OTHER: &str = "/r/other.sock";
const FAILED: &str = "the handler for plugins of this type has failed";

/// A [`Scripted`] handler that panics in one of its methods.
#[derive(Debug)]
struct Panicking {
    inner: Scripted,
    method: &'static str,
}

impl Panicking {
    fn before(&self, method: &str) {
        assert!(self.method != method, "{method} panics");
    }
}

impl PluginHandler for Panicking {
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        self.before("validate");
        self.inner.validate(plugin, context)
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        let say = self.inner.register(plugin, context);
        self.before("register");
        say
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> HandlerAnswer {
        self.before("deregister");
        self.inner.deregister(plugin, context)
    }

    fn registered(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) {
        self.before("registered");
    }

    fn promoted(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) {
        self.before("promoted");
    }

    fn abandon(&mut self, ticket: Ticket, context: &mut Context<'_>) {
        self.before("abandon");
        self.inner.abandon(ticket, context);
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        self.before("handle_event");
        self.inner.handle_event(event, context);
    }

    fn endpoint_taken(&self, _: &Plugin) -> Option<Reason> {
        self.before("endpoint_taken");
        None
    }

    fn endpoint_use(&self) -> EndpointUse {
        self.before("endpoint_use");
        EndpointUse::None
    }

    fn resume_deregistration(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> bool {
        self.before("resume_deregistration");
        true
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        assert!(self.method != "drop", "drop panics");
    }
}

/// Returns a world whose handler for CSI plugins panics in that method, its plan, and what the
/// handler for the other types records.
fn panicking(method: &'static str) -> (World, Plan, Log) {
    let (log, plan) = (Log::default(), Plan::default());
    let mut table = HandlerTable::new();
    table.add(DEFAULT_TYPES, Recorder(log.clone()));
    let inner = Scripted(plan.clone());
    table.add(["CSIPlugin"], Panicking { inner, method });
    let mut world = World::with(Manager::new(table));
    let endpoint = Script::serving([("/a.B/C", Answer::Silence)]);
    world.create(ENDPOINT, endpoint);
    (world, plan, log)
}

fn appear(world: &mut World, path: &str, name: &str) {
    world.appear(path, Script::good("CSIPlugin", name));
}

/// Checks that plugins of other types are registered and deregistered, and that the handler that
/// has panicked is not asked again and has nothing open.
#[track_caller]
fn assert_given_up(world: &mut World, plan: &Plan, log: &Log) {
    assert!(!plan.is_followed(), "the handler is dropped");
    assert_eq!(world.open_to(ENDPOINT), 0);
    log.take();
    world.appear(OTHER, Script::good("DRAPlugin", "other"));
    world.vanish(OTHER);
    assert_eq!(
        log.take(),
        "validate other, register other, deregister other"
    );
    plan.take();
    appear(world, "/r/late.sock", "late");
    let expected = format!("RegisterPlugin error -- plugin validation failed with err: {FAILED}");
    let notified = world.plugin("/r/late.sock").last_notified();
    assert_eq!(notified, Some((false, &*expected)));
    world.advance(2 * BACKOFF_CAP);
    assert_eq!(plan.take(), "");
    for path in [A, B, "/r/late.sock"] {
        world.vanish(path);
    }
    assert_eq!((world.counts(), plan.take().as_str()), ((0, 0), ""));
    assert!(world.manager.is_idle());
}

#[test]
fn a_plugin_whose_validation_panics_is_told_so() {
    let (mut world, plan, log) = panicking("validate");
    appear(&mut world, A, "a");
    let (is_registered, notified) = world.plugin(A).last_notified().expect("it was notified");
    assert!(!is_registered && notified.ends_with(FAILED), "{notified}");
    assert_given_up(&mut world, &plan, &log);
}

#[test]
fn a_plugin_whose_registration_panics_is_told_so_and_what_was_asked_for_is_dropped() {
    let (mut world, plan, log) = panicking("register");
    let asks = [Ask::Stream, Ask::Program, Ask::DetachedTimer];
    plan.then("register", &asks, HandlerAnswer::YES);
    appear(&mut world, A, "a");
    let expected = format!("RegisterPlugin error -- plugin registration failed with err: {FAILED}");
    assert_eq!(world.plugin(A).last_notified(), Some((false, &*expected)));
    assert!(world.programs.is_empty());
    assert_eq!(world.counts(), (1, 0));
    assert_given_up(&mut world, &plan, &log);
}

#[test]
fn a_plugin_whose_deregistration_panics_is_gone_with_an_error_and_a_warning() {
    let (mut world, plan, log) = panicking("deregister");
    appear(&mut world, A, "a");
    assert_eq!(world.counts(), (1, 1));
    log::collect();
    world.vanish(A);
    assert_eq!(world.counts(), (0, 0));
    let lines = log::take();
    let [error, warning] = &lines[..] else {
        panic!("two lines");
    };
    assert_eq!(
        error,
        "a handler panicked and is not asked again, so its plugins are refused: \
         deregister panics types=CSIPlugin"
    );
    let undone = format!("what its registration set up was not undone: {FAILED}");
    assert!(warning.contains(&undone), "{warning}");
    assert_given_up(&mut world, &plan, &log);
}

#[test]
fn an_event_that_panics_ends_the_questions_and_effects_of_all_plugins_of_the_handler() {
    let (mut world, plan, log) = panicking("handle_event");
    plan.then("register", &[Ask::Timer, Ask::Call], HandlerAnswer::YES);
    appear(&mut world, A, "a");
    let moment = Duration::from_secs(1);
    world.advance(PAUSE.saturating_sub(moment));
    let asks = [Ask::Program, Ask::Call, Ask::DetachedTimer];
    plan.then("register", &asks, HandlerAnswer::Pending);
    appear(&mut world, B, "b");
    assert_eq!((world.programs.len(), world.open_to(ENDPOINT)), (1, 2));
    world.advance(moment);
    let (is_registered, notified) = world.plugin(B).last_notified().expect("it was notified");
    assert!(!is_registered && notified.ends_with(FAILED), "{notified}");
    assert_eq!((world.programs.len(), world.open_to(ENDPOINT)), (0, 0));
    assert_eq!(world.counts(), (2, 1), "the other plugin stays registered");
    assert_given_up(&mut world, &plan, &log);
}

#[test]
fn a_handler_that_panics_otherwise_is_given_up_too() {
    for method in ["registered", "promoted", "endpoint_taken"] {
        let (mut world, plan, log) = panicking(method);
        appear(&mut world, A, "a");
        let mut again = Script::good("CSIPlugin", "a");
        again.info.endpoint = A.into();
        world.appear(B, again);
        world.vanish(B);
        assert_given_up(&mut world, &plan, &log);
    }
}

#[test]
fn a_question_that_is_abandoned_with_a_panic_is_abandoned() {
    let (mut world, plan, log) = panicking("abandon");
    plan.then("register", &[Ask::Stream], HandlerAnswer::Pending);
    appear(&mut world, A, "a");
    world.vanish(A);
    assert_eq!(world.counts(), (0, 0));
    assert_given_up(&mut world, &plan, &log);
}

#[test]
fn a_dry_run_goes_on_when_a_handler_panics() {
    let (mut world, plan, log) = panicking("endpoint_use");
    world.manager.set_mode(Mode::Observe);
    let mut plugin = Script::good("CSIPlugin", "a");
    plugin.info.endpoint = ENDPOINT.into();
    world.appear(A, plugin);
    assert!(!plan.is_followed());
    world.manager.set_mode(Mode::Register);
    assert_given_up(&mut world, &plan, &log);
}

#[test]
fn a_debt_whose_deregistration_panics_is_kept_for_the_next_process() {
    let (mut world, plan) = planned();
    appear(&mut world, A, "a");
    plan.then("deregister", &[Ask::Debt], HandlerAnswer::YES);
    world.vanish(A);
    let mut saved = world.manager.snapshot("boot").encode();
    for _ in 0..2 {
        let (mut world, plan, _) = panicking("resume_deregistration");
        let state = SavedState::decode(&saved, "boot").expect("it was just written");
        world.manager.restore(state);
        world.manager.handle_timeout(world.now);
        assert!(!plan.is_followed());
        saved = world.manager.snapshot("boot").encode();
    }
}

#[test]
fn another_handler_takes_over_the_plugins_of_one_that_has_panicked() {
    let (mut world, plan, _) = panicking("handle_event");
    plan.then("register", &[Ask::Timer], HandlerAnswer::YES);
    appear(&mut world, A, "a");
    world.advance(PAUSE);
    assert!(!plan.is_followed());
    appear(&mut world, B, "b");
    let log = Log::default();
    let now = world.now;
    let handler = Recorder(log.clone());
    world.manager.add_handler(["CSIPlugin"], handler, now);
    world.run();
    let mut notified: Vec<_> = log.take().split(", ").map(str::to_owned).collect();
    notified.sort_unstable();
    assert_eq!(
        notified,
        ["register a", "register b", "validate a", "validate b"]
    );
    assert_eq!(world.counts(), (2, 2));
}

#[test]
fn a_handler_that_panics_when_it_is_dropped_is_dropped_once() {
    let (mut world, plan, _) = panicking("drop");
    appear(&mut world, A, "a");
    let log = Log::default();
    let now = world.now;
    let handler = Recorder(log.clone());
    world.manager.add_handler(["CSIPlugin"], handler, now);
    world.run();
    assert!(!plan.is_followed());
    assert_eq!(log.take(), "validate a, register a");
}

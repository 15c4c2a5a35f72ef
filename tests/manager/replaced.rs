//! Handlers that are added and replaced while the daemon runs, in virtual time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use plugind::handler::{Answer, Context, Event, HandlerTable, Plugin, PluginHandler};
use plugind::manager::Manager;

use crate::script::Script;
use crate::world::{Log, Recorder, World, YES};

const A: &str = "/r/a.sock";
const B: &str = "/r/b.sock";
/// The length of every timer.
const PAUSE: Duration = Duration::from_secs(60);

/// Adds a handler for a type. Returns what it records.
fn add(world: &mut World, kind: &str) -> Log {
    let log = Log::default();
    let recorder = Recorder(log.clone());
    world.manager.add_handler([kind], recorder, world.now);
    world.run();
    log
}

#[test]
fn a_plugin_that_was_refused_is_registered_at_once() {
    let mut world = World::new();
    world.appear(A, Script::good("Toaster", "a"));
    assert!(world.plugin(A).last_notified().is_some_and(|it| !it.0));
    let toasters = add(&mut world, "Toaster");
    assert_eq!(toasters.take(), "validate a, register a");
    assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
    assert_eq!(world.handler_calls(), "", "the other handler is not asked");
}

#[test]
fn a_plugin_that_is_being_refused_is_registered_at_once() {
    let mut world = World::new();
    world.is_slow = true;
    world.appear(B, Script::good("Toaster", "b"));
    world.deliver_until(B, "Notifying");
    world.is_slow = false;
    let toasters = add(&mut world, "Toaster");
    assert!(toasters.take().contains("register b"));
    assert_eq!(world.plugin(B).last_notified(), Some((true, "")));
}

/// What a handler asks for when its plugin is deregistered.
#[derive(Clone, Copy, Debug)]
enum Ask {
    /// A timer, and another one when it has fired.
    DetachedTimers,
    Debt,
}

/// A handler that asks for something when its plugin is deregistered.
#[derive(Debug)]
struct Leaving {
    asks: Ask,
    /// Whether its first timer has fired. It exists as long as the handler does.
    has_fired: Arc<AtomicBool>,
}

impl PluginHandler for Leaving {
    fn validate(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        YES
    }

    fn register(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        YES
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let _id = match self.asks {
            Ask::DetachedTimers => context.detached().set_timer(PAUSE),
            Ask::Debt => context.owe(plugin.clone()),
        };
        YES
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        assert!(matches!(event, Event::TimerFired { .. }), "{event:?}");
        if !self.has_fired.swap(true, Relaxed) {
            let _id = context.detached().set_timer(PAUSE);
        }
    }
}

/// Returns a world in which a handler that asks for this was replaced, and what exists as long as
/// that handler.
fn after_leaving(asks: Ask) -> (World, Weak<AtomicBool>) {
    let has_fired = Arc::default();
    let handler = Arc::downgrade(&has_fired);
    let mut table = HandlerTable::new();
    table.add(["CSIPlugin"], Leaving { asks, has_fired });
    let mut world = World::with(Manager::new(table));
    world.appear(A, Script::csi("a"));
    let new = add(&mut world, "CSIPlugin");
    assert_eq!(new.take(), "validate a, register a");
    (world, handler)
}

#[test]
fn a_handler_that_is_replaced_is_kept_for_a_detached_effect() {
    let (mut world, handler) = after_leaving(Ask::DetachedTimers);
    world.advance(PAUSE);
    assert!(handler.upgrade().is_some(), "a timer is set");
    world.advance(PAUSE);
    assert!(handler.upgrade().is_none());
}

#[test]
fn a_handler_that_is_replaced_is_kept_for_a_debt() {
    let (_world, handler) = after_leaving(Ask::Debt);
    assert!(handler.upgrade().is_some());
}

#[test]
fn a_thousand_plugins_do_not_notice_other_types_change() {
    let mut world = World::new();
    for n in 0..1000 {
        let path = format!("/r/{n}.sock");
        world.appear(&path, Script::csi(&n.to_string()));
    }
    let toasters = add(&mut world, "Toaster");
    world.appear("/r/t.sock", Script::good("Toaster", "t"));
    assert_eq!(world.counts(), (1001, 1001));
    world.handler_calls();
    toasters.take();
    let (generation, now) = (world.manager.generation(), world.now);
    world.manager.change_handlers(
        |table| {
            table.unassign("Toaster");
            table.add(["Kettle"], Recorder(toasters.clone()));
        },
        now,
    );
    world.run();
    world.assert_calls("");
    assert_eq!(toasters.take(), "deregister t");
    // Events and changes of records: those of the one plugin.
    let count = world.manager.generation() - generation;
    assert!((2..20).contains(&count), "{count}");
    assert_eq!(world.counts(), (1001, 1000));
}

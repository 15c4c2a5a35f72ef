//! Handlers that are added and replaced while the daemon runs, in virtual time.

use std::path::Path;

use plugind::config::DEFAULT_TYPES;

use crate::effects::{Ask, PAUSE, planned};
use crate::script::Script;
use crate::world::{Log, Recorder, World, YES};

const A: &str = "/r/a.sock";
const B: &str = "/r/b.sock";

/// Adds a handler for a type. Returns what it records.
fn add(world: &mut World, kind: &str) -> Log {
    let log = Log::default();
    let now = world.now;
    world
        .manager
        .add_handler([kind], Recorder(log.clone()), now);
    world.run();
    log
}

#[test]
fn a_plugin_that_was_refused_is_registered_at_once() {
    let mut world = World::new();
    world.appear(A, Script::good("Toaster", "a"));
    assert_eq!(
        world.plugin(A).last_notified().map(|(yes, _)| yes),
        Some(false)
    );
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
    while world.operation(Path::new(B)) != Some("Notifying") {
        let conn = world.busy_connections()[0];
        world.deliver(conn);
        world.run();
    }
    world.is_slow = false;
    let toasters = add(&mut world, "Toaster");
    assert!(toasters.take().contains("register b"));
    assert_eq!(world.plugin(B).last_notified(), Some((true, "")));
}

#[test]
fn registered_plugins_move_from_the_handler_that_is_replaced() {
    let mut world = World::new();
    world.appear(A, Script::good("CSIPlugin", "a"));
    world.appear(B, Script::good("DRAPlugin", "b"));
    world.handler_calls();
    let new = add(&mut world, "CSIPlugin");
    assert_eq!(world.handler_calls(), "deregister a");
    assert_eq!(new.take(), "validate a, register a");
    assert_eq!(world.counts(), (2, 2));
    world.vanish(A);
    assert_eq!(world.handler_calls(), "");
    assert_eq!(new.take(), "deregister a");
}

#[test]
fn a_handler_that_is_replaced_is_kept_for_a_detached_effect() {
    let (mut world, plan) = planned();
    world.appear(A, Script::good("CSIPlugin", "a"));
    plan.then("deregister", &[Ask::DetachedTimer], YES);
    plan.then("fired", &[Ask::DetachedTimer], YES);
    let now = world.now;
    let handler = Recorder(Log::default());
    world.manager.add_handler(DEFAULT_TYPES, handler, now);
    world.run();
    world.advance(PAUSE);
    assert!(plan.is_followed(), "a timer is set");
    world.advance(PAUSE);
    assert!(!plan.is_followed());
}

#[test]
fn a_handler_that_is_replaced_is_kept_for_a_debt() {
    let (mut world, plan) = planned();
    world.appear(A, Script::good("CSIPlugin", "a"));
    plan.then("deregister", &[Ask::Debt], YES);
    let now = world.now;
    let handler = Recorder(Log::default());
    world.manager.add_handler(DEFAULT_TYPES, handler, now);
    world.run();
    assert!(plan.take().ends_with("deregister a"));
    assert!(plan.is_followed());
}

#[test]
fn a_thousand_plugins_do_not_notice_other_types_change() {
    let mut world = World::new();
    for n in 0..1000 {
        let path = format!("/r/{n}.sock");
        world.appear(&path, Script::good("CSIPlugin", &n.to_string()));
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
    assert_eq!(world.handler_calls(), "");
    assert_eq!(toasters.take(), "deregister t");
    // Events and changes of records: those of the one plugin.
    let count = world.manager.generation() - generation;
    assert!((2..20).contains(&count), "{count}");
    assert_eq!(world.counts(), (1001, 1000));
}

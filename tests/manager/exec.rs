//! Programs that do a handler's work, in virtual time: how many run, for how long, and their
//! arguments after a restart.

use std::time::Duration;

use plugind::config::MAX_PROGRAMS;
use plugind::handler::{AcceptHandler, ExecHandler, HandlerTable, ProgramEnd};
use plugind::manager::{Manager, Socket};

use crate::handlers::csi::{CSI, REG, limited, registrar};
use crate::script::Script;
use crate::world::World;

pub(crate) fn manager() -> Manager {
    let mut handlers = HandlerTable::new();
    for kind in ["CSIPlugin", "Other"] {
        handlers.add([kind], ExecHandler::new("/lib/hook"));
    }
    Manager::new(handlers)
}

/// Returns a world without sockets around this manager, which has restored what `before` has saved.
fn restored(before: &World, manager: Manager) -> World {
    let mut world = World::with(manager);
    world.manager.restore(before.saved());
    world
}

/// Lets the manager begin with what was restored.
fn begin(world: &mut World) {
    world.manager.handle_timeout(world.now);
    world.run();
}

fn socket(n: usize) -> String {
    format!("/r/{n:03}-reg.sock")
}

fn appear(world: &mut World, n: usize) {
    world.appear(&socket(n), Script::csi(&format!("disk-{n}")));
}

/// Returns the running programs, each as its verb and the plugin's name.
pub(crate) fn running(world: &World) -> Vec<String> {
    let shown = |arguments: &[std::ffi::OsString]| {
        let word = |n: usize| arguments[n].to_string_lossy();
        format!("{} {}", word(0), word(2))
    };
    let programs = world.programs.values();
    programs.map(|program| shown(&program.arguments)).collect()
}

#[test]
fn no_more_programs_run_at_once_than_the_limits() {
    let count = MAX_PROGRAMS + 3;
    let mut world = World::with(manager());
    for n in 0..count {
        appear(&mut world, n);
    }
    assert_eq!(running(&world).len(), MAX_PROGRAMS / 2);
    for n in count..2 * count {
        let other = Script::good("Other", &format!("disk-{n}"));
        world.appear(&socket(n), other);
    }
    assert_eq!(running(&world).len(), MAX_PROGRAMS, "others have places");
    for _ in 0..2 * count {
        world.end_first(ProgramEnd::Exited(0));
        let of_type = |kind| {
            world
                .programs
                .values()
                .filter(move |it| it.arguments[1] == kind)
        };
        for kind in ["CSIPlugin", "Other"] {
            assert!(of_type(kind).count() <= MAX_PROGRAMS / 2);
        }
    }
    for n in 0..2 * count {
        assert_eq!(world.notification_of(socket(n).as_ref()), Some((true, "")));
    }
}

/// The time between two calls of NodeGetInfo.
const PERIOD: Duration = Duration::from_secs(60);

/// Returns a world in which a driver with 16 volumes is registered, which is asked again.
fn asking_nodes() -> World {
    let mut handlers = HandlerTable::new();
    let hook = ExecHandler::new("/lib/hook").with_node_info_periods(&[("*".to_owned(), PERIOD)]);
    handlers.add(["CSIPlugin"], hook);
    let mut world = World::with(Manager::new(handlers));
    world.create(CSI, limited(16));
    world.appear(REG, registrar(&["1.0.0"]));
    world.end_first(ProgramEnd::Exited(0));
    world
}

#[test]
fn a_program_is_run_again_when_its_driver_has_another_limit() {
    let mut world = asking_nodes();
    world.advance(PERIOD);
    assert_eq!(world.plugin(CSI).called.len(), 2);
    assert!(running(&world).is_empty(), "nothing has changed");
    world.listen(CSI, limited(8));
    world.advance(PERIOD);
    assert_eq!(running(&world), ["re-add disk.example"]);
    let program = world.programs.values().next().expect("it runs");
    let input: serde_json::Value = serde_json::from_slice(&program.input).expect("JSON");
    let node = serde_json::json!({ "nodeId": "node-1", "maxVolumes": 8, "topology": {} });
    assert_eq!(input["node"], node);
    assert!(world.reasons().ends_with("NodeInfoChanged"));
    world.end_first(ProgramEnd::Exited(0));
    world.vanish(REG);
    assert_eq!(running(&world), ["del disk.example"]);
    let called = world.plugin(CSI).called.len();
    world.advance(10 * PERIOD);
    assert_eq!(world.plugin(CSI).called.len(), called);
}

#[test]
fn a_program_is_run_again_for_the_current_plugin_of_a_name() {
    let mut world = asking_nodes();
    // Nothing listens there.
    let newer = registrar(&["1.0.0"]).at("/p/new.sock");
    world.appear("/r/new-reg.sock", newer);
    world.end_first(ProgramEnd::Exited(0));
    world.listen(CSI, limited(8));
    world.advance(PERIOD);
    assert!(running(&world).is_empty(), "the newer one is in use");
}

#[test]
fn a_del_that_cannot_be_started_is_owed_over_a_restart() {
    let mut world = World::with(manager());
    appear(&mut world, 0);
    world.end_first(ProgramEnd::Exited(0));
    world.vanish(&socket(0));
    world.end_first(ProgramEnd::NotStarted("no memory".into()));
    assert!(world.manager.is_idle(), "the name is free");

    let mut world = restored(&world, manager());
    begin(&mut world);
    assert_eq!(running(&world), ["del disk-0"]);
    let revision = world.manager.revision();
    world.end_first(ProgramEnd::Exited(1));
    assert_ne!(world.manager.revision(), revision, "it is saved again");

    let mut world = restored(&world, manager());
    begin(&mut world);
    assert!(running(&world).is_empty());
}

#[test]
fn what_is_owed_to_a_type_without_a_program_is_dropped() {
    let mut before = World::with(manager());
    appear(&mut before, 0);
    before.end_first(ProgramEnd::Exited(0));
    before.vanish(&socket(0));
    let restore = |manager: Manager| {
        let mut world = restored(&before, manager);
        let revision = world.manager.revision();
        begin(&mut world);
        assert_ne!(world.manager.revision(), revision, "it is saved again");
        world
    };
    assert_eq!(running(&restore(manager())), ["del disk-0"]);
    let mut accepting = HandlerTable::new();
    accepting.add(["CSIPlugin"], AcceptHandler);
    for handlers in [accepting, HandlerTable::new()] {
        let world = restore(Manager::new(handlers));
        assert!(running(&world).is_empty());
        let saved = world.manager.snapshot("boot").encode();
        assert!(!String::from_utf8(saved).unwrap().contains("disk-0"));
    }
}

fn awaited_count(world: &World) -> usize {
    let sockets = world.manager.sockets();
    sockets.filter_map(Socket::awaited_plugin).count()
}

#[test]
fn a_plugin_refused_after_a_restart_is_awaited_no_longer() {
    let mut world = World::with(manager());
    appear(&mut world, 0);
    world.end_first(ProgramEnd::Exited(0));
    let mut world = restored(&world, Manager::new(HandlerTable::new()));
    assert_eq!(awaited_count(&world), 1);
    appear(&mut world, 0);
    let notified = world.notification_of(socket(0).as_ref());
    assert!(notified.is_some_and(|it| !it.0), "{notified:?}");
    assert_eq!(awaited_count(&world), 0);
    let mut restored = world.manager.sockets().filter_map(Socket::restored_plugin);
    assert!(restored.next().is_some(), "another failure may follow");
}

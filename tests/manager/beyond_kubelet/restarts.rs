//! What disappeared while the daemon was down.

use plugind::manager::Input;

use super::{A, minutes};
use crate::script::Script;
use crate::world::{World, awaited_sockets};

/// Returns a world without sockets, whose manager is restored from the snapshot of `before`.
/// Sockets that are created in the same order have the same identities as there.
fn restarted(before: &World) -> World {
    let mut world = World::new();
    world.manager.restore(before.saved());
    world
}

#[test]
fn a_plugin_that_went_while_the_daemon_was_down_is_deregistered() {
    let mut before = World::new();
    before.appear(A, Script::csi("a"));
    let mut world = restarted(&before);
    world.advance(minutes(60));
    world.assert_calls(""); // Its directory has not been listed.
    let awaited = awaited_sockets(&world.manager);
    let [path] = &awaited[..] else {
        panic!("{awaited:?}");
    };
    let lost = Input::Lost { path: path.clone() };
    world.manager.handle_input(lost, world.now);
    assert!(awaited_sockets(&world.manager).is_empty());
    world.assert_calls("deregister a");
    assert_eq!(world.counts(), (0, 0));
}

#[test]
fn a_plugin_that_stops_is_not_reported_as_down() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    world.kill_and_remove(A);
    assert_eq!(world.down_since(A), None);
    world.vanish(A);
    world.assert_calls("validate a, register a, deregister a");
}

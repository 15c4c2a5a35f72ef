//! What disappeared while the daemon was down.

use std::path::Path;

use plugind::config::STOP_GRACE;
use plugind::manager::Input;

use super::down::down_since;
use super::{A, B, csi, minutes, with_endpoint};
use crate::world::{WAIT, World};

/// Returns a world without sockets, whose manager is restored from the snapshot of `before`.
/// Sockets that are created in the same order have the same identities as there.
fn restarted(before: &World) -> World {
    let mut world = World::new();
    world.manager.restore(before.saved());
    world
}

/// Reports that an expected socket was not found in its directory, as the watch does.
fn lose(world: &mut World, path: &str) {
    let path = Path::new(path).into();
    world.manager.handle_input(Input::Lost { path }, world.now);
}

#[test]
fn a_plugin_that_went_while_the_daemon_was_down_is_deregistered() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let mut world = restarted(&before);
    world.advance(minutes(60));
    assert_eq!(
        world.handler_calls(),
        "",
        "not before its directory has been listed"
    );
    let [path] = &world.manager.restored()[..] else {
        panic!("{:?}", world.manager.restored());
    };
    let lost = Input::Lost { path: path.clone() };
    world.manager.handle_input(lost, world.now);
    assert!(world.manager.restored().is_empty());
    assert_eq!(world.handler_calls(), "deregister a");
    assert_eq!(world.counts(), (0, 0));
}

#[test]
fn a_restored_plugin_that_never_answers_goes_with_its_socket() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let mut world = restarted(&before);
    world.appear(A, None);
    assert_eq!(world.handler_calls(), "");
    let mut again = restarted(&world);
    again.appear(A, None);
    again.vanish(A);
    assert_eq!(
        again.handler_calls(),
        "deregister a",
        "two restarts forget nothing"
    );

    world.create(A, csi("b"));
    world.notice(A);
    world.run();
    assert_eq!(
        world.handler_calls(),
        "deregister a, validate b, register b"
    );
}

#[test]
fn a_restored_plugin_goes_before_another_of_its_socket() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    for plugin in [csi("b"), with_endpoint("a", "/p/a.sock")] {
        let mut world = restarted(&before);
        world.appear(A, plugin);
        let notified = world.handler_calls();
        let (first, rest) = notified.split_once(", ").expect("several questions");
        assert_eq!(first, "deregister a");
        assert!(rest.contains(", register "), "{rest}");
        assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
        assert_eq!(world.counts(), (1, 1));
    }
}

#[test]
fn a_plugin_that_waits_to_go_is_deregistered_after_a_restart() {
    for is_stopped in [false, true] {
        let mut before = World::new();
        before.appear(A, csi("a"));
        before.handler.will_answer([WAIT]);
        before.appear(B, csi("a"));
        before.vanish(A);
        assert_eq!(before.handler_calls(), "validate a, register a, validate a");
        if is_stopped {
            before.manager.handle_input(Input::Stop, before.now);
            before.advance(STOP_GRACE);
            assert!(before.manager.is_stopped());
        }
        let mut world = restarted(&before);
        lose(&mut world, A);
        world.run();
        assert_eq!(
            world.handler_calls(),
            "deregister a",
            "stopped: {is_stopped}"
        );
    }
}

#[test]
fn a_plugin_that_moved_to_another_socket_goes_first() {
    let mut before = World::new();
    before.appear(A, with_endpoint("a", "/p/a.sock"));
    let mut world = restarted(&before);
    world.create(B, with_endpoint("a", "/p/a.sock"));
    world.notice(B);
    lose(&mut world, A);
    world.run();
    assert_eq!(
        world.handler_calls(),
        "deregister a@/p/a.sock, validate a@/p/a.sock, register a@/p/a.sock"
    );
    assert_eq!(world.counts(), (1, 1));
}

#[test]
fn a_plugin_registered_early_is_not_deregistered_by_the_old() {
    let mut before = World::new();
    before.appear(A, with_endpoint("a", "/p/a.sock"));
    let mut world = restarted(&before);
    world.appear(B, with_endpoint("a", "/p/a.sock"));
    lose(&mut world, A);
    world.run();
    assert_eq!(
        world.handler_calls(),
        "validate a@/p/a.sock, register a@/p/a.sock"
    );
    assert_eq!(world.plugin(B).last_notified(), Some((true, "")));
    assert_eq!(world.counts(), (1, 1));
}

#[test]
fn a_plugin_that_stops_is_not_reported_as_down() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    world.kill_and_remove(A);
    assert_eq!(down_since(&world, A), None);
    world.vanish(A);
    assert_eq!(
        world.handler_calls(),
        "validate a, register a, deregister a"
    );
}

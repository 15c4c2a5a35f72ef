//! A plugin that is killed leaves its socket behind.

use std::time::Duration;

use plugind::config::BACKOFF;
use plugind::manager::OnDown;

use super::{A, asked, minutes};
use crate::script::Script;
use crate::world::World;

#[test]
fn a_plugin_whose_process_dies_is_down_at_once() {
    for watches_processes in [true, false] {
        let mut world = World::new();
        world.watches_processes = watches_processes;
        world.appear(A, Script::csi("a"));
        world.advance(minutes(10));
        world.kill(A);
        assert_eq!(world.down_since(A), Some(world.now), "{watches_processes}");
        world.assert_calls("validate a, register a");
    }
}

#[test]
fn a_plugin_that_is_down_for_long_is_deregistered_if_wanted() {
    let mut world = World::new();
    let grace = Duration::from_secs(30);
    world.manager.set_on_down(OnDown::Deregister(grace));
    world.appear(A, Script::csi("a"));
    world.kill(A);
    world.advance(Duration::from_secs(29));
    world.assert_calls("validate a, register a");
    world.advance(Duration::from_secs(1));
    world.assert_calls("deregister a");
    assert_eq!(world.counts(), (1, 0));
    world.listen(A, Script::csi("a"));
    world.advance(BACKOFF.cap);
    world.assert_calls("validate a, register a");
    assert_eq!(world.counts(), (1, 1));
}

/// Closes all connections each time that `idle` has passed, for as long as `lasting`, as the plugin
/// at `A` would do with idle connections.
fn close_idle_connections(world: &mut World, idle: Duration, lasting: Duration) {
    let end = world.now + lasting;
    while world.now < end {
        world.advance(idle);
        world.cut(A);
    }
}

/// Returns a world in which the connection of the plugin at `A` is watched.
fn watched_by_connection() -> World {
    let mut world = World::new();
    world.watches_processes = false;
    world.appear(A, Script::csi("a"));
    world
}

#[test]
fn a_plugin_that_closes_idle_connections_is_asked_regularly() {
    let seconds = Duration::from_secs;
    for idle in [seconds(2), Duration::from_millis(100)] {
        let mut world = watched_by_connection();
        close_idle_connections(&mut world, idle, seconds(30));
        assert_eq!(asked(&mut world, A), 3, "closed after {idle:?}");
        close_idle_connections(&mut world, idle, seconds(8));
        assert_eq!(asked(&mut world, A), 4, "closed after {idle:?}");
        close_idle_connections(&mut world, idle, minutes(10));
        assert_eq!(asked(&mut world, A), 24, "closed after {idle:?}");
        assert_eq!(world.down_since(A), None);
        world.assert_calls("validate a, register a");
    }
}

#[test]
fn a_plugin_that_closes_idle_connections_and_dies_is_down() {
    let mut world = watched_by_connection();
    close_idle_connections(&mut world, Duration::from_secs(2), minutes(1));
    world.kill(A);
    assert_eq!(world.down_since(A), None);
    world.advance(Duration::from_secs(30));
    let since = world.down_since(A).expect("it is down");
    world.listen(A, Script::csi("a"));
    world.advance(world.now.saturating_since(since) + Duration::from_secs(1));
    assert_eq!(world.down_since(A), None, "asked again with backoff");
    world.advance(minutes(1));
    world.kill(A);
    assert_eq!(world.down_since(A), Some(world.now), "watched as before");
}

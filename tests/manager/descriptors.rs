//! More plugins than there are descriptors: all of them are registered, and those without a
//! descriptor are checked slowly.

use std::time::Duration;

use plugind::config::{BACKOFF, DEFAULT_TYPES, SLOW_CHECK, SOFT_OPERATION_LIMIT, UnknownTypes};
use plugind::handler::built_in;
use plugind::manager::{Manager, State};

use crate::script::{Answer, Script, WATCH};
use crate::world::World;

/// Returns a world in which plugins may use this many descriptors, with registered plugins.
fn crowded(descriptors: usize, plugins: usize) -> World {
    let mut world = World::new();
    world.limit_descriptors(descriptors);
    add_plugins(&mut world, plugins);
    world
}

fn add_plugins(world: &mut World, plugins: usize) {
    for n in 0..plugins {
        let plugin = Script::csi(&n.to_string());
        world.appear(&format!("/r/{n}"), plugin);
    }
}

fn is_down(world: &World, path: &str) -> bool {
    world.down_since(path).is_some()
}

#[test]
fn every_plugin_registers_with_fewer_descriptors() {
    for watches_processes in [true, false] {
        let mut world = crowded(8, 0);
        world.watches_processes = watches_processes;
        add_plugins(&mut world, 100);
        assert_eq!(world.counts(), (100, 100));
        let held = if watches_processes {
            world.watched_processes()
        } else {
            world.open_connections().len()
        };
        assert!((3..=8).contains(&held), "{watches_processes}: {held}");
    }
}

#[test]
fn a_plugin_without_a_descriptor_is_checked_slowly() {
    let mut world = crowded(8, 20);
    world.advance(SLOW_CHECK * 2);
    assert!(!is_down(&world, "/r/19"), "it answers");
    world.kill("/r/19");
    assert!(!is_down(&world, "/r/19"), "its end is not reported");
    world.advance(SLOW_CHECK + Duration::from_secs(1));
    assert!(is_down(&world, "/r/19"));
    world.listen("/r/19", Script::csi("19"));
    world.advance(Duration::from_secs(130));
    assert!(!is_down(&world, "/r/19"));
    assert!(!is_down(&world, "/r/18"));
}

#[test]
fn plugins_that_do_not_answer_take_half_of_the_descriptors() {
    let mut world = crowded(8, 0);
    for n in 0..SOFT_OPERATION_LIMIT {
        world.appear(&format!("/r/silent-{n}"), Script::silent());
    }
    assert_eq!(world.open_connections().len(), 4);
    let warning = "low on file descriptors: plugins wait to be registered or checked; raise \
                   the hard limit on open files (ulimit -Hn)";
    assert_eq!(world.warnings(), [warning], "it is not repeated at once");
    world.appear("/r/honest", Script::csi("honest"));
    assert_eq!(world.counts().1, 0, "it is in line");
    assert_eq!(world.state("/r/honest"), Some(State::Discovered));
    world.advance(Duration::from_secs(60));
    assert_eq!(world.counts().1, 1);
    assert!(world.open_connections().len() <= 4);
}

#[test]
fn a_registered_plugin_is_not_down_for_want_of_a_descriptor() {
    let mut world = crowded(100, 1);
    world.has_descriptors = false;
    world.lose_processes();
    world.advance(Duration::from_secs(20));
    assert!(!is_down(&world, "/r/0"));
    world.appear("/r/new", Script::csi("new"));
    assert_eq!(world.counts().1, 1);
    world.has_descriptors = true;
    world.advance(Duration::from_secs(1));
    assert_eq!(world.counts().1, 2, "it is tried again within a second");
}

/// Returns a world with the built-in handlers, in which plugins may use this many descriptors.
fn with_built_in_handlers(descriptors: usize) -> World {
    let (handlers, _) = built_in(DEFAULT_TYPES, UnknownTypes::Reject);
    let mut world = World::with(Manager::new(handlers));
    world.limit_descriptors(descriptors);
    world
}

/// Returns a device plugin that keeps its ListAndWatch stream open.
fn device_plugin(n: usize) -> Script {
    Script::devices(&format!("example.com/d{n}"), Answer::Stream(Vec::new()))
}

/// Returns how many of the first device plugins received a ListAndWatch call.
fn streams(world: &mut World, plugins: usize) -> usize {
    let has_stream = |n: &usize| {
        let plugin = world.plugin(&format!("/r/{n}"));
        let called = &plugin.called;
        called.iter().any(|it| it == WATCH)
    };
    (0..plugins).filter(has_stream).count()
}

#[test]
fn streams_leave_descriptors_for_plugins_that_come_later() {
    for descriptors in [2, 3, 8, 32] {
        let mut world = with_built_in_handlers(descriptors);
        for n in 0..50 {
            world.appear(&format!("/r/{n}"), device_plugin(n));
            let open = world.open_connections().len();
            assert!(open <= descriptors, "{open} of {descriptors}");
        }
        assert_eq!(world.counts(), (50, 50));
        assert_eq!(streams(&mut world, 50), (descriptors - 1) / 2);
    }
}

#[test]
fn a_stream_without_a_descriptor_is_opened_after_another() {
    let mut world = with_built_in_handlers(8);
    for n in 0..4 {
        world.appear(&format!("/r/{n}"), device_plugin(n));
    }
    assert_eq!(streams(&mut world, 4), 3);
    world.vanish("/r/0");
    world.advance(BACKOFF.cap);
    assert!(world.plugin("/r/3").called.len() == 2, "its stream is open");
    assert_eq!(world.counts(), (3, 3));
}

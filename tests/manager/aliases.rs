//! Several paths that lead to one socket: one plugin, one registration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::config::{BACKOFF_INITIAL, DEFAULT_TYPES, RENAME_TIME};
use plugind::handler::{Answer, Context, Event, HandlerTable, Plugin, PluginHandler, Stream};
use plugind::manager::{Manager, SavedState};

use crate::script::{Script, WATCH};
use crate::world::World;

const SOCKET: &str = "/r/a.sock";
const OTHER: &str = "/r/d/b.sock";

fn plugin(name: &str) -> Script {
    Script::good("CSIPlugin", name)
}

/// Returns a world in which the plugin `a` is registered, and another path leads to its socket.
fn aliased() -> World {
    let mut world = World::new();
    world.appear(SOCKET, plugin("a"));
    assert_eq!(world.handler_calls(), "validate a, register a");
    link(&mut world, SOCKET, OTHER);
    world.advance(RENAME_TIME);
    world
}

/// Makes another path lead to a socket, and reports that path.
fn link(world: &mut World, from: &str, to: &str) {
    world.link(from, to);
    world.notice(to);
    world.run();
}

fn dials(world: &World, path: &str) -> usize {
    world.dials.get(Path::new(path)).copied().unwrap_or(0)
}

fn keys(world: &World) -> Vec<String> {
    let sockets = world.manager.desired();
    let mut keys: Vec<_> = sockets
        .map(|(path, _)| path.display().to_string())
        .collect();
    keys.sort();
    keys
}

fn place(world: &World, key: &str) -> Option<String> {
    let place = world.manager.dial_path(Path::new(key))?;
    Some(place.display().to_string())
}

#[test]
fn an_alias_is_not_dialled_and_changes_nothing_when_it_comes_and_when_it_goes() {
    let mut world = aliased();
    for n in 0..1000 {
        let name = format!("/r/0{n}");
        link(&mut world, SOCKET, &name);
        world.vanish(&name);
        assert_eq!(dials(&world, &name), 0);
    }
    world.vanish(OTHER);
    assert_eq!(world.handler_calls(), "");
    assert_eq!(
        (keys(&world), world.counts()),
        (vec![SOCKET.to_owned()], (1, 1))
    );
    assert_eq!(dials(&world, OTHER), 0);
    assert_eq!(world.plugin(SOCKET).notified.len(), 1);
    world.vanish(SOCKET);
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("deregister a", (0, 0))
    );
}

#[test]
fn a_registered_plugin_stays_registered_as_long_as_a_path_leads_to_its_socket() {
    let mut world = aliased();
    link(&mut world, SOCKET, "/r/c.sock");
    world.vanish(SOCKET);
    assert_eq!(
        place(&world, SOCKET).as_deref(),
        Some("/r/c.sock"),
        "the shortest path"
    );
    world.vanish("/r/c.sock");
    assert_eq!(place(&world, SOCKET).as_deref(), Some(OTHER));
    link(&mut world, OTHER, SOCKET);
    assert_eq!(place(&world, SOCKET).as_deref(), Some(SOCKET), "it is back");
    world.vanish(OTHER);
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("", (1, 1))
    );
    world.vanish(SOCKET);
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("deregister a", (0, 0))
    );
}

#[test]
fn a_socket_that_is_seen_at_two_paths_for_a_moment_was_renamed() {
    let mut world = World::new();
    world.appear(SOCKET, plugin("a"));
    link(&mut world, SOCKET, OTHER);
    world.vanish(SOCKET);
    let notified = "validate a, register a, deregister a, validate a, register a";
    assert_eq!(
        (world.handler_calls().as_str(), keys(&world)),
        (notified, vec![OTHER.to_owned()])
    );
    assert_eq!(world.notification_of(Path::new(OTHER)), Some((true, "")));
}

#[test]
fn a_socket_goes_before_a_link_to_it_that_was_found_first() {
    let mut world = World::new();
    world.is_slow = true;
    world.create(SOCKET, plugin("a"));
    world.link(SOCKET, "/r/0");
    world.notice_link("/r/0");
    world.notice(SOCKET);
    world.is_slow = false;
    world.run();
    assert_eq!(keys(&world), [SOCKET]);
    assert_eq!(world.handler_calls(), "validate a, register a");
    assert_eq!(world.plugin(SOCKET).notified.len(), 1);
}

#[test]
fn a_plugin_that_is_registered_through_a_link_stays_so_when_its_socket_is_found() {
    let mut world = World::new();
    world.create(SOCKET, plugin("a"));
    world.link(SOCKET, "/r/0");
    world.notice_link("/r/0");
    world.run();
    world.notice(SOCKET);
    world.run();
    world.advance(RENAME_TIME);
    assert_eq!(keys(&world), ["/r/0"]);
    world.vanish("/r/0");
    assert_eq!(place(&world, "/r/0").as_deref(), Some(SOCKET));
    assert_eq!(world.handler_calls(), "validate a, register a");
    world.vanish(SOCKET);
    assert_eq!(world.handler_calls(), "deregister a");
}

#[test]
fn better_names_that_come_and_go_all_the_time_do_not_keep_a_plugin_from_being_registered() {
    let mut world = World::new();
    world.is_slow = true;
    world.create(OTHER, plugin("a"));
    world.notice(OTHER);
    for _ in 0..100 {
        world.link(OTHER, SOCKET);
        world.notice(SOCKET);
        world.remove(SOCKET);
        world.notice(SOCKET);
        world.run();
    }
    let all: usize = world.dials.values().sum();
    assert!(all <= 3, "{all} connections");
    world.is_slow = false;
    world.run();
    assert_eq!(
        (keys(&world), world.counts()),
        (vec![OTHER.to_owned()], (1, 1))
    );
    assert_eq!(world.plugin(OTHER).notified.len(), 1);
}

#[test]
fn a_plugin_that_is_started_anew_goes_before_what_a_link_keeps_of_the_one_before() {
    let mut world = aliased();
    world.create(SOCKET, plugin("new"));
    world.notice(SOCKET);
    world.run();
    assert_eq!(
        world.handler_calls(),
        "deregister a, validate new, register new"
    );
    assert_eq!(dials(&world, OTHER), 0);
    assert_eq!(keys(&world), [SOCKET, OTHER]);
    world.advance(BACKOFF_INITIAL + Duration::from_millis(1));
    assert_eq!(
        world.handler_calls(),
        "validate a, register a",
        "the link leads to another socket"
    );
    world.vanish(OTHER);
    assert_eq!(
        (world.handler_calls().as_str(), keys(&world)),
        ("deregister a", vec![SOCKET.to_owned()])
    );
}

#[test]
fn a_plugin_that_removes_its_socket_and_ends_is_deregistered_although_a_link_is_left() {
    let mut world = aliased();
    world.vanish(SOCKET);
    assert_eq!(world.handler_calls(), "");
    world.kill(OTHER);
    world.advance(Duration::from_secs(2));
    assert_eq!(
        (world.handler_calls().as_str(), keys(&world)),
        ("deregister a", vec![OTHER.to_owned()])
    );
    world.appear(SOCKET, plugin("a"));
    assert_eq!(world.handler_calls(), "validate a, register a");
    assert_eq!(world.notification_of(Path::new(SOCKET)), Some((true, "")));
}

#[test]
fn a_socket_that_was_not_registered_yet_is_known_under_the_path_that_is_left() {
    let mut world = World::new();
    world.appear(SOCKET, None);
    link(&mut world, SOCKET, OTHER);
    world.vanish(SOCKET);
    assert_eq!(keys(&world), [OTHER]);
    world.listen(OTHER, plugin("a"));
    world.advance(BACKOFF_INITIAL * 2);
    assert_eq!(world.handler_calls(), "validate a, register a");
}

#[test]
fn the_symbolic_link_that_is_left_is_examined_again() {
    let mut world = World::new();
    world.appear(SOCKET, plugin("a"));
    world.link(SOCKET, OTHER);
    world.notice_link(OTHER);
    world.run();
    world.advance(RENAME_TIME);
    assert!(world.examined.is_empty());
    world.vanish(SOCKET);
    assert_eq!(world.examined, [Path::new(OTHER).into()]);
    world.vanish(OTHER);
    assert_eq!(
        world.handler_calls(),
        "validate a, register a, deregister a"
    );

    // If its socket is replaced, the link leads to the new one, and is not dialled for the old one.
    world.examined.clear();
    world.appear(SOCKET, plugin("b"));
    world.link(SOCKET, OTHER);
    world.notice_link(OTHER);
    world.create(SOCKET, plugin("c"));
    world.notice(SOCKET);
    world.run();
    assert_eq!(world.examined, [Path::new(OTHER).into()]);
    world.link(SOCKET, OTHER);
    world.notice_link(OTHER);
    world.advance(BACKOFF_INITIAL * 2);
    let notified = "validate b, register b, deregister b, validate c, register c";
    assert_eq!(
        (world.handler_calls().as_str(), keys(&world)),
        (notified, vec![SOCKET.to_owned()])
    );
    assert_eq!(dials(&world, OTHER), 0);
}

#[test]
fn another_socket_at_an_alias_is_another_plugin() {
    let mut world = aliased();
    world.create(OTHER, plugin("b"));
    world.notice(OTHER);
    world.run();
    assert_eq!(world.handler_calls(), "validate b, register b");
    assert_eq!(keys(&world), [SOCKET, OTHER]);
    // A path that led to another socket becomes an alias.
    link(&mut world, SOCKET, OTHER);
    assert_eq!(
        (world.handler_calls().as_str(), keys(&world)),
        ("deregister b", vec![SOCKET.to_owned()])
    );
}

#[test]
fn a_plugin_is_restored_under_the_path_under_which_it_was_registered() {
    for other_first in [false, true] {
        let mut before = World::new();
        before.appear(OTHER, plugin("a"));
        let saved = before.manager.snapshot("boot").encode();
        let mut world = World::new();
        let state = SavedState::decode(&saved, "boot").expect("it was just written");
        world.manager.restore(state);
        world.create(OTHER, plugin("a")); // The same inode number as before.
        world.link(OTHER, SOCKET);
        let [first, second] = if other_first {
            [OTHER, SOCKET]
        } else {
            [SOCKET, OTHER]
        };
        world.is_slow = true;
        world.notice(first);
        world.notice(second);
        world.is_slow = false;
        world.run();
        assert_eq!(keys(&world), [OTHER], "{first} is found first");
        assert_eq!(world.handler_calls(), "validate a, register a");
        assert!(world.manager.restored().is_empty());
    }
}

#[test]
fn a_plugin_that_was_restored_under_an_alias_that_is_found_late_is_registered_once() {
    let mut before = World::new();
    before.appear(OTHER, plugin("a"));
    let saved = before.manager.snapshot("boot").encode();
    let mut world = World::new();
    let state = SavedState::decode(&saved, "boot").expect("it was just written");
    world.manager.restore(state);
    world.create(OTHER, plugin("a"));
    world.link(OTHER, SOCKET);
    world.notice(SOCKET);
    world.run();
    assert_eq!(world.handler_calls(), "validate a, register a");
    world.notice(OTHER);
    world.run();
    assert_eq!(
        (world.handler_calls().as_str(), keys(&world)),
        ("deregister a", vec![SOCKET.to_owned()])
    );
    assert_eq!(world.counts(), (1, 1));
}

/// A handler that opens a stream to the endpoint of its last plugin when a timer fires.
#[derive(Debug, Default)]
struct Late(Option<Arc<Plugin>>);

impl PluginHandler for Late {
    fn validate(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.0 = Some(plugin.clone());
        context.set_timer(Duration::from_secs(60));
        Answer::YES
    }

    fn deregister(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn handle_event(&mut self, event: Event, context: &mut Context<'_>) {
        if let (Event::TimerFired { .. }, Some(plugin)) = (event, &self.0) {
            context.stream(Stream {
                endpoint: plugin.endpoint.clone(),
                method: WATCH,
                request: Vec::new(),
                dial_timeout: Duration::from_secs(10),
            });
        }
    }
}

#[test]
fn an_endpoint_that_is_the_registration_socket_is_dialled_where_that_is_now() {
    let mut table = HandlerTable::new();
    table.add(DEFAULT_TYPES, Late::default());
    let mut world = World::with(Manager::new(table));
    world.appear(SOCKET, plugin("a"));
    link(&mut world, SOCKET, OTHER);
    world.advance(RENAME_TIME);
    world.vanish(SOCKET);
    world.advance(Duration::from_secs(61));
    assert_eq!((dials(&world, SOCKET), dials(&world, OTHER)), (1, 1));
    assert_eq!(world.open_to(OTHER), 1);
}

#[test]
fn when_the_path_of_a_plugin_and_a_link_to_it_are_removed_the_next_link_is_examined() {
    let mut world = World::new();
    world.appear(SOCKET, plugin("a"));
    for link in ["/r/0", OTHER] {
        world.link(SOCKET, link);
        world.notice_link(link);
    }
    world.run();
    world.advance(RENAME_TIME);
    world.vanish(SOCKET);
    assert_eq!(world.examined, [Path::new("/r/0").into()]);
    world.vanish("/r/0");
    assert_eq!(
        world.examined,
        ["/r/0", OTHER].map(|path| Path::new(path).into())
    );
}

#[test]
fn a_link_through_which_a_plugin_is_registered_is_examined_when_its_socket_is_removed() {
    let mut world = World::new();
    world.create(SOCKET, plugin("a"));
    world.link(SOCKET, OTHER);
    world.notice_link(OTHER);
    world.run();
    world.notice(SOCKET);
    world.run();
    assert_eq!(keys(&world), [OTHER]);
    world.vanish(SOCKET);
    assert_eq!(world.examined, [Path::new(OTHER).into()]);
    world.vanish(OTHER);
    assert_eq!(
        world.handler_calls(),
        "validate a, register a, deregister a"
    );
}

#[test]
fn a_plugin_that_was_down_when_its_path_was_removed_is_deregistered() {
    let mut world = aliased();
    world.kill(SOCKET);
    world.advance(Duration::from_secs(5));
    assert_eq!(world.handler_calls(), "");
    world.vanish(SOCKET);
    world.advance(Duration::from_secs(3600));
    assert_eq!(world.handler_calls(), "deregister a");
}

#[test]
fn a_plugin_is_registered_at_every_path_that_leads_to_its_socket() {
    let mut world = aliased();
    assert!(world.manager.is_registered_at(Path::new(OTHER)));
    world.vanish(SOCKET);
    assert_eq!(world.handler_calls(), "");
    for path in [SOCKET, OTHER] {
        assert!(world.manager.is_registered_at(Path::new(path)), "{path}");
    }
    assert!(!world.manager.is_registered_at(Path::new("/r/another")));
}

//! Sockets that wait in the queue: while the reason why a plugin was refused disappears, and while
//! descriptors run short.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::config::{BACKOFF, DESCRIPTOR_RESERVE, PERMIT_TIME, SOFT_OPERATION_LIMIT};
use plugind::handler::{Answer, Context, HandlerTable, Plugin, PluginHandler};
use plugind::manager::{Change, ChangeCursor, Manager};

use crate::script::Script;
use crate::world::World;

/// A handler that refuses the second plugin of a name as long as the first is registered.
#[derive(Default)]
struct Jealous {
    has_gone: bool,
}

impl PluginHandler for Jealous {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        if plugin.socket.ends_with("second") && !self.has_gone {
            Answer::no("there is one of that name")
        } else {
            Answer::YES
        }
    }

    fn register(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn deregister(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.has_gone = true;
        Answer::YES
    }
}

#[test]
fn a_socket_in_line_whose_obstacle_goes_is_registered_once() {
    let mut table = HandlerTable::new();
    table.add(["CSIPlugin"], Jealous::default());
    let mut world = World::with(Manager::new(table));
    let csi = |name: &str| Script::good("CSIPlugin", name);
    world.appear("/r/first", csi("a"));
    world.appear("/r/second", csi("a"));
    // It is tried again at a moment at which every place is taken.
    let moment = Duration::from_millis(1);
    world.advance(BACKOFF.first.saturating_sub(moment));
    for n in 0..SOFT_OPERATION_LIMIT {
        world.appear(&format!("/r/silent-{n}"), Script::silent());
    }
    let second = Path::new("/r/second");
    world.advance(moment);
    assert_eq!(world.operation(second), None, "it is in line");
    world.vanish("/r/first");
    assert_eq!(world.dials[second], 1, "it is still in line");
    world.advance(PERMIT_TIME);
    assert_eq!(world.dials[second], 2);
    world.vanish("/r/second");
    assert_eq!(world.manager.instances("CSIPlugin", "a").last(), None);
}

#[test]
fn a_socket_that_waits_in_the_queue_was_not_dialed_yet() {
    let mut world = World::new();
    assert_eq!(world.manager.records().undialed(), 0);
    for n in 0..=SOFT_OPERATION_LIMIT {
        world.appear(&format!("/r/silent-{n}"), Script::silent());
    }
    assert_eq!(world.manager.records().undialed(), 1);
    world.advance(PERMIT_TIME);
    assert_eq!(world.manager.records().undialed(), 0);
}

/// Returns a world with the plugin `plugin` from before a restart, in which no operation can begin
/// because descriptors run short.
fn restarted_without_descriptors(plugin: &Script) -> World {
    let mut before = World::new();
    before.appear(A, plugin.clone());
    let mut world = World::new();
    world.manager.restore(before.saved());
    world.manager.set_descriptor_limit(DESCRIPTOR_RESERVE + 1);
    world.appear(A, plugin.clone());
    assert_eq!(world.operation(Path::new(A)), None, "it waits");
    world
}

#[test]
fn readers_learn_that_a_waiting_plugin_is_not_known_any_more() {
    let mut world = restarted_without_descriptors(&Script::good("CSIPlugin", "a"));
    let known = |world: &World| {
        let record = world
            .manager
            .records()
            .get(Path::new(A))
            .expect("it is known");
        record.plugin.map(|plugin| plugin.name.clone())
    };
    assert_eq!(known(&world).as_deref(), Some("a"));
    let mut cursor = ChangeCursor::after(world.manager.generation());
    world.appear(A, Script::good("CSIPlugin", "b"));
    assert_eq!(world.handler_calls(), "deregister a");
    assert_eq!(known(&world), None);
    let change = world.manager.records().next_change(&mut cursor);
    assert!(matches!(change, Ok(Some(Change::Set { .. }))), "{change:?}");
}

#[test]
fn a_socket_that_queues_for_a_descriptor_sets_no_past_deadline() {
    let mut world = World::new();
    world.appear(A, Script::silent());
    world.advance(PERMIT_TIME * 2);
    world.manager.set_descriptor_limit(DESCRIPTOR_RESERVE + 2);
    world.appear("/r/b", Script::good("CSIPlugin", "b"));
    let next = world.manager.poll_timeout();
    assert!(next.is_some_and(|(at, _)| at > world.now), "{next:?}");
}

const A: &str = "/r/a";

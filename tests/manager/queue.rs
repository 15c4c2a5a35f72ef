//! A socket that waits in the queue while the reason why its plugin was refused disappears.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::config::{BACKOFF_INITIAL, PERMIT_TIME, SOFT_OPERATION_LIMIT};
use plugind::handler::{Answer, Context, HandlerTable, Plugin, PluginHandler};
use plugind::manager::{Input, Manager};

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
fn a_socket_in_line_whose_obstacle_goes_is_registered_once_when_it_gets_a_place() {
    let mut table = HandlerTable::new();
    table.add(["CSIPlugin"], Jealous::default());
    let mut world = World::with(Manager::new(table));
    let csi = |name: &str| Script::good("CSIPlugin", name);
    world.appear("/r/first", csi("a"));
    world.appear("/r/second", csi("a"));
    // It is tried again at a moment at which every place is taken.
    let moment = Duration::from_millis(1);
    world.advance(BACKOFF_INITIAL.saturating_sub(moment));
    for n in 0..SOFT_OPERATION_LIMIT {
        world.appear(&format!("/r/silent-{n}"), Script::silent());
    }
    let second = Path::new("/r/second");
    world.advance(moment);
    assert_eq!(world.manager.operation(second), None, "it is in line");
    world.vanish("/r/first");
    assert_eq!(world.dials[second], 1, "it is still in line");
    world.advance(PERMIT_TIME);
    assert_eq!(world.dials[second], 2);
    world.vanish("/r/second");
    assert_eq!(world.manager.instances("CSIPlugin", "a").last(), None);
}

#[test]
fn dead_sockets_are_dialled_one_after_the_other_when_all_are_reconsidered() {
    let mut world = World::new();
    for n in 0..100 {
        world.appear(&format!("/r/{n}"), None);
    }
    world.advance(Duration::from_secs(100));
    let dials = |world: &World| world.dials.values().sum::<usize>();
    let before = dials(&world);
    world.manager.handle_input(Input::Reconsider, world.now);
    world.run();
    assert!(dials(&world) - before <= 2);
}

#[test]
fn a_socket_that_is_renamed_while_its_path_is_in_line_is_registered_once() {
    let mut world = World::new();
    for n in 0..SOFT_OPERATION_LIMIT {
        world.appear(&format!("/r/silent-{n}"), Script::silent());
    }
    world.appear("/r/a.sock", Script::good("CSIPlugin", "a"));
    world.appear("/r/d/b.sock", Script::good("CSIPlugin", "b"));
    assert_eq!(world.manager.operation(Path::new("/r/a.sock")), None);
    world.link("/r/d/b.sock", "/r/a.sock");
    world.notice("/r/a.sock");
    world.run();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.handler_calls(), "validate b, register b");
}

#[test]
fn a_socket_that_waits_in_the_queue_was_not_dialed_yet() {
    let mut world = World::new();
    assert_eq!(world.manager.undialed(), 0);
    for n in 0..=SOFT_OPERATION_LIMIT {
        world.appear(&format!("/r/silent-{n}"), Script::silent());
    }
    assert_eq!(world.manager.undialed(), 1);
    world.advance(PERMIT_TIME);
    assert_eq!(world.manager.undialed(), 0);
}

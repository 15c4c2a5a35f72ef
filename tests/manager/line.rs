//! A socket that waits in line, while what kept its plugin from being registered goes away.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::config::{BACKOFF_INITIAL, BRISK_OPERATIONS, BRISK_TIME};
use plugind::handler::{Answer, Context, HandlerTable, Plugin, PluginHandler};
use plugind::manager::Manager;

use crate::script::Script;
use crate::world::World;

/// Refuses the second plugin of a name for as long as the first is there.
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
    for n in 0..BRISK_OPERATIONS {
        world.appear(&format!("/r/silent-{n}"), Script::silent());
    }
    let second = Path::new("/r/second");
    world.advance(moment);
    assert_eq!(world.manager.operation(second), None, "it is in line");
    world.vanish("/r/first");
    assert_eq!(world.dials[second], 1, "it is still in line");
    world.advance(BRISK_TIME);
    assert_eq!(world.dials[second], 2);
    world.vanish("/r/second");
    assert_eq!(world.manager.instances("CSIPlugin", "a").last(), None);
}

//! A socket that waits in line, while what kept its plugin from being registered goes away.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plugind::config::BRISK_OPERATIONS;
use plugind::handler::{Answer, Context, HandlerTable, Plugin, PluginHandler, Reason, Ticket};
use plugind::manager::Manager;

use crate::script::Script;
use crate::world::World;

/// Refuses the second plugin of a name for as long as the first is there, and leaves the questions
/// about some open until the first goes: then it says no to all of them.
#[derive(Clone, Default)]
struct Jealous(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    has_gone: bool,
    open: Vec<Ticket>,
}

impl Jealous {
    fn refuse_all(&self, mut refuse: impl FnMut(Ticket, Result<(), Reason>)) {
        let open = std::mem::take(&mut self.0.lock().unwrap().open);
        for ticket in open {
            refuse(ticket, Err(Reason::new("not now")));
        }
    }
}

impl PluginHandler for Jealous {
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        let mut state = self.0.lock().unwrap();
        if plugin.name.starts_with("open") {
            state.open.extend(context.ticket());
            Answer::Pending
        } else if plugin.socket.ends_with("second") && !state.has_gone {
            Answer::no("there is one of that name")
        } else {
            Answer::YES
        }
    }

    fn register(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn deregister(&mut self, _: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.0.lock().unwrap().has_gone = true;
        self.refuse_all(|ticket, no| context.answer(ticket, no));
        Answer::YES
    }
}

#[test]
fn a_socket_that_gets_a_place_when_its_obstacle_goes_is_registered_once() {
    let handler = Jealous::default();
    let mut table = HandlerTable::new();
    table.add(["CSIPlugin"], handler.clone());
    let mut world = World::with(Manager::new(table));
    let csi = |name: &str| Script::good("CSIPlugin", name);
    world.appear("/r/first", csi("a"));
    world.appear("/r/open-1", csi("open-1"));
    world.appear("/r/open-2", csi("open-2"));
    handler.refuse_all(|ticket, no| world.answer(ticket, no));
    world.advance(Duration::from_secs(1));
    world.appear("/r/second", csi("a"));
    // The three that were refused are tried again at the cap, a second apart.
    world.advance(Duration::from_millis(121_300));
    for n in 2..BRISK_OPERATIONS {
        world.appear(&format!("/r/silent-{n}"), Script::silent());
    }
    world.advance(Duration::from_millis(740));
    let second = Path::new("/r/second");
    assert_eq!(world.manager.operation(second), None, "it is in line");
    let dials = world.dials[second];

    world.vanish("/r/first");
    assert_eq!(world.dials[second], dials + 1);
    world.vanish("/r/second");
    assert_eq!(world.manager.instances().current("CSIPlugin", "a"), None);
}

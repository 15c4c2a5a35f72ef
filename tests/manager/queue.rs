//! Sockets that wait in the queue: while the reason why a plugin was refused disappears, and while
//! descriptors run short.

use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF, PERMIT_TIME, SOFT_OPERATION_LIMIT};

use crate::script::Script;
use crate::world::{World, YES, no};

#[test]
fn a_socket_in_line_whose_obstacle_goes_is_registered_once() {
    let mut world = World::new();
    world.handler.will_answer([YES, YES, no("there is one")]);
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

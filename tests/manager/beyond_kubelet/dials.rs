//! When sockets are dialed: queues, dead sockets, and plugins that do not answer.

use std::time::Duration;

use plugind::config::{DIAL_RETRY_AT_START, DIAL_TIMEOUT, PERMIT_TIME, REDIAL};

use super::{A, minutes};
use crate::script::Script;
use crate::world::{WAIT, World, YES};

#[test]
fn a_plugin_that_listens_late_is_met_within_three_seconds() {
    for after in [20, 80, 300, 590] {
        let mut world = World::new();
        world.appear(A, None);
        world.advance(Duration::from_secs(after));
        world.listen(A, Script::csi("a"));
        world.advance(REDIAL.cap);
        let calls = world.handler_calls();
        assert_eq!(calls, "validate a, register a", "after {after} s");
    }
}

#[test]
fn a_dead_socket_is_dialed_again_after_10_ms_at_the_start() {
    for (is_starting, dials) in [(true, 1), (false, 10)] {
        let mut world = World::new();
        world.manager.set_starting(is_starting);
        world.appear(A, None);
        world.manager.set_starting(false);
        world.advance(DIAL_RETRY_AT_START / 2);
        assert_eq!(world.take_dials().len(), dials);
        world.listen(A, Script::csi("a"));
        world.advance(DIAL_RETRY_AT_START);
        world.assert_calls("validate a, register a");
    }
}

#[test]
fn a_dead_socket_is_dialed_ever_more_rarely() {
    let mut world = World::new();
    world.appear(A, None);
    world.advance(minutes(20));
    world.take_dials();
    world.advance(minutes(60));
    assert!(world.take_dials().len() < 31);
}

#[test]
fn many_dead_sockets_are_dialed_20_times_a_second_together() {
    let count = 300;
    let mut world = World::new();
    for i in 0..count {
        world.appear(&format!("/r/dead-{i}.sock"), None);
    }
    world.advance(2 * DIAL_TIMEOUT);
    world.take_dials();
    world.dials.clear();
    for _ in 0..30 {
        world.advance(Duration::from_secs(1));
        let dials = world.take_dials().len();
        assert!((19..=20).contains(&dials), "{dials} dials in a second");
    }
    assert_eq!(world.dials.len(), count, "each socket is dialed");
    world.appear(A, Script::csi("a"));
    world.assert_calls("validate a, register a"); // Without a delay.
}

/// Returns a world with this many plugins that do not answer.
fn with_silent_plugins(count: usize) -> World {
    let mut world = World::new();
    for i in 0..count {
        world.appear(&format!("/r/silent-{i}.sock"), Script::silent());
    }
    world
}

#[test]
fn hundreds_of_silent_plugins_hold_up_others_for_200_ms() {
    let mut world = with_silent_plugins(640);
    world.appear(A, Script::csi("a"));
    world.advance(40 * PERMIT_TIME);
    world.assert_calls("validate a, register a");
}

#[test]
fn handlers_that_do_not_answer_hold_up_their_name_alone() {
    for is_one_name in [false, true] {
        let mut world = World::new();
        for i in 0..70 {
            let name = if is_one_name { 0 } else { i };
            world.handler.will_answer([YES, WAIT]);
            world.appear(&format!("/r/{i}"), Script::csi(&format!("hung-{name}")));
        }
        world.handler_calls();
        world.appear(A, Script::csi("a"));
        assert_eq!(world.handler_calls(), "validate a, register a", "at once");
    }
}

//! The table of operations: kubelet's cases for one operation at a time on each socket.

use std::time::Duration;

use plugind::config::{HANDLER_TIMEOUT, NOTIFY_TIMEOUT};
use plugind::handler::Reason;

use super::{A, path, seconds};
use crate::script::{Answer, Script};
use crate::world::{WAIT, World, YES, no};

/// Returns a plugin that closes the connection when it is asked who it is.
fn dying() -> Script {
    Script::csi("a").with_get_info(Answer::Close)
}

/// Asserts that the plugin is asked again 500 ms after its failure, and no sooner.
fn assert_backoff(world: &mut World) {
    world.advance(Duration::from_millis(499));
    world.notice(A);
    world.run();
    world.assert_calls("");
    world.advance(Duration::from_millis(1));
    world.assert_calls("validate a, register a");
}

#[test]
fn gm5_a_success_leaves_no_backoff() {
    let mut world = World::new();
    world.appear(A, dying());
    world.advance(seconds(3));
    world.plugin(A).get_info = Answer::Good;
    world.advance(seconds(10));
    let socket = world.desired(A).expect("the socket is desired");
    assert_eq!(socket.backoff.until(), None);
    assert_eq!(socket.last_failure, None);
    assert_eq!(world.counts(), (1, 1));
}

#[test]
fn gm6_gm7_gm13_gm16_a_failed_operation_frees_its_socket() {
    let mut world = World::new();
    world.appear(A, dying());
    assert!(world.manager.is_idle());
    assert_eq!(world.operation(&path(A)), None);
    let delay = world.desired(A).and_then(|it| it.backoff.delay());
    assert_eq!(delay, Some(Duration::from_millis(500)));
    world.plugin(A).get_info = Answer::Good;
    assert_backoff(&mut world);
    assert_eq!(world.dials[&path(A)], 2);
}

#[test]
fn gm9_an_operation_is_refused_while_another_runs() {
    let mut world = World::answering([YES, no("not yet"), WAIT]);
    world.appear(A, Script::csi("a"));
    world.assert_calls("validate a, register a");
    world.advance(seconds(1));
    world.notice(A);
    world.advance(seconds(60));
    world.assert_calls("validate a");
    assert_eq!(world.dials[&path(A)], 2);
}

#[test]
fn gm4_gm10_gm14_the_next_is_accepted_once_the_first_has_ended() {
    let mut world = World::answering([WAIT]);
    world.appear(A, Script::csi("a"));
    world.notice(A);
    world.assert_calls("validate a");
    assert!(!world.manager.is_idle());
    world.answer_open(Ok(()));
    world.assert_calls("register a");
    assert!(world.manager.is_idle());
    world.vanish(A);
    world.appear(A, Script::csi("a"));
    let again = "deregister a, validate a, register a";
    assert_eq!(world.handler_calls(), again);
}

#[test]
fn gm11_the_same_with_a_failure_the_third_has_to_wait() {
    let mut world = World::answering([YES, WAIT]);
    world.appear(A, Script::csi("a"));
    world.answer_open(Err(Reason::new("no")));
    world.notice(A);
    world.assert_calls("validate a, register a");
    assert_backoff(&mut world);
}

#[test]
fn gm15_a_table_is_idle_once_its_operations_are_timed_out() {
    let mut world = World::answering([WAIT]);
    world.appear(A, Script::csi("a").with_notify(Answer::Silence));
    world.advance(HANDLER_TIMEOUT);
    assert!(!world.manager.is_idle());
    world.assert_calls("validate a, abandon");
    world.advance(NOTIFY_TIMEOUT);
    assert!(world.manager.is_idle());
}

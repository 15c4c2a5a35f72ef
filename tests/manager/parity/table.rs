//! The table of operations: kubelet's cases for one operation at a time on each socket.

use std::path::Path;
use std::time::Duration;

use plugind::handler::{Answer as HandlerAnswer, Reason};

use super::{A, B, csi, path, seconds};
use crate::script::{Answer, Script};
use crate::world::World;

#[test]
fn gm1_one_operation_runs() {
    let mut world = World::new();
    world.handler.will_answer([HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    assert_eq!(world.operation(Path::new(A)), Some("Validating"));
}

#[test]
fn gm2_operations_on_two_sockets_run() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::Pending, HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    world.appear(B, csi("b"));
    assert_eq!(world.operation(Path::new(A)), Some("Validating"));
    assert_eq!(world.operation(Path::new(B)), Some("Validating"));
}

#[test]
fn gm4_the_same_socket_runs_again_after_a_success() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    world.vanish(A);
    world.appear(A, csi("a"));
    assert_eq!(
        world.handler_calls(),
        "validate a, register a, deregister a, validate a, register a"
    );
}

#[test]
fn gm5_a_success_leaves_no_backoff() {
    let mut world = World::new();
    world.appear(
        A,
        Script {
            get_info: Answer::Close,
            ..csi("a")
        },
    );
    world.advance(seconds(3));
    world.plugin(A).get_info = Answer::Good;
    world.advance(seconds(10));
    let socket = world
        .manager
        .socket(Path::new(A))
        .and_then(|it| it.desired())
        .expect("the socket is desired");
    assert_eq!(
        (socket.backoff.until(), &socket.last_failure),
        (None, &None)
    );
    assert_eq!(world.counts(), (1, 1));
}

#[test]
fn gm6_an_operation_that_dies_frees_its_socket() {
    let mut world = World::new();
    world.appear(
        A,
        Script {
            get_info: Answer::Close,
            ..csi("a")
        },
    );
    assert_eq!(world.operation(Path::new(A)), None);
    world.appear(A, csi("a"));
    assert_eq!(world.handler_calls(), "validate a, register a");
}

#[test]
fn gm7_after_an_operation_died_the_next_is_refused() {
    let mut world = World::new();
    world.appear(
        A,
        Script {
            get_info: Answer::Close,
            ..csi("a")
        },
    );
    world.plugin(A).get_info = Answer::Good;
    world.advance(Duration::from_millis(499));
    world.notice(A);
    world.run();
    assert_eq!(
        (world.handler_calls(), world.dials[&path(A)]),
        (String::new(), 1)
    );
    world.advance(Duration::from_millis(1));
    assert_eq!(
        (world.handler_calls().as_str(), world.dials[&path(A)]),
        ("validate a, register a", 2)
    );
}

#[test]
fn gm8_an_operation_is_refused_while_another_runs_on_its_socket() {
    let mut world = World::new();
    world.handler.will_answer([HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    for _ in 0..3 {
        world.notice(A);
        world.advance(seconds(1));
    }
    assert_eq!(world.dials[&path(A)], 1);
}

#[test]
fn gm9_an_operation_is_refused_while_another_runs() {
    let mut world = World::new();
    world.handler.will_answer([
        HandlerAnswer::YES,
        HandlerAnswer::no("not yet"),
        HandlerAnswer::Pending,
    ]);
    world.appear(A, csi("a"));
    assert_eq!(world.handler_calls(), "validate a, register a");
    world.advance(seconds(1));
    world.notice(A);
    world.advance(seconds(60));
    assert_eq!(
        (world.handler_calls().as_str(), world.dials[&path(A)]),
        ("validate a", 2)
    );
}

#[test]
fn gm10_the_third_is_accepted_once_the_first_has_ended() {
    let mut world = World::new();
    world.handler.will_answer([HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    world.notice(A);
    assert_eq!(world.handler_calls(), "validate a");
    let ticket = world.handler.open()[0];
    world.answer(ticket, Ok(()));
    assert_eq!(world.handler_calls(), "register a");
    world.vanish(A);
    assert_eq!(world.handler_calls(), "deregister a");
}

#[test]
fn gm11_the_same_with_a_failure_the_third_has_to_wait() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    let ticket = world.handler.open()[0];
    world.answer(ticket, Err(Reason::new("no")));
    world.notice(A);
    assert_eq!(world.handler_calls(), "validate a, register a");
    world.advance(Duration::from_millis(499));
    assert_eq!(world.handler_calls(), "");
    world.advance(Duration::from_millis(1));
    assert_eq!(world.handler_calls(), "validate a, register a");
}

#[test]
fn gm12_an_empty_table_is_idle() {
    assert!(World::new().manager.is_idle());
}

#[test]
fn gm13_a_table_of_operations_that_have_failed_is_idle() {
    let mut world = World::new();
    world.appear(
        A,
        Script {
            get_info: Answer::Close,
            ..csi("a")
        },
    );
    assert!(world.manager.is_idle());
}

#[test]
fn gm14_a_table_is_idle_once_its_operations_have_succeeded() {
    let mut world = World::new();
    world.handler.will_answer([HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    assert!(!world.manager.is_idle());
    let ticket = world.handler.open()[0];
    world.answer(ticket, Ok(()));
    assert!(world.manager.is_idle());
}

#[test]
fn gm15_a_table_is_idle_once_its_operations_are_timed_out() {
    let mut world = World::new();
    world.handler.will_answer([HandlerAnswer::Pending]);
    world.appear(
        A,
        Script {
            notify: Answer::Silence,
            ..csi("a")
        },
    );
    world.advance(plugind::config::HANDLER_TIMEOUT);
    assert!(!world.manager.is_idle());
    assert_eq!(world.handler_calls(), "validate a, abandon");
    world.advance(plugind::config::NOTIFY_TIMEOUT);
    assert!(world.manager.is_idle());
}

#[test]
fn gm16_a_failed_operation_is_not_pending() {
    let mut world = World::new();
    world.appear(
        A,
        Script {
            get_info: Answer::Close,
            ..csi("a")
        },
    );
    assert_eq!(world.operation(Path::new(A)), None);
    let socket = world
        .manager
        .socket(Path::new(A))
        .and_then(|it| it.desired())
        .expect("the socket is desired");
    assert_eq!(socket.backoff.delay(), Some(Duration::from_millis(500)));
}

//! The events that leave the manager, in virtual time: what an operator can follow.

use std::collections::BTreeSet;
use std::time::Duration;

use plugind::config::BACKOFF;

use crate::script::{Answer, Script};
use crate::world::{World, YES, no};

const A: &str = "/r/a.sock";
const B: &str = "/r/b.sock";

/// Removes and returns the events: their reasons, and their lines in the log.
fn take(world: &mut World) -> Vec<String> {
    let events = std::mem::take(&mut world.events);
    let shown = events.iter().map(|it| format!("{} {it}", it.reason()));
    shown.collect()
}

#[test]
fn the_life_of_a_plugin_is_a_stream_of_events() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    assert_eq!(
        take(&mut world),
        [
            "SocketFound /r/a.sock: found a socket",
            "Registered /r/a.sock: attempt 1: registered CSIPlugin a at /r/a.sock",
        ]
    );
    world.kill(A);
    world.advance(Duration::from_secs(5));
    assert_eq!(
        take(&mut world),
        [
            "Down /r/a.sock: CSIPlugin a (a process of user 0) is down: cannot connect: \
             nothing listens on the socket; it stays registered"
        ]
    );
    world.listen(A, Script::csi("a"));
    world.advance(Duration::from_secs(60));
    assert_eq!(take(&mut world), ["Up /r/a.sock: CSIPlugin a is up again"]);
    world.vanish(A);
    assert_eq!(
        take(&mut world),
        [
            "SocketLost /r/a.sock: the socket was removed",
            "Deregistered /r/a.sock: deregistered CSIPlugin a",
        ]
    );
}

#[test]
fn a_failure_is_an_event_with_the_time_of_the_next_attempt() {
    let mut world = World::new();
    let refused = Answer::Status(14, "not yet");
    world.appear(A, Script::csi("a").with_get_info(refused));
    world.advance(BACKOFF.first * 2);
    let events = std::mem::take(&mut world.events);
    let failed = events.iter().filter(|it| it.reason() == "GetInfoFailed");
    let failed: Vec<_> = failed
        .map(|it| {
            (
                it.attempt,
                it.is_warning(),
                it.level().as_str(),
                it.to_string(),
            )
        })
        .collect();
    let line = "GetInfo failed: the peer returned UNAVAILABLE: not yet; next try in";
    assert_eq!(
        failed,
        [
            (1, true, "WARN", format!("{A}: attempt 1: {line} 500ms")),
            (2, true, "DEBUG", format!("{A}: attempt 2: {line} 1s")),
        ]
    );
}

#[test]
fn a_socket_on_which_nothing_listens_is_reported() {
    let mut world = World::new();
    world.appear(A, None);
    world.advance(Duration::from_secs(60));
    let seen = world.reasons();
    let seen: BTreeSet<_> = seen.split(' ').collect();
    let expected = ["ConnectFailed", "NotConnected", "SocketFound"];
    assert_eq!(seen, expected.into_iter().collect());
}

#[test]
fn what_happens_to_several_plugins_of_a_name_is_reported() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    world.appear(B, Script::csi("a").with_uid(7));
    assert_eq!(
        world.reasons(),
        "SocketFound Registered SocketFound Untrusted Registered TakenOver"
    );
    world.vanish(B);
    assert_eq!(
        take(&mut world),
        [
            "SocketLost /r/b.sock: the socket was removed",
            "Deregistered /r/b.sock: deregistered CSIPlugin a",
            "Promoted /r/a.sock: CSIPlugin a is in use again",
        ]
    );
}

#[test]
fn an_event_of_an_attempt_has_its_number() {
    let mut world = World::new();
    world.appear(A, None);
    assert_eq!(
        take(&mut world),
        [
            "SocketFound /r/a.sock: found a socket",
            "NotConnected /r/a.sock: attempt 1: nothing listens on the socket yet; \
             retrying for 10 s",
        ]
    );
    let mut world = World::new();
    world.handler.will_answer([YES, YES, no("it is in use")]);
    let notify = Answer::Status(2, "no");
    world.appear(A, Script::csi("a").with_notify(notify));
    let events = std::mem::take(&mut world.events);
    let not_undone = events
        .iter()
        .find(|it| it.reason() == "DeregistrationFailed");
    assert_eq!(not_undone.map(|it| it.attempt), Some(1), "{events:?}");
}

//! The events that leave the manager, in virtual time: what an operator can follow.

use std::collections::BTreeSet;
use std::time::Duration;

use log::Level::{Debug, Warn};
use plugind::config::BACKOFF;

use crate::script::{Answer, Script};
use crate::world::{World, YES, no};

const A: &str = "/r/a.sock";
const B: &str = "/r/b.sock";

#[test]
fn the_life_of_a_plugin_is_a_stream_of_events() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    world.assert_events(&[
        "SocketFound /r/a.sock: found a socket",
        "Registered /r/a.sock: attempt 1: registered CSIPlugin a at /r/a.sock",
    ]);
    world.kill(A);
    world.advance(Duration::from_secs(5));
    world.assert_events(&[
        "Down /r/a.sock: CSIPlugin a (a process of user 0) is down: cannot connect: \
         nothing listens on the socket; it stays registered",
    ]);
    world.listen(A, Script::csi("a"));
    world.advance(Duration::from_secs(60));
    world.assert_events(&["Up /r/a.sock: CSIPlugin a is up again"]);
    world.vanish(A);
    world.assert_events(&[
        "SocketLost /r/a.sock: the socket was removed",
        "Deregistered /r/a.sock: deregistered CSIPlugin a",
    ]);
}

#[test]
fn a_failure_is_an_event_with_the_time_of_the_next_attempt() {
    let mut world = World::new();
    let refused = Answer::Status(14, "not yet");
    world.appear(A, Script::csi("a").with_get_info(refused));
    world.advance(BACKOFF.first * 2);
    let events = std::mem::take(&mut world.events);
    let failed = events.iter().filter(|it| it.reason() == "GetInfoFailed");
    let failed = failed.map(|it| (it.attempt, it.is_warning(), it.level(), it.to_string()));
    let line = "GetInfo failed: the peer returned UNAVAILABLE: not yet; next try in";
    let expected = [
        (1, true, Warn, format!("{A}: attempt 1: {line} 500ms")),
        (2, true, Debug, format!("{A}: attempt 2: {line} 1s")),
    ];
    assert_eq!(failed.collect::<Vec<_>>(), expected);
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
    let reasons = "SocketFound Registered SocketFound Untrusted Registered TakenOver";
    assert_eq!(world.reasons(), reasons);
    world.vanish(B);
    world.assert_events(&[
        "SocketLost /r/b.sock: the socket was removed",
        "Deregistered /r/b.sock: deregistered CSIPlugin a",
        "Promoted /r/a.sock: CSIPlugin a is in use again",
    ]);
}

#[test]
fn an_event_of_an_attempt_has_its_number() {
    let mut world = World::new();
    world.appear(A, None);
    world.assert_events(&[
        "SocketFound /r/a.sock: found a socket",
        "NotConnected /r/a.sock: attempt 1: nothing listens on the socket yet; \
         retrying for 10 s",
    ]);
    let mut world = World::answering([YES, YES, no("it is in use")]);
    let notify = Answer::Status(2, "no");
    world.appear(A, Script::csi("a").with_notify(notify));
    let events = std::mem::take(&mut world.events);
    let mut failed = events.iter();
    let not_undone = failed.find(|it| it.reason() == "DeregistrationFailed");
    assert_eq!(not_undone.map(|it| it.attempt), Some(1), "{events:?}");
}

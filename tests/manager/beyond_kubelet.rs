//! Failures of kubelet that the manager avoids: a test for each, in virtual time. Tests about the
//! watch are in `src/watch/`, those about the kernel in `tests/library/integration.rs`.

mod dials;
mod down;
mod restarts;

use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF, DIAL_TIMEOUT, HANDLER_TIMEOUT, STALLED_AFTER};
use plugind::handler::Reason;
use plugind::manager::{Input, State};
use plugind::time::Time;

use crate::node::Node;
use crate::script::{Answer, Script};
use crate::world::{WAIT, World, YES, no};

const A: &str = "/r/a-reg.sock";
const B: &str = "/r/b-reg.sock";
const C: &str = "/r/c-reg.sock";

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn asked(world: &mut World, path: &str) -> usize {
    world.plugin(path).asked
}

#[test]
fn a_plugin_does_not_wait_out_its_predecessors_backoff() {
    let mut world = World::new();
    world.appear(A, None);
    world.advance(minutes(20));
    let backoff = world.desired(A).map(|it| it.backoff.delay());
    assert_eq!(backoff, Some(Some(BACKOFF.cap)));
    world.appear(A, Script::csi("a"));
    world.assert_calls("validate a, register a");
}

#[test]
fn a_plugin_is_registered_at_the_moment_it_is_found() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
    assert_eq!(world.now, Time::ZERO);
}

#[test]
fn one_more_plugin_is_the_work_of_one_however_many_there_are() {
    let mut world = World::new();
    for i in 0..300 {
        world.appear(&format!("/r/{i}.sock"), Script::csi(&format!("plugin-{i}")));
    }
    world.handler_calls();
    world.take_dials();
    world.appear(A, Script::csi("a"));
    world.assert_calls("validate a, register a");
    assert_eq!(world.take_dials().len(), 1);
}

#[test]
fn the_removal_of_a_path_concerns_what_is_registered_there() {
    let mut node = Node::new(World::new().manager);
    node.bind(A, Some(Script::csi("old")), false);
    node.hear_all();
    // The old plugin cleans up after the new one has started: its removal is reported too late.
    node.remove(A);
    node.bind(A, Some(Script::csi("new")), false);
    while node.hear() {}
    let there = node.tree.sockets().map(|(_, identity)| identity).last();
    let registered = node.world.registered(A);
    assert_eq!(registered.map(|it| &*it.plugin.name), Some("new"));
    assert_eq!(registered.map(|it| it.identity), there);
}

#[test]
fn a_double_sighting_does_not_flap_a_registered_plugin() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    world.handler_calls();
    for _ in 0..10 {
        world.notice(A);
        world.run();
    }
    world.assert_calls("");
    assert_eq!(asked(&mut world, A), 1);
}

#[test]
fn a_plugin_that_is_refused_is_told_once() {
    let unimplemented = Answer::Status(12, "unknown service");
    for (script, refusals, told) in [
        (Script::csi("a"), 18, 1),
        (Script::good("Unknown", "a"), 0, 1),
        (Script::good("", "a"), 0, 1),
        (Script::csi(""), 0, 1),
        (Script::csi("a").with_get_info(unimplemented), 0, 0),
    ] {
        let mut world = World::answering(vec![no("not yet"); refusals]);
        world.appear(A, script.clone());
        for (time, asks) in [(minutes(2), 8), (10 * BACKOFF.cap, 18)] {
            world.advance(time);
            let plugin = world.plugin(A);
            let seen = (plugin.asked, plugin.notified.len());
            assert_eq!(seen, (asks, told), "{script:?}");
        }
        world.listen(A, Script::csi("ready"));
        world.advance(BACKOFF.cap);
        assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
    }
}

#[test]
fn a_plugin_is_told_again_when_its_answer_is_another_one() {
    let mut world = World::new();
    let reasons = ["old", "old", "new", "new", "new", "new"];
    world.handler.will_answer(reasons.map(no));
    world.appear(A, Script::csi("a"));
    world.advance(Duration::from_millis(500));
    assert_eq!(world.plugin(A).notified.len(), 1, "the same refusal");
    world.advance(Duration::from_secs(1));
    assert_eq!(world.plugin(A).notified.len(), 2, "another reason");
    world.plugin(A).info.supported_versions = vec!["2.0.0".into()];
    world.advance(Duration::from_secs(2));
    assert_eq!(world.plugin(A).notified.len(), 3, "another answer");
    world.plugin(A).get_info = Answer::Status(14, "busy");
    world.advance(Duration::from_secs(4));
    world.plugin(A).get_info = Answer::Good;
    world.advance(Duration::from_secs(8));
    assert_eq!(world.plugin(A).notified.len(), 3, "as before");
}

#[test]
fn a_refusal_that_has_not_reached_its_plugin_is_sent_again() {
    let mut world = World::answering([WAIT, no("bad version")]);
    world.appear(A, Script::csi("a"));
    world.kill(A);
    world.answer_open(Err(Reason::new("bad version")));
    world.listen(A, Script::csi("a"));
    world.advance(BACKOFF.first);
    let told = "RegisterPlugin error -- plugin validation failed with err: bad version";
    assert_eq!(world.plugin(A).last_notified(), Some((false, told)));
}

#[test]
fn what_could_not_be_registered_is_tried_with_backoff() {
    let mut world = World::answering([YES, no("not yet"), YES, no("not yet")]);
    world.appear(A, Script::csi("a"));
    world.advance(Duration::from_millis(1500));
    assert_eq!(world.counts(), (1, 1));
    let notified = world.plugin(A).notified.iter();
    let told: Vec<_> = notified.map(|it| it.plugin_registered).collect();
    assert_eq!(told, [false, false, true]);
}

#[test]
fn what_was_refused_is_tried_at_once_when_it_changes() {
    let mut world = World::answering([no("bad version"), no("bad version")]);
    world.appear(A, Script::csi("a"));
    world.assert_calls("validate a");
    world.input(Input::Reconsider);
    world.assert_calls("validate a");
    world.appear(A, Script::csi("a"));
    world.assert_calls("validate a, register a");
}

#[test]
fn the_older_sockets_removal_leaves_the_newer_registration() {
    let mut world = World::new();
    world.appear(A, Script::csi("a").at("/p/old.sock"));
    world.appear(B, Script::csi("a").at("/p/new.sock"));
    world.handler_calls();
    world.vanish(A);
    world.assert_calls("deregister a@/p/old.sock");
    let current = world.manager.instances("CSIPlugin", "a").last();
    let endpoint = current.map(|it| it.endpoint.clone());
    assert_eq!(endpoint.as_deref(), Some(Path::new("/p/new.sock")));
}

#[test]
fn the_fallback_is_promoted_when_the_newest_goes() {
    let mut world = World::new();
    world.appear(A, Script::csi("a").at("/p/1.sock"));
    world.appear(B, Script::csi("a").at("/p/2.sock"));
    world.appear(C, Script::csi("a").at("/p/3.sock"));
    world.handler_calls();
    world.vanish(B);
    world.assert_calls("deregister a@/p/2.sock");
    world.vanish(C);
    world.assert_calls("deregister a@/p/3.sock, promoted a@/p/1.sock");
}

#[test]
fn a_plugin_whose_rival_goes_meanwhile_is_registered_at_once() {
    let mut world = World::new();
    world.appear(A, Script::csi("a").at("/p/a.sock"));
    world.is_slow = true;
    world.appear(B, Script::csi("a").at("/p/a.sock"));
    world.deliver_until(B, "Notifying");
    world.vanish(A);
    world.is_slow = false;
    world.run();
    assert_eq!(world.plugin(B).last_notified(), Some((true, "")));
}

#[test]
fn the_contract_is_kept_per_plugin_name_and_not_only_per_socket() {
    let mut world = World::answering([YES, WAIT]);
    world.appear(A, Script::csi("a").at("/p/old.sock"));
    world.appear(B, Script::csi("a").at("/p/new.sock"));
    world.appear(C, Script::csi("other"));
    world.assert_calls(
        "validate a@/p/old.sock, register a@/p/old.sock, validate other, register other",
    );
    world.answer_open(Ok(()));
    world.assert_calls("validate a@/p/new.sock, register a@/p/new.sock");
}

#[test]
fn an_open_question_holds_up_its_name_for_five_seconds() {
    let mut world = World::answering([YES, WAIT, YES, WAIT]);
    for path in [A, B, C] {
        world.appear(path, Script::csi("a").at(path.replace("/r", "/p").as_str()));
    }
    world.handler_calls();
    world.advance(STALLED_AFTER.saturating_sub(Duration::from_millis(1)));
    world.assert_calls("");
    world.advance(Duration::from_millis(1));
    world.assert_calls("validate a@/p/b-reg.sock, register a@/p/b-reg.sock");
    world.advance(STALLED_AFTER);
    world.assert_calls("validate a@/p/c-reg.sock, register a@/p/c-reg.sock");
    assert_eq!(world.plugin(C).last_notified(), Some((true, "")));
    let [a, b] = world.handler.open()[..] else {
        panic!("two questions are open");
    };
    world.answer(b, Err(Reason::new("no")));
    world.answer(a, Ok(()));
    let told = world.plugin(A).last_notified();
    assert_eq!(told, Some((true, "")), "its question was not abandoned");
    world.assert_calls("");
}

#[test]
fn a_plugin_is_told_by_a_second_connection_if_one_dies() {
    let mut world = World::answering([YES, WAIT]);
    world.appear(A, Script::csi("a"));
    world.cut(A);
    world.answer_open(Ok(()));
    assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
    world.assert_calls("validate a, register a");
    assert_eq!(world.counts(), (1, 1));
}

#[test]
fn a_handler_that_never_answers_costs_only_its_plugin() {
    let mut world = World::answering([YES, WAIT]);
    world.appear(A, Script::csi("a"));
    world.appear(B, Script::csi("b"));
    world.assert_calls("validate a, register a, validate b, register b");
    world.advance(HANDLER_TIMEOUT);
    world.assert_calls("abandon, deregister a");
    let told = "RegisterPlugin error -- plugin registration failed with err: \
                no answer from the handler within 150 s";
    assert_eq!(world.plugin(A).last_notified(), Some((false, told)));
}

#[test]
fn a_manager_that_is_to_end_begins_nothing() {
    let mut world = World::new();
    world.appear(C, Script::csi("c"));
    world.handler_calls();
    world.handler.will_answer([YES, WAIT]);
    world.appear(A, Script::csi("a"));
    world.manager.handle_input(Input::Stop, world.now);
    world.appear(B, Script::csi("b"));
    world.vanish(C);
    assert_eq!(world.state(C), Some(State::Deregistering));
    world.advance(Duration::from_millis(1999));
    assert!(!world.manager.is_stopped());
    world.advance(Duration::from_millis(1));
    world.assert_calls("validate a, register a");
    assert_eq!(world.saved().len(), 2, "the next daemon deregisters them");
    assert!(world.manager.is_stopped());
    assert!(world.reasons().contains("OperationDropped"));
    assert!(world.open_connections().is_empty());
}

#[test]
fn a_manager_that_is_to_end_lets_what_runs_end_well() {
    let mut world = World::answering([YES, WAIT]);
    world.appear(A, Script::csi("a"));
    world.manager.handle_input(Input::Stop, world.now);
    world.answer_open(Ok(()));
    assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
    world.assert_calls("validate a, register a");
    assert!(world.manager.is_stopped());
}

#[test]
fn a_failure_says_what_happened() {
    for notify in [Answer::Good, Answer::Status(13, "?"), Answer::Close] {
        let mut world = World::answering([no("bad version")]);
        world.appear(A, Script::csi("a").with_notify(notify));
        let words = world.failure(A);
        assert_eq!(words, "plugin refused: validation failed: bad version");
    }
}

#[test]
fn the_second_for_get_info_starts_with_the_plugin_s_first_word() {
    let mut world = World::new();
    world.is_slow = true;
    world.appear(A, Script::csi("a"));
    world.deliver_until(A, "AskingInfo");
    world.advance(Duration::from_secs(4));
    assert_eq!(world.operation(Path::new(A)), Some("AskingInfo"));
    world.is_slow = false;
    world.run();
    world.assert_calls("validate a, register a");
}

/// Returns a world whose plugin listens after that time, and which connects as soon as it dials;
/// what the plugin sends stays in flight.
fn connected_after(time: Duration) -> World {
    let mut world = World::new();
    world.appear(A, None);
    world.advance(time);
    world.listen(A, Script::csi("a"));
    world.is_slow = true;
    while world.busy_connections().is_empty() {
        world.advance(Duration::from_millis(10));
    }
    world.deliver_until(A, "AskingInfo");
    world
}

#[test]
fn a_plugin_whose_settings_come_in_time_is_registered() {
    for (connected, settings) in [(0, 8_000), (0, 9_900), (6, 2_900)] {
        let mut world = connected_after(Duration::from_secs(connected));
        world.advance(Duration::from_millis(settings));
        let operation = world.operation(Path::new(A));
        assert_eq!(operation, Some("AskingInfo"), "{settings} ms");
        world.is_slow = false;
        world.run();
        let calls = world.handler_calls();
        assert_eq!(calls, "validate a, register a", "{settings} ms");
    }
}

#[test]
fn a_plugin_that_never_sends_settings_fails_in_time() {
    for connected in [0, 6] {
        let mut world = connected_after(Duration::from_secs(connected));
        let left = (Time::ZERO + DIAL_TIMEOUT).saturating_since(world.now);
        assert!(left <= DIAL_TIMEOUT.saturating_sub(Duration::from_secs(connected)));
        world.advance(left.saturating_sub(Duration::from_millis(1)));
        assert_eq!(world.operation(Path::new(A)), Some("AskingInfo"));
        world.advance(Duration::from_millis(1));
        assert_eq!(world.operation(Path::new(A)), None);
        let reason = world.failure(A);
        let words = format!("no SETTINGS within {left:.1?} of connecting: the HTTP/2 handshake");
        assert!(reason.contains(&words), "{reason}");
        world.assert_calls("");
    }
}

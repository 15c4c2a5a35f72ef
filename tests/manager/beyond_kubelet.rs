//! Failures of kubelet that the manager avoids: a test for each, in virtual time. Tests about the
//! watch are in `src/watch/`, those about the kernel in `tests/integration.rs`.

use std::path::Path;
use std::time::Duration;

use plugind::config::{
    BACKOFF_CAP, DIAL_TIMEOUT, HANDLER_TIMEOUT, MAX_OUTLIVED, OUTLIVED_GRACE, PERMIT_TIME,
    REDIAL_MAX, SOFT_OPERATION_LIMIT, STALLED_AFTER, STOP_GRACE,
};
use plugind::handler::{Answer as HandlerAnswer, Reason};
use plugind::manager::{Input, LivenessSource, OnDown, SavedState};

use crate::node::Node;
use crate::script::{Answer, Script};
use crate::world::World;

const A: &str = "/r/a-reg.sock";
const B: &str = "/r/b-reg.sock";
const C: &str = "/r/c-reg.sock";

fn csi(name: &str) -> Script {
    Script::good("CSIPlugin", name)
}

fn with_endpoint(name: &str, endpoint: &str) -> Script {
    let mut script = csi(name);
    script.info.endpoint = endpoint.into();
    script
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn asked(world: &mut World, path: &str) -> usize {
    world.plugin(path).asked
}

#[test]
fn a_plugin_does_not_wait_out_the_backoff_that_its_predecessor_s_stale_socket_built_up() {
    let mut world = World::new();
    world.appear(A, None);
    world.advance(minutes(20));
    let backoff = world
        .manager
        .socket(Path::new(A))
        .and_then(|it| it.desired())
        .map(|it| it.backoff.delay());
    assert_eq!(backoff, Some(Some(BACKOFF_CAP)));
    world.appear(A, csi("a"));
    assert_eq!(world.handler_calls(), "validate a, register a");
}

/// Returns the order in which paths are dialled that appear, in the given order, while other
/// sockets take every place, of which one becomes free at each of these moments.
fn order_of_dials(late: &[&'static str], moments: usize) -> Vec<&'static str> {
    let mut world = World::new();
    world.is_slow = true;
    for path in late.iter().filter(|path| path.contains("renewed")) {
        for _ in 0..2 {
            world.appear(path, None);
            world.vanish(path);
        }
    }
    world.dials.clear();
    for i in 0..SOFT_OPERATION_LIMIT {
        world.appear(&format!("/r/busy-{i}.sock"), csi("busy"));
    }
    for path in late {
        world.appear(path, csi("late"));
    }
    let mut dialled = Vec::new();
    for i in 0..moments {
        world.vanish(&format!("/r/busy-{i}.sock"));
        for path in late {
            let is_new = world.dials.contains_key(Path::new(path)) && !dialled.contains(path);
            dialled.extend(is_new.then_some(*path));
        }
    }
    dialled
}

#[test]
fn sockets_of_one_directory_that_wait_for_a_place_get_it_in_the_order_in_which_they_came() {
    assert_eq!(order_of_dials(&[C, A, B], 3), [C, A, B]);
}

#[test]
fn directories_take_turns_when_their_sockets_wait_for_a_place() {
    let late = ["/r/1", "/r/2", "/r/3", "/honest/1"];
    assert_eq!(
        order_of_dials(&late, 4),
        ["/r/1", "/honest/1", "/r/2", "/r/3"]
    );
}

#[test]
fn a_path_that_was_renewed_twice_within_a_minute_waits_behind_newcomers() {
    let late = ["/r/renewed", "/r/1", "/r/2"];
    assert_eq!(order_of_dials(&late, 3), ["/r/1", "/r/2", "/r/renewed"]);
}

#[test]
fn a_plugin_that_listens_long_after_it_has_bound_its_socket_is_met_within_three_seconds() {
    for after in [20, 80, 300, 590] {
        let mut world = World::new();
        world.appear(A, None);
        world.advance(Duration::from_secs(after));
        world.listen(A, csi("a"));
        world.advance(REDIAL_MAX);
        assert_eq!(
            world.handler_calls(),
            "validate a, register a",
            "after {after} s"
        );
    }
}

#[test]
fn a_socket_on_which_nothing_listens_is_dialled_ever_more_rarely_after_ten_minutes() {
    let mut world = World::new();
    world.appear(A, None);
    world.advance(minutes(20));
    world.take_dials();
    world.advance(minutes(60));
    assert!(world.take_dials().len() < 31);
}

#[test]
fn many_dead_sockets_are_dialled_20_times_a_second_all_together_and_each_of_them_in_turn() {
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
    assert_eq!(world.dials.len(), count, "each socket is dialled");
    world.appear(A, csi("a"));
    assert_eq!(
        world.handler_calls(),
        "validate a, register a",
        "without a delay"
    );
}

#[test]
fn dead_sockets_block_nobody() {
    let mut world = World::new();
    for i in 0..200 {
        world.appear(&format!("/r/dead-{i}.sock"), None);
    }
    world.appear(A, csi("a"));
    assert_eq!(world.handler_calls(), "validate a, register a");
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
fn hundreds_of_silent_plugins_hold_up_another_directory_for_5_ms_and_their_own_for_200() {
    for (path, wait) in [("/honest/a", PERMIT_TIME), (A, 40 * PERMIT_TIME)] {
        let mut world = with_silent_plugins(640);
        world.appear(path, csi("a"));
        world.advance(wait);
        assert_eq!(world.handler_calls(), "validate a, register a", "{path}");
    }
}

#[test]
fn handlers_that_do_not_answer_hold_up_no_plugin_of_another_name() {
    let mut world = World::new();
    for i in 0..70 {
        world
            .handler
            .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
        world.appear(&format!("/r/{i}"), csi(&format!("hung-{i}")));
    }
    world.handler_calls();
    world.appear(A, csi("a"));
    assert_eq!(
        world.handler_calls(),
        "validate a, register a",
        "without a delay"
    );
}

#[test]
fn sockets_that_wait_for_their_name_hold_up_no_plugin_of_another_name() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
    for i in 0..70 {
        world.appear(&format!("/r/{i}"), csi("hung"));
    }
    world.handler_calls();
    world.appear(A, csi("a"));
    assert_eq!(
        world.handler_calls(),
        "validate a, register a",
        "without a delay"
    );
}

#[test]
fn sockets_on_which_nothing_listens_do_not_keep_a_line_from_moving() {
    let mut world = World::new();
    for i in 0..30 {
        world.appear(&format!("/r/dead-{i}.sock"), None);
        world.advance(Duration::from_millis(33));
    }
    for i in 0..SOFT_OPERATION_LIMIT {
        world.appear(&format!("/r/silent-{i}.sock"), Script::silent());
    }
    world.appear(A, csi("a"));
    world.advance(PERMIT_TIME);
    assert_eq!(world.handler_calls(), "validate a, register a");
}

#[test]
fn a_plugin_is_registered_at_the_moment_it_is_found() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
    assert_eq!(world.now, plugind::time::Time::ZERO);
}

#[test]
fn one_more_plugin_is_the_work_of_one_however_many_there_are() {
    let mut world = World::new();
    for i in 0..300 {
        world.appear(&format!("/r/{i}.sock"), csi(&format!("plugin-{i}")));
    }
    world.handler_calls();
    world.take_dials();
    world.appear(A, csi("a"));
    assert_eq!(world.handler_calls(), "validate a, register a");
    assert_eq!(world.take_dials().len(), 1);
}

#[test]
fn the_removal_of_a_path_is_a_removal_only_of_what_is_registered_there() {
    let mut node = Node::new(World::new().manager);
    node.bind(A, Some(csi("old")), false);
    node.hear_all();
    // The old plugin cleans up after the new one has started: its removal is reported too late.
    node.remove(A);
    node.bind(A, Some(csi("new")), false);
    while node.hear() {}
    let there = node.tree.sockets().map(|(_, identity)| identity).last();
    let registered = node
        .world
        .manager
        .socket(Path::new(A))
        .and_then(|it| it.registered());
    assert_eq!(registered.map(|it| &*it.plugin.name), Some("new"));
    assert_eq!(registered.map(|it| it.identity), there);
}

#[test]
fn a_double_sighting_does_not_flap_a_registered_plugin() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    world.handler_calls();
    for _ in 0..10 {
        world.notice(A);
        world.run();
    }
    assert_eq!(
        (world.handler_calls().as_str(), asked(&mut world, A)),
        ("", 1)
    );
}

/// Returns plugins that are not ready, each in another way.
fn not_ready() -> [Script; 4] {
    let get_info = Answer::Status(12, "unknown service");
    let unimplemented = Script {
        get_info,
        ..csi("a")
    };
    let types = ["Unknown", ""].map(|kind| Script::good(kind, "a"));
    let [unknown, empty] = types;
    [unimplemented, unknown, empty, csi("")]
}

#[test]
fn a_plugin_that_is_not_ready_when_it_is_first_asked_is_registered_soon_after_it_is() {
    for (ready_after, registered_after) in [(40, 500), (1_000, 1_500), (55_000, 63_500)] {
        for script in not_ready() {
            let mut world = World::new();
            world.appear(A, script);
            world.advance(Duration::from_millis(ready_after));
            let notified = world.plugin(A).notified.clone();
            world.listen(
                A,
                Script {
                    notified,
                    ..csi("a")
                },
            );
            world.advance(Duration::from_millis(registered_after - ready_after - 1));
            assert_eq!(world.handler_calls(), "");
            world.advance(Duration::from_millis(1));
            assert_eq!(world.handler_calls(), "validate a, register a");
            assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
        }
    }
}

#[test]
fn a_plugin_that_its_handler_refuses_at_first_is_asked_with_backoff_for_a_minute() {
    let mut world = World::new();
    let refusals = vec![HandlerAnswer::no("not yet"); 20];
    world.handler.will_answer(refusals);
    world.appear(A, csi("a"));
    let mut moments = Vec::new();
    let mut last = asked(&mut world, A);
    for tenth in 1..1900 {
        world.advance(Duration::from_millis(100));
        let now = asked(&mut world, A);
        if now > last {
            moments.push(tenth);
        }
        last = now;
    }
    assert_eq!(moments, [5, 15, 35, 75, 155, 315, 635, 1855]);
    assert_eq!(world.plugin(A).notified.len(), 1, "an unchanged refusal");
}

#[test]
fn a_plugin_that_is_refused_is_told_once_and_after_a_minute_asked_again_at_the_cap_only() {
    for script in [Script::good("Unknown", "a"), csi("")] {
        let mut world = World::new();
        world.appear(A, script);
        world.advance(minutes(2));
        assert_eq!(
            (asked(&mut world, A), world.plugin(A).notified.len()),
            (8, 1)
        );
        world.advance(10 * BACKOFF_CAP);
        assert_eq!(
            (asked(&mut world, A), world.plugin(A).notified.len()),
            (18, 1)
        );
    }
}

#[test]
fn a_plugin_is_told_again_when_its_answer_or_the_refusal_is_another_one() {
    let mut world = World::new();
    let reasons = ["old", "old", "new", "new", "new", "new"];
    world.handler.will_answer(reasons.map(HandlerAnswer::no));
    world.appear(A, csi("a"));
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
    assert_eq!(
        world.plugin(A).notified.len(),
        3,
        "the same answer as before"
    );
}

#[test]
fn a_service_that_is_no_registration_service_is_not_hammered() {
    let mut world = World::new();
    world.appear(
        A,
        Script {
            get_info: Answer::Status(12, "unknown service"),
            ..csi("a")
        },
    );
    world.advance(minutes(1));
    assert_eq!(asked(&mut world, A), 7);
    world.advance(10 * BACKOFF_CAP);
    assert_eq!(asked(&mut world, A), 17);
}

#[test]
fn what_a_handler_could_not_register_is_tried_again_with_backoff_as_kubelet_does() {
    let mut world = World::new();
    world.handler.will_answer([
        HandlerAnswer::YES,
        HandlerAnswer::no("not yet"),
        HandlerAnswer::YES,
        HandlerAnswer::no("not yet"),
    ]);
    world.appear(A, csi("a"));
    world.advance(Duration::from_millis(1500));
    assert_eq!(world.counts(), (1, 1));
    let notified = &world.plugin(A).notified;
    assert_eq!(
        notified
            .iter()
            .map(|it| it.plugin_registered)
            .collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[test]
fn what_was_refused_is_tried_at_once_when_it_changes_or_the_handlers_do() {
    let mut world = World::new();
    world.handler.will_answer([
        HandlerAnswer::no("bad version"),
        HandlerAnswer::no("bad version"),
    ]);
    world.appear(A, csi("a"));
    assert_eq!(world.handler_calls(), "validate a");
    world.manager.handle_input(Input::Reconsider, world.now);
    world.run();
    assert_eq!(world.handler_calls(), "validate a");
    world.appear(A, csi("a"));
    assert_eq!(world.handler_calls(), "validate a, register a");
}

#[test]
fn the_older_socket_s_removal_does_not_take_the_newer_one_s_registration() {
    let mut world = World::new();
    world.appear(A, with_endpoint("a", "/p/old.sock"));
    world.appear(B, with_endpoint("a", "/p/new.sock"));
    world.handler_calls();
    world.vanish(A);
    assert_eq!(world.handler_calls(), "deregister a@/p/old.sock");
    let current = world
        .manager
        .instances("CSIPlugin", "a")
        .last()
        .map(|it| it.endpoint.clone());
    assert_eq!(current.as_deref(), Some(Path::new("/p/new.sock")));
}

#[test]
fn the_fallback_is_promoted_when_the_newest_goes() {
    let mut world = World::new();
    world.appear(A, with_endpoint("a", "/p/1.sock"));
    world.appear(B, with_endpoint("a", "/p/2.sock"));
    world.appear(C, with_endpoint("a", "/p/3.sock"));
    world.handler_calls();
    world.vanish(B);
    assert_eq!(world.handler_calls(), "deregister a@/p/2.sock");
    world.vanish(C);
    assert_eq!(
        world.handler_calls(),
        "deregister a@/p/3.sock, promoted a@/p/1.sock"
    );
}

#[test]
fn a_killed_plugin_comes_back_with_its_endpoint_through_another_socket() {
    let mut world = World::new();
    world.appear(A, with_endpoint("a", "/p/a.sock"));
    world.kill(A);
    world.appear(B, with_endpoint("a", "/p/a.sock"));
    assert_eq!(world.plugin(B).last_notified(), Some((true, "")));
    world.handler_calls();
    world.vanish(A);
    assert_eq!(world.handler_calls(), "deregister a@/p/a.sock");
    let current = world.manager.instances("CSIPlugin", "a").last();
    assert_eq!(current.map(|it| &*it.socket), Some(Path::new(B)));
}

#[test]
fn a_plugin_whose_rival_goes_while_it_is_told_of_the_refusal_is_registered_at_once() {
    let mut world = World::new();
    world.appear(A, with_endpoint("a", "/p/a.sock"));
    world.is_slow = true;
    world.appear(B, with_endpoint("a", "/p/a.sock"));
    let b = Path::new(B);
    while world.manager.operation(b) != Some("Notifying") {
        let conn = world.busy_connections()[0];
        world.deliver(conn);
        world.run();
    }
    world.vanish(A);
    world.is_slow = false;
    world.run();
    assert_eq!(world.plugin(B).last_notified(), Some((true, "")));
}

#[test]
fn the_contract_is_kept_per_plugin_name_and_not_only_per_socket() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
    world.appear(A, with_endpoint("a", "/p/old.sock"));
    world.appear(B, with_endpoint("a", "/p/new.sock"));
    world.appear(C, csi("other"));
    assert_eq!(
        world.handler_calls(),
        "validate a@/p/old.sock, register a@/p/old.sock, validate other, register other"
    );
    let ticket = world.handler.open()[0];
    world.answer(ticket, Ok(()));
    assert_eq!(
        world.handler_calls(),
        "validate a@/p/new.sock, register a@/p/new.sock"
    );
}

#[test]
fn a_question_that_stays_open_holds_up_the_other_sockets_of_its_name_for_five_seconds() {
    let mut world = World::new();
    world.handler.will_answer([
        HandlerAnswer::YES,
        HandlerAnswer::Pending,
        HandlerAnswer::YES,
        HandlerAnswer::Pending,
    ]);
    for path in [A, B, C] {
        world.appear(path, with_endpoint("a", path.replace("/r", "/p").as_str()));
    }
    world.handler_calls();
    world.advance(STALLED_AFTER.saturating_sub(Duration::from_millis(1)));
    assert_eq!(world.handler_calls(), "");
    world.advance(Duration::from_millis(1));
    assert_eq!(
        world.handler_calls(),
        "validate a@/p/b-reg.sock, register a@/p/b-reg.sock"
    );
    world.advance(STALLED_AFTER);
    assert_eq!(
        world.handler_calls(),
        "validate a@/p/c-reg.sock, register a@/p/c-reg.sock"
    );
    assert_eq!(world.plugin(C).last_notified(), Some((true, "")));
    let [a, b] = world.handler.open()[..] else {
        panic!("two questions are open");
    };
    world.answer(b, Err(Reason::new("no")));
    world.answer(a, Ok(()));
    assert_eq!(
        world.plugin(A).last_notified(),
        Some((true, "")),
        "its question was not abandoned"
    );
    assert_eq!(world.handler_calls(), "");
}

#[test]
fn a_name_whose_question_is_answered_in_time_keeps_its_order() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::Pending, HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    world.appear(B, csi("a"));
    for wait in [3, 4] {
        world.advance(Duration::from_secs(wait));
        let ticket = world.handler.open()[0];
        world.answer(ticket, Ok(()));
    }
    assert_eq!(world.manager.operation(Path::new(B)), None);
    let a = "validate a, register a";
    assert_eq!(world.handler_calls(), format!("{a}, {a}"));
}

#[test]
fn a_plugin_is_told_by_a_second_connection_when_the_first_died_during_its_registration() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    for conn in world.open_connections() {
        world.break_connection(conn);
    }
    world.run();
    let ticket = world.handler.open()[0];
    world.answer(ticket, Ok(()));
    assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("validate a, register a", (1, 1))
    );
}

#[test]
fn a_handler_that_never_answers_costs_its_plugin_the_registration_and_nobody_else_anything() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    world.appear(B, csi("b"));
    assert_eq!(
        world.handler_calls(),
        "validate a, register a, validate b, register b"
    );
    world.advance(HANDLER_TIMEOUT);
    assert_eq!(world.handler_calls(), "abandon, deregister a");
    assert_eq!(
        world.plugin(A).last_notified(),
        Some((
            false,
            "RegisterPlugin error -- plugin registration failed with err: \
             no answer from the handler within 150 s"
        ))
    );
}

#[test]
fn a_manager_that_is_to_end_begins_nothing_and_gives_what_runs_two_seconds() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    world.manager.handle_input(Input::Stop, world.now);
    world.appear(B, csi("b"));
    world.advance(Duration::from_millis(1999));
    assert!(!world.manager.is_stopped());
    world.advance(Duration::from_millis(1));
    assert_eq!(world.handler_calls(), "validate a, register a");
    assert!(world.manager.is_stopped());
    assert!(world.open_connections().is_empty());
}

#[test]
fn a_manager_that_is_to_end_lets_what_runs_end_well_if_it_does_in_time() {
    let mut world = World::new();
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    world.manager.handle_input(Input::Stop, world.now);
    let ticket = world.handler.open()[0];
    world.answer(ticket, Ok(()));
    assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
    assert_eq!(world.handler_calls(), "validate a, register a");
    assert!(world.manager.is_stopped());
}

#[test]
fn a_failure_says_what_happened_and_never_that_sending_the_error_failed() {
    for notify in [Answer::Good, Answer::Status(13, "?"), Answer::Close] {
        let mut world = World::new();
        world
            .handler
            .will_answer([HandlerAnswer::no("bad version")]);
        world.appear(A, Script { notify, ..csi("a") });
        let socket = world
            .manager
            .socket(Path::new(A))
            .and_then(|it| it.desired());
        let failure = socket.and_then(|socket| socket.last_failure.clone());
        let words = failure.expect("the plugin was refused").to_string();
        assert_eq!(words, "plugin refused: validation failed: bad version");
    }
}

#[test]
fn an_answer_that_comes_too_late_meets_nobody() {
    let mut world = World::new();
    world.handler.will_answer([HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    let ticket = world.handler.open()[0];
    world.vanish(A);
    world.answer(ticket, Ok(()));
    world.answer(ticket, Err(Reason::new("twice")));
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("validate a, abandon", (0, 0))
    );
}

#[test]
fn the_second_for_get_info_starts_with_the_plugin_s_first_word() {
    let mut world = World::new();
    world.is_slow = true;
    world.appear(A, csi("a"));
    let conn = world.busy_connections()[0];
    world.deliver(conn);
    world.run();
    world.advance(Duration::from_secs(4));
    assert_eq!(world.manager.operation(Path::new(A)), Some("AskingInfo"));
    world.is_slow = false;
    world.run();
    assert_eq!(world.handler_calls(), "validate a, register a");
}

/// Returns a world whose plugin listens after that time, and which connects as soon as it dials;
/// what the plugin sends stays in flight.
fn connected_after(time: Duration) -> World {
    let mut world = World::new();
    world.appear(A, None);
    world.advance(time);
    world.listen(A, csi("a"));
    world.is_slow = true;
    while world.busy_connections().is_empty() {
        world.advance(Duration::from_millis(10));
    }
    world.deliver(world.busy_connections()[0]);
    world.run();
    assert_eq!(world.manager.operation(Path::new(A)), Some("AskingInfo"));
    world
}

/// Returns what is left of the dial budget.
fn left_to_dial(world: &World) -> Duration {
    (plugind::time::Time::ZERO + DIAL_TIMEOUT).saturating_since(world.now)
}

#[test]
fn a_plugin_whose_settings_come_within_the_dial_budget_is_registered() {
    for (connected, settings) in [(0, 8_000), (0, 9_900), (6, 2_900)] {
        let mut world = connected_after(Duration::from_secs(connected));
        world.advance(Duration::from_millis(settings));
        let operation = world.manager.operation(Path::new(A));
        assert_eq!(operation, Some("AskingInfo"), "{settings} ms");
        world.is_slow = false;
        world.run();
        assert_eq!(
            world.handler_calls(),
            "validate a, register a",
            "{settings} ms"
        );
    }
}

#[test]
fn a_plugin_that_never_sends_settings_fails_when_the_dial_budget_ends_which_began_with_the_first_dial()
 {
    for connected in [0, 6] {
        let mut world = connected_after(Duration::from_secs(connected));
        let left = left_to_dial(&world);
        assert!(left <= DIAL_TIMEOUT.saturating_sub(Duration::from_secs(connected)));
        world.advance(left.saturating_sub(Duration::from_millis(1)));
        assert_eq!(world.manager.operation(Path::new(A)), Some("AskingInfo"));
        world.advance(Duration::from_millis(1));
        assert_eq!(world.manager.operation(Path::new(A)), None);
        let socket = world
            .manager
            .socket(Path::new(A))
            .and_then(|it| it.desired());
        let failure = socket.and_then(|it| it.last_failure.as_ref());
        let reason = failure.expect("the attempt failed").to_string();
        let words = format!("no SETTINGS within {left:.1?} of connecting: the HTTP/2 handshake");
        assert!(reason.contains(&words), "{reason}");
        assert_eq!(world.handler_calls(), "");
    }
}

// --- A plugin that is killed leaves its socket behind --------------------------------------------

fn down_since(world: &World, path: &str) -> Option<plugind::time::Time> {
    let registered = world
        .manager
        .socket(Path::new(path))
        .and_then(|it| it.registered());
    registered.expect("it is registered").health.down_since()
}

#[test]
fn a_plugin_whose_process_dies_is_down_at_once_and_stays_registered() {
    for source in [LivenessSource::Process, LivenessSource::Connection] {
        let mut world = World::new();
        world.liveness_source = source;
        world.appear(A, csi("a"));
        world.advance(minutes(10));
        world.kill(A);
        assert_eq!(down_since(&world, A), Some(world.now), "{source:?}");
        assert_eq!(world.handler_calls(), "validate a, register a");
    }
}

#[test]
fn a_plugin_that_answers_again_is_up_without_an_event_of_its_socket() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    world.kill(A);
    world.advance(minutes(1));
    assert!(down_since(&world, A).is_some());
    world.listen(A, csi("a"));
    world.advance(BACKOFF_CAP);
    assert_eq!(down_since(&world, A), None);
    assert_eq!(world.handler_calls(), "validate a, register a");
    world.kill(A);
    assert!(down_since(&world, A).is_some(), "it is watched again");
}

#[test]
fn a_plugin_that_is_down_for_longer_than_the_grace_period_is_deregistered_if_so_wanted() {
    let mut world = World::new();
    world
        .manager
        .set_on_down(OnDown::Deregister(Duration::from_secs(30)));
    world.appear(A, csi("a"));
    world.kill(A);
    world.advance(Duration::from_secs(29));
    assert_eq!(world.handler_calls(), "validate a, register a");
    world.advance(Duration::from_secs(1));
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("deregister a", (1, 0))
    );
    world.listen(A, csi("a"));
    world.advance(BACKOFF_CAP);
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("validate a, register a", (1, 1))
    );
}

#[test]
fn a_plugin_whose_liveness_source_is_lost_but_that_answers_is_up_all_the_time() {
    let mut world = World::new();
    world.liveness_source = LivenessSource::Connection;
    world.appear(A, csi("a"));
    world.advance(minutes(10));
    for conn in world.open_connections() {
        world.break_connection(conn);
    }
    world.run();
    assert_eq!(down_since(&world, A), None);
    assert_eq!(asked(&mut world, A), 2);
}

/// Closes all connections each time that `idle` has passed, for as long as `lasting`, as the plugin
/// at `A` would do with idle connections.
fn close_idle_connections(world: &mut World, idle: Duration, lasting: Duration) {
    let end = world.now + lasting;
    while world.now < end {
        world.advance(idle);
        for conn in world.open_connections() {
            world.break_connection(conn);
        }
        world.run();
    }
}

/// Returns a world in which the connection of the plugin at `A` is watched.
fn watched_by_connection() -> World {
    let mut world = World::new();
    world.liveness_source = LivenessSource::Connection;
    world.appear(A, csi("a"));
    world
}

#[test]
fn a_plugin_that_closes_idle_connections_is_asked_every_thirty_seconds_after_the_second_time() {
    let seconds = Duration::from_secs;
    for idle in [seconds(2), Duration::from_millis(100)] {
        let mut world = watched_by_connection();
        close_idle_connections(&mut world, idle, seconds(30));
        assert_eq!(asked(&mut world, A), 3, "closed after {idle:?}");
        close_idle_connections(&mut world, idle, seconds(8));
        assert_eq!(asked(&mut world, A), 4, "closed after {idle:?}");
        close_idle_connections(&mut world, idle, minutes(10));
        assert_eq!(asked(&mut world, A), 24, "closed after {idle:?}");
        assert_eq!(down_since(&world, A), None);
        assert_eq!(world.handler_calls(), "validate a, register a");
    }
}

#[test]
fn a_plugin_that_closes_idle_connections_and_dies_is_down_within_thirty_seconds() {
    let mut world = watched_by_connection();
    close_idle_connections(&mut world, Duration::from_secs(2), minutes(1));
    world.kill(A);
    assert_eq!(down_since(&world, A), None);
    world.advance(Duration::from_secs(30));
    let since = down_since(&world, A).expect("it is down");
    world.listen(A, csi("a"));
    world.advance(world.now.saturating_since(since) + Duration::from_secs(1));
    assert_eq!(down_since(&world, A), None, "asked again with backoff");
    world.advance(minutes(1));
    world.kill(A);
    assert_eq!(down_since(&world, A), Some(world.now), "watched as before");
}

#[test]
fn another_plugin_behind_the_same_socket_is_registered_in_the_place_of_the_first() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    world.handler_calls();
    world.kill(A);
    world.listen(A, csi("b"));
    world.advance(BACKOFF_CAP);
    assert_eq!(
        world.handler_calls(),
        "deregister a, validate b, register b"
    );
}

#[test]
fn a_deregistered_plugin_is_not_watched_over_any_more() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    assert_eq!(world.watched_processes(), 1);
    world.vanish(A);
    world.advance(OUTLIVED_GRACE);
    assert_eq!(world.watched_processes(), 0);
    world.kill(A);
    world.advance(minutes(60));
    assert_eq!(world.manager.poll_timeout(), None);
}

#[test]
fn a_process_is_watched_for_five_seconds_after_its_socket_was_removed_unless_it_ends() {
    let mut world = World::new();
    for socket in [A, B] {
        world.appear(socket, csi(socket));
    }
    world.kill_and_remove(A);
    world.notice(A);
    world.run();
    assert_eq!(world.watched_processes(), 1, "its process has ended");
    world.vanish(B);
    assert_eq!(world.watched_processes(), 1);
    world.advance(OUTLIVED_GRACE / 2);
    assert_eq!(world.watched_processes(), 1);
    world.advance(OUTLIVED_GRACE / 2);
    assert_eq!(world.watched_processes(), 0);
}

#[test]
fn a_process_whose_socket_is_there_again_is_not_watched_for_the_one_that_was_removed() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    world.vanish(A);
    assert_eq!(world.watched_processes(), 1);
    world.appear(A, csi("a"));
    assert_eq!(world.watched_processes(), 1, "only the new registration's");
}

#[test]
fn only_so_many_processes_are_watched_after_their_sockets_were_removed() {
    let mut world = World::new();
    let sockets: Vec<String> = (0..2 * MAX_OUTLIVED).map(|n| format!("/r/{n}")).collect();
    for socket in &sockets {
        world.appear(socket, csi(socket));
    }
    for socket in &sockets {
        world.vanish(socket);
    }
    assert_eq!(world.watched_processes(), MAX_OUTLIVED);
    world.advance(OUTLIVED_GRACE);
    assert_eq!(world.watched_processes(), 0);
}

// --- What disappeared while the daemon was down --------------------------------------------------

/// Returns a world without sockets, whose manager is restored from the snapshot of `before`.
/// Sockets that are created in the same order have the same identities as there.
fn restarted(before: &World) -> World {
    let saved = before.manager.snapshot("boot").encode();
    let mut world = World::new();
    world
        .manager
        .restore(SavedState::decode(&saved, "boot").expect("it was just written"));
    world
}

/// Reports that an expected socket was not found in its directory, as the watch does.
fn lose(world: &mut World, path: &str) {
    let path = Path::new(path).into();
    world.manager.handle_input(Input::Lost { path }, world.now);
}

#[test]
fn a_plugin_that_went_while_the_daemon_was_down_is_deregistered_at_its_next_start() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let mut world = restarted(&before);
    world.advance(minutes(60));
    assert_eq!(
        world.handler_calls(),
        "",
        "not before its directory has been listed"
    );
    let [path] = &world.manager.restored()[..] else {
        panic!("{:?}", world.manager.restored());
    };
    let lost = Input::Lost { path: path.clone() };
    world.manager.handle_input(lost, world.now);
    assert!(world.manager.restored().is_empty());
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("deregister a", (0, 0))
    );
}

#[test]
fn a_plugin_that_is_still_there_after_a_restart_is_registered_as_every_plugin_is() {
    let mut before = World::new();
    let identity = before.appear(A, csi("a"));
    let mut world = restarted(&before);
    assert_eq!(world.appear(A, csi("a")), identity);
    assert!(world.manager.restored().is_empty());
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("validate a, register a", (1, 1))
    );
}

#[test]
fn a_state_file_of_the_first_format_is_compared_by_device_and_inode_only() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let saved = before.manager.snapshot("boot").encode();
    let saved = String::from_utf8(saved).expect("it is JSON");
    // The static binary wrote the modification time in place of the birth time.
    let times = saved.replace("[0,0]", "[17,4]");
    assert_ne!(times, saved);
    let notification_of = |format: &str| {
        let file = times.replace("registered plugins 2", format);
        let mut world = World::new();
        let state = SavedState::decode(file.as_bytes(), "boot").expect("the format is known");
        world.manager.restore(state);
        world.appear(A, csi("a"));
        world.handler_calls()
    };
    assert_eq!(
        notification_of("registered plugins 1"),
        "validate a, register a"
    );
    assert_eq!(
        notification_of("registered plugins 2"),
        "deregister a, validate a, register a"
    );
}

#[test]
fn a_restored_plugin_that_is_found_but_does_not_answer_is_deregistered_when_its_socket_goes() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let mut world = restarted(&before);
    world.appear(A, None);
    assert_eq!(world.handler_calls(), "");
    let mut again = restarted(&world);
    again.appear(A, None);
    again.vanish(A);
    assert_eq!(
        again.handler_calls(),
        "deregister a",
        "two restarts forget nothing"
    );

    world.create(A, csi("b"));
    world.notice(A);
    world.run();
    assert_eq!(
        world.handler_calls(),
        "deregister a, validate b, register b"
    );
}

#[test]
fn a_restored_plugin_is_deregistered_although_its_name_would_be_refused_now() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let saved = before.manager.snapshot("boot").encode();
    let saved = String::from_utf8(saved).expect("it is JSON");
    let renamed = saved.replace("\"name\":\"a\"", "\"name\":\"a\\u0001\"");
    assert_ne!(renamed, saved);
    let mut world = World::new();
    let state = SavedState::decode(renamed.as_bytes(), "boot").expect("the format is known");
    world.manager.restore(state);
    lose(&mut world, A);
    world.run();
    assert_eq!(world.handler_calls(), "deregister a\u{1}");
}

#[test]
fn what_was_restored_by_inode_only_is_saved_as_such() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let saved = before.manager.snapshot("boot").encode();
    let saved = String::from_utf8(saved).expect("it is JSON");
    let first = saved
        .replace("[0,0]", "[17,4]")
        .replace("registered plugins 2", "registered plugins 1");
    let mut world = World::new();
    let state = SavedState::decode(first.as_bytes(), "boot").expect("the format is known");
    world.manager.restore(state);
    let mut again = restarted(&world);
    again.appear(A, csi("a"));
    assert_eq!(again.handler_calls(), "validate a, register a");
}

#[test]
fn a_plugin_in_the_place_of_a_remembered_one_is_registered_after_that_is_deregistered() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let mut world = restarted(&before);
    world.create(A, csi("never seen"));
    world.appear(A, csi("b"));
    assert_eq!(
        world.handler_calls(),
        "deregister a, validate b, register b"
    );
}

#[test]
fn a_restored_plugin_is_deregistered_before_another_one_is_registered_through_the_same_socket() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    for plugin in [csi("b"), with_endpoint("a", "/p/a.sock")] {
        let mut world = restarted(&before);
        world.appear(A, plugin);
        let notified = world.handler_calls();
        let (first, rest) = notified.split_once(", ").expect("several questions");
        assert_eq!(first, "deregister a");
        assert!(rest.contains(", register "), "{rest}");
        assert_eq!(world.plugin(A).last_notified(), Some((true, "")));
        assert_eq!(world.counts(), (1, 1));
    }
}

#[test]
fn a_restored_plugin_that_is_deregistered_after_its_handler_did_not_answer_is_so_only_once() {
    let mut before = World::new();
    before.appear(A, csi("a"));
    let mut world = restarted(&before);
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::Pending]);
    world.appear(A, csi("a"));
    world.advance(HANDLER_TIMEOUT);
    let notified = "validate a, register a, abandon, deregister a";
    assert_eq!(world.handler_calls(), notified);
    world.vanish(A);
    assert_eq!(
        (world.handler_calls().as_str(), world.counts()),
        ("", (0, 0))
    );
}

#[test]
fn a_restored_plugin_is_deregistered_if_only_a_refused_one_has_its_name_and_endpoint() {
    let mut before = World::new();
    before.appear(A, with_endpoint("a", "/p/a.sock"));
    let mut world = restarted(&before);
    world
        .handler
        .will_answer([HandlerAnswer::YES, HandlerAnswer::no("not now")]);
    world.appear(B, with_endpoint("a", "/p/a.sock"));
    lose(&mut world, A);
    world.run();
    assert_eq!(
        world.handler_calls(),
        "validate a@/p/a.sock, register a@/p/a.sock, deregister a@/p/a.sock"
    );
}

#[test]
fn a_plugin_that_waits_to_be_deregistered_when_the_daemon_ends_is_so_after_the_restart() {
    for is_stopped in [false, true] {
        let mut before = World::new();
        before.appear(A, csi("a"));
        before.handler.will_answer([HandlerAnswer::Pending]);
        before.appear(B, csi("a"));
        before.vanish(A);
        assert_eq!(before.handler_calls(), "validate a, register a, validate a");
        if is_stopped {
            before.manager.handle_input(Input::Stop, before.now);
            before.advance(STOP_GRACE);
            assert!(before.manager.is_stopped());
        }
        let mut world = restarted(&before);
        lose(&mut world, A);
        world.run();
        assert_eq!(
            world.handler_calls(),
            "deregister a",
            "stopped: {is_stopped}"
        );
    }
}

#[test]
fn a_plugin_that_moved_to_another_socket_meanwhile_is_deregistered_before_it_is_registered() {
    let mut before = World::new();
    before.appear(A, with_endpoint("a", "/p/a.sock"));
    let mut world = restarted(&before);
    world.create(B, with_endpoint("a", "/p/a.sock"));
    world.notice(B);
    lose(&mut world, A);
    world.run();
    assert_eq!(
        world.handler_calls(),
        "deregister a@/p/a.sock, validate a@/p/a.sock, register a@/p/a.sock"
    );
    assert_eq!(world.counts(), (1, 1));
}

#[test]
fn a_plugin_that_is_registered_before_all_has_been_looked_at_is_not_deregistered_by_its_old_socket()
{
    let mut before = World::new();
    before.appear(A, with_endpoint("a", "/p/a.sock"));
    let mut world = restarted(&before);
    world.appear(B, with_endpoint("a", "/p/a.sock"));
    lose(&mut world, A);
    world.run();
    assert_eq!(
        world.handler_calls(),
        "validate a@/p/a.sock, register a@/p/a.sock"
    );
    assert_eq!(world.plugin(B).last_notified(), Some((true, "")));
    assert_eq!(world.counts(), (1, 1));
}

#[test]
fn a_plugin_that_stops_is_not_reported_as_down_before_the_watch_has_seen_that_its_socket_went() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    world.kill_and_remove(A);
    assert_eq!(down_since(&world, A), None);
    world.vanish(A);
    assert_eq!(
        world.handler_calls(),
        "validate a, register a, deregister a"
    );
}

#[test]
fn the_late_end_of_a_connection_that_was_hung_up_is_not_taken_for_the_end_of_its_process() {
    let mut world = World::new();
    world.appear(A, csi("a"));
    assert_eq!(world.watched_processes(), 1);
    for conn in world.hung_up() {
        world
            .manager
            .handle_input(Input::Closed { conn }, world.now);
        world.run();
    }
    assert_eq!((asked(&mut world, A), world.watched_processes()), (1, 1));
}

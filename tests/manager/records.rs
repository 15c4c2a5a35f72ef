//! The records that operators see, and their requests, in virtual time.

use std::path::Path;
use std::time::Duration;

use plugind::config::{BACKOFF, DIAL_TIMEOUT, REMOVED_RECORDS};
use plugind::manager::{Change, ChangeCursor, Expired, Record, State};

use crate::script::{Answer, Script};
use crate::world::{WAIT, World};

const A: &str = "/r/a.sock";
const B: &str = "/r/b.sock";

fn not_ready(name: &str) -> Script {
    Script::csi(name).with_get_info(Answer::Status(14, "not yet"))
}

#[track_caller]
fn record<'a>(world: &'a World, path: &str) -> Record<'a> {
    let record = world.manager.records().get(Path::new(path));
    record.expect("there is a record")
}

/// Tries every plugin again.
fn retry(world: &mut World, is_selected: &dyn Fn(&Record<'_>) -> bool) -> Option<usize> {
    let count = world.manager.retry(is_selected, world.now);
    world.run();
    count
}

#[test]
fn a_socket_that_refuses_is_retried_before_all_others() {
    let mut world = World::new();
    for n in 0..300 {
        world.appear(&format!("/r/dead-{n}.sock"), None);
    }
    world.appear(A, None);
    world.advance(2 * DIAL_TIMEOUT);
    world.listen(A, Script::csi("a"));
    assert_eq!(world.state(A), Some(State::Backoff));
    let retried = retry(&mut world, &|it| **it.socket == *Path::new(A));
    assert_eq!(retried, Some(1));
    assert_eq!(world.state(A), Some(State::Registered));
}

#[test]
fn each_state_of_a_plugin_is_shown() {
    let mut world = World::new();
    world.is_slow = true;
    world.appear(A, Script::csi("a"));
    assert_eq!(world.state(A), Some(State::Connecting));
    assert!(record(&world, A).plugin.is_none());
    world.handler.will_answer([WAIT]);
    world.is_slow = false;
    for conn in world.open_connections() {
        world.deliver(conn);
    }
    world.run();
    assert_eq!(world.state(A), Some(State::Registering));
    assert_eq!(record(&world, A).plugin.map(|it| &*it.name), Some("a"));
    world.answer_open(Ok(()));
    let registered = record(&world, A);
    assert_eq!(registered.state, State::Registered);
    assert_eq!(registered.attempts, 1);
    assert!(registered.next_retry.is_none() && registered.last_error.is_none());
    assert!(registered.process.is_some_and(|it| it.uid == 0));
    world.appear(B, Script::csi("a"));
    let states = [A, B].map(|path| world.state(path));
    assert_eq!(states, [State::Standby, State::Registered].map(Some));
    world.vanish(B);
    assert_eq!(world.state(A), Some(State::Registered));
    world.kill(A);
    world.advance(Duration::from_secs(5));
    let down = record(&world, A);
    assert_eq!(down.state, State::Down);
    assert!(down.next_retry.is_some_and(|at| at > world.now));
    world.handler.will_answer([WAIT]);
    world.vanish(A);
    assert_eq!(world.state(A), Some(State::Deregistering));
    world.answer_open(Ok(()));
    assert!(world.manager.records().get(Path::new(A)).is_none());
}

#[test]
fn a_plugin_that_is_down_stays_so_since_its_process_has_ended() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    world.kill(A);
    world.advance(Duration::from_secs(5));
    let down = record(&world, A);
    assert_eq!(down.state, State::Down);
    let since = down.since;
    world.appear(B, Script::csi("a"));
    assert_eq!(world.state(B), Some(State::Registered));
    world.advance(Duration::from_secs(1));
    world.vanish(B);
    let down = record(&world, A);
    assert_eq!((down.state, down.since), (State::Down, since));
}

#[test]
fn a_plugin_that_fails_is_shown_with_its_error() {
    let mut world = World::new();
    let found = world.now;
    world.appear(A, not_ready("a"));
    let failed = record(&world, A);
    assert_eq!((failed.state, failed.since), (State::Backoff, found));
    assert_eq!(failed.next_retry, Some(found + BACKOFF.first));
    let error = failed.last_error.map(|it| it.to_string());
    let expected = "GetInfo failed: the peer returned UNAVAILABLE: not yet";
    assert_eq!(error.as_deref(), Some(expected));
    world.appear(B, Script::good("Toaster", "b"));
    let refused = record(&world, B);
    assert_eq!(refused.state, State::Rejected);
    assert_eq!(refused.plugin.map(|it| &*it.kind), Some("Toaster"));
    assert!(refused.next_retry.is_some());
}

#[test]
fn what_waits_for_its_backoff_is_tried_at_once_on_request() {
    let mut world = World::new();
    world.appear(A, not_ready("a"));
    world.appear(B, not_ready("b"));
    world.advance(BACKOFF.cap);
    for path in [A, B] {
        world.plugin(path).get_info = Answer::Good;
    }
    let is_a = |record: &Record<'_>| &**record.socket == Path::new(A);
    assert_eq!(retry(&mut world, &is_a), Some(1));
    assert_eq!(world.state(A), Some(State::Registered));
    assert_eq!(world.state(B), Some(State::Backoff));
    assert_eq!(retry(&mut world, &is_a), Some(0), "it is registered");
    assert_eq!(retry(&mut world, &|_| false), None);
    assert_eq!(retry(&mut world, &|_| true), Some(1));
    assert_eq!(world.state(B), Some(State::Registered));
}

#[test]
fn a_reader_that_has_missed_too_many_removals_starts_again() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    let beginning = world.manager.generation();
    let count = |world: &World, after| {
        let mut cursor = ChangeCursor::after(after);
        let mut removed = 0;
        while let Some(change) = world.manager.records().next_change(&mut cursor)? {
            removed += usize::from(matches!(change, Change::Removed { .. }));
        }
        Ok::<_, Expired>(removed)
    };
    for _ in 0..REMOVED_RECORDS.count {
        world.appear(B, not_ready("b"));
        world.vanish(B);
    }
    assert_eq!(count(&world, beginning), Ok(REMOVED_RECORDS.count));
    world.appear(B, not_ready("b"));
    world.vanish(B);
    assert_eq!(count(&world, beginning), Err(Expired));
    let end = world.manager.generation();
    assert_eq!(count(&world, end), Ok(0));
    assert_eq!(count(&world, end + 1), Err(Expired), "of another start");
}

#[test]
fn a_restored_plugin_that_was_not_found_is_not_on_standby() {
    let mut world = World::new();
    world.appear(A, Script::csi("a"));
    let mut manager = World::new().manager;
    manager.restore(world.saved());
    world.restart(manager);
    let shown = |world: &World| {
        let record = record(world, A);
        (record.state, record.generation)
    };
    let restored = shown(&world);
    world.appear(B, Script::csi("a"));
    assert_eq!(world.state(B), Some(State::Registered));
    assert_eq!(shown(&world), restored, "a change has a generation");
    world.notice(A);
    world.run();
    let states = [A, B].map(|path| world.state(path));
    assert_eq!(states, [State::Registered, State::Standby].map(Some));
}

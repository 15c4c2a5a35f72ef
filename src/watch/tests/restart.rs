//! Sockets that are expected from before a restart, and paths that are in doubt.

use super::*;
use crate::watch::Cause;

/// Creates a watch on `/p` whose first request is still pending, and which expects these sockets.
fn timeline_expecting(sockets: &[&str]) -> Timeline {
    let mut timeline = Timeline::new();
    let sockets = sockets.iter().map(|path| Path::new(path).into());
    timeline.watch.expect(sockets.collect());
    timeline.expect(&["create and scan /p"]);
    timeline
}

/// Returns the problem of a directory that may not be read.
fn denied() -> Problem {
    Problem::NotRead(Cause::Denied)
}

#[test]
fn an_expected_socket_is_lost_if_a_complete_listing_lacks_it() {
    let mut timeline = timeline_expecting(&["/p/gone", "/p/here", "/p/sub/gone", "/p/no/dir"]);
    timeline.answer_scan_ok(
        "/p",
        1,
        &[("here", socket(1)), ("sub", EntryKind::Directory)],
    );
    timeline.expect(&[
        "found /p/here #1",
        "scan /p/sub",
        "examine /p/gone",
        "examine /p/no",
    ]);
    timeline.answer_examination_gone("/p/gone");
    timeline.answer_examination_gone("/p/no");
    timeline.expect(&["lost /p/gone", "lost /p/no/dir"]);
    timeline.answer_scan_ok("/p/sub", 2, &[]);
    timeline.answer_examination_gone("/p/sub/gone");
    timeline.expect(&["examine /p/sub/gone", "lost /p/sub/gone"]);
}

#[test]
fn an_expected_socket_is_lost_if_a_directory_is_in_its_place() {
    let mut timeline = timeline_expecting(&["/p/was"]);
    timeline.answer_scan_ok("/p", 1, &[("was", EntryKind::Directory)]);
    timeline.expect(&["scan /p/was"]);
    timeline.answer_scan_ok("/p/was", 2, &[]);
    timeline.expect(&["lost /p/was"]);
}

#[test]
fn expected_sockets_are_lost_if_their_directory_is_replaced() {
    let mut timeline = timeline_expecting(&["/p/sub/a", "/p/sub/deep/b"]);
    timeline.answer_scan_ok("/p", 1, &[("sub", socket(1))]);
    timeline.expect(&["lost /p/sub/a", "lost /p/sub/deep/b", "found /p/sub #1"]);
}

#[test]
fn an_expected_socket_in_a_directory_without_a_watch_is_lost() {
    let mut timeline = timeline_expecting(&["/p/gone"]);
    let unwatched = Problem::NotWatched(Cause::InstancesUsedUp);
    timeline.answer_scan("/p", Err(unwatched.clone()), Ok(listing(&[])));
    let report = format!("/p: {unwatched}");
    timeline.expect(&["examine /p/gone", &report]);
    timeline.answer_examination_gone("/p/gone");
    timeline.expect(&["lost /p/gone"]);
}

#[test]
fn an_expected_socket_in_an_unreadable_directory_stays() {
    let mut timeline = timeline_expecting(&["/p/gone", "/p/sub/one", "/p/sub/two"]);
    timeline.answer_scan_ok("/p", 1, &[("sub", EntryKind::Directory)]);
    timeline.answer_examination_gone("/p/gone");
    timeline.expect(&["scan /p/sub", "examine /p/gone", "lost /p/gone"]);
    let trouble = format!("/p/sub: {}", denied());
    timeline.answer_scan("/p/sub", Ok(WatchId(2)), Err(denied()));
    timeline.expect(&[&trouble]);
    timeline.tick();
    timeline.expect(&["scan /p/sub"]);
    timeline.answer_scan("/p/sub", Ok(WatchId(2)), Err(denied()));
    timeline.expect_silence();
    timeline.tick();
    timeline.expect(&["scan /p/sub"]);
    timeline.answer_scan_ok("/p/sub", 2, &[("two", socket(2))]);
    timeline.expect(&[
        "found /p/sub/two #2",
        "examine /p/sub/one",
        "/p/sub: recovered",
    ]);
    timeline.answer_examination_gone("/p/sub/one");
    timeline.expect(&["lost /p/sub/one"]);
}

#[test]
fn an_expected_socket_is_not_lost_by_a_listing_that_a_limit_cut() {
    let mut timeline = timeline_expecting(&["/p/perhaps"]);
    let cut = Listing {
        is_cut: true,
        ..listing(&[])
    };
    timeline.answer_scan("/p", Ok(WatchId(1)), Ok(cut));
    let trouble = format!("/p: {}", Problem::TooManyNames);
    timeline.expect(&[&trouble]);
}

#[test]
fn an_expected_socket_that_cannot_be_examined_stays_expected() {
    let mut timeline = timeline_expecting(&["/p/a", "/p/gone"]);
    timeline.answer_scan_ok("/p", 1, &[("a", EntryKind::Unknown)]);
    let trouble = format!("/p: {}", Problem::NotExamined);
    timeline.answer_examination_gone("/p/gone");
    timeline.expect(&["examine /p/gone", &trouble, "lost /p/gone"]);
    timeline.tick();
    timeline.expect(&["create and scan /p"]);
    timeline.answer_scan_ok("/p", 1, &[("a", socket(1))]);
    timeline.expect(&["found /p/a #1", "/p: recovered"]);
}

#[test]
fn an_expected_socket_is_lost_if_its_directory_does_not_exist() {
    let mut timeline = Timeline::new();
    let sockets = ["/q/a", "/p/sub/a"].map(|path| Path::new(path).into());
    timeline.watch.expect(sockets.to_vec());
    timeline.expect(&["create and scan /p", "lost /q/a"]);
    timeline.answer_scan_ok("/p", 1, &[("sub", EntryKind::Directory)]);
    timeline.expect(&["scan /p/sub"]);
    timeline.answer_scan_missing("/p/sub");
    timeline.expect(&["lost /p/sub/a"]);
}

#[test]
fn a_known_socket_that_cannot_be_examined_any_more_stays_known() {
    let mut timeline = Timeline::scanned(&[("a", socket(1))]);
    timeline.expect(&["found /p/a #1"]);
    timeline.report_vanished(1, "a");
    timeline.answer_examination("/p/a", EntryKind::Unknown);
    timeline.expect(&["examine /p/a", "scan root /p"]);
    timeline.answer_scan_ok("/p", 1, &[("a", EntryKind::Unknown)]);
    let trouble = format!("/p: {}", Problem::NotExamined);
    timeline.expect(&[&trouble]);
}

#[test]
fn a_path_in_doubt_is_examined_at_once() {
    let mut timeline = Timeline::scanned(&[("a", socket(1))]);
    timeline.expect(&["found /p/a #1"]);
    let doubted = || Input::Doubted {
        path: Path::new("/p/a").into(),
    };
    timeline.handle_input(doubted());
    timeline.expect(&["examine /p/a"]);
    timeline.answer_examination("/p/a", socket(2));
    timeline.expect(&["found /p/a #2"]);
    timeline.handle_input(doubted());
    timeline.expect_silence();
    timeline.tick();
    assert_eq!(timeline.now, Time::ZERO + config::EXAMINE_PAUSES.first);
    timeline.expect(&["examine /p/a"]);
    timeline.answer_examination("/p/a", socket(2));
    timeline.expect_idle();
}

#[test]
fn a_name_that_cannot_be_examined_is_found_on_the_tick() {
    let mut timeline = Timeline::scanned(&[]);
    timeline.report_appeared(1, "a");
    timeline.answer_examination("/p/a", EntryKind::Unknown);
    timeline.expect(&["examine /p/a", "scan root /p"]);
    timeline.answer_scan_ok("/p", 1, &[("a", EntryKind::Unknown)]);
    let trouble = format!("/p: {}", Problem::NotExamined);
    timeline.expect(&[&trouble]);
    timeline.tick();
    timeline.expect(&["create and scan /p"]);
    timeline.answer_scan_ok("/p", 1, &[("a", socket(1))]);
    timeline.expect(&["found /p/a #1", "/p: recovered"]);
}

#[test]
fn an_expected_socket_whose_directory_vanishes_is_lost() {
    let mut timeline = timeline_expecting(&["/p/sub/a"]);
    timeline.answer_scan_ok("/p", 1, &[("sub", EntryKind::Directory)]);
    timeline.report_vanished(1, "sub");
    timeline.answer_examination_gone("/p/sub");
    timeline.expect(&["examine /p/sub", "lost /p/sub/a"]);
}

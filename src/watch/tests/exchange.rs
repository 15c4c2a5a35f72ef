//! Names that are exchanged by `renameat2(RENAME_EXCHANGE)` or by several renames.

use super::*;

/// Creates a watch on `/p` with two directories of one socket each: `a` (watch 2) holds `x`, `b`
/// (watch 3) holds `y`.
fn two_directories() -> Timeline {
    let mut timeline =
        Timeline::scanned(&[("a", EntryKind::Directory), ("b", EntryKind::Directory)]);
    timeline.answer_scan_ok("/p/a", 2, &[("x", socket(1))]);
    timeline.answer_scan_ok("/p/b", 3, &[("y", socket(2))]);
    timeline.expect(&[
        "scan /p/a",
        "scan /p/b",
        "found /p/a/x #1",
        "found /p/b/y #2",
    ]);
    timeline.skip_scan_pause();
    timeline
}

/// Reports the kernel's events for an exchange of the directories `a` and `b` in `/p`, whose
/// watches are given.
fn exchange_directories(timeline: &mut Timeline, a: i32, b: i32) {
    timeline.report_vanished(1, "a");
    timeline.report_dir_appeared(1, "b");
    timeline.handle_event(Event::Moved { watch: WatchId(a) });
    timeline.report_vanished(1, "b");
    timeline.report_dir_appeared(1, "a");
    timeline.handle_event(Event::Moved { watch: WatchId(b) });
}

impl Timeline {
    /// Returns all pending outputs of the watch, in order.
    fn take_outputs(&mut self) -> Vec<String> {
        let outputs = std::iter::from_fn(|| self.watch.poll_output());
        outputs.map(|output| describe(&output)).collect()
    }
}

#[test]
fn a_name_that_reappears_at_once_loses_nothing() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("sub", EntryKind::Directory)]);
    t.answer_scan_ok("/p/sub", 2, &[("b", socket(2))]);
    t.expect(&["found /p/a #1", "scan /p/sub", "found /p/sub/b #2"]);
    t.skip_scan_pause();
    t.report_vanished(1, "a");
    t.report_vanished(1, "sub");
    t.expect(&["examine /p/a", "examine /p/sub"]);
    t.answer_examination("/p/a", socket(1));
    t.answer_examination("/p/sub", EntryKind::Directory);
    t.expect(&["scan /p/sub"]);
    t.answer_scan_ok("/p/sub", 2, &[("b", socket(2))]);
    t.expect_silence();
}

#[test]
fn a_name_that_vanished_and_was_never_known_is_not_examined() {
    let mut t = Timeline::scanned(&[]);
    t.report_vanished(1, "note.txt");
    t.report_vanished(9, "a");
    t.expect_silence();
}

#[test]
fn many_events_of_one_name_cause_one_examination() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", socket(2))]);
    t.expect(&["found /p/a #1", "found /p/b #2"]);
    for _ in 0..100 {
        t.report_vanished(1, "a");
        t.report_appeared(1, "b");
        t.report_appeared(1, "a");
        t.report_vanished(1, "b");
    }
    t.expect(&["examine /p/a", "examine /p/b"]);
}

#[test]
fn a_known_name_that_changes_continually_is_examined_less_often() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    let mut examinations = Vec::new();
    for ms in 0..3000 {
        t.now = Time::from_millis(ms);
        t.watch.handle_timeout(t.now);
        t.report_vanished(1, "a");
        t.report_appeared(1, "a");
        while t.watch.poll_output().is_some() {
            examinations.push(ms);
            t.answer_examination("/p/a", socket(1));
        }
    }
    assert_eq!(
        examinations,
        [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2023]
    );
    t.tick();
    t.expect(&["examine /p/a"]);
    t.expect_idle();
}

#[test]
fn two_sockets_that_are_exchanged_are_found_again() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", socket(2))]);
    t.expect(&["found /p/a #1", "found /p/b #2"]);
    t.report_vanished(1, "a");
    t.report_appeared(1, "b");
    t.report_vanished(1, "b");
    t.report_appeared(1, "a");
    t.expect(&["examine /p/a", "examine /p/b"]);
    t.answer_examination("/p/a", socket(2));
    t.answer_examination("/p/b", socket(1));
    t.expect(&["lost /p/a", "scan root /p", "found /p/b #1"]);
    t.answer_scan_ok("/p", 1, &[("a", socket(2)), ("b", socket(1))]);
    t.expect(&["found /p/a #2"]);
}

#[test]
fn a_socket_that_is_replaced_back_and_forth_is_found_each_time() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    for inode in [2, 1, 2] {
        t.skip_scan_pause();
        t.report_appeared(1, "a");
        t.expect(&["examine /p/a"]);
        t.answer_examination("/p/a", socket(inode));
        t.expect(&[&format!("found /p/a #{inode}")]);
        t.skip_scan_pause();
        t.report_appeared(1, "a");
        t.answer_examination("/p/a", socket(inode));
        t.expect(&["examine /p/a"]);
    }
}

#[test]
fn two_directories_that_are_exchanged_do_not_share_a_watch() {
    let mut t = two_directories();
    exchange_directories(&mut t, 2, 3);
    t.take_outputs();
    t.answer_examination("/p/a", EntryKind::Directory);
    t.answer_scan_ok("/p/a", 3, &[("y", socket(2))]);
    t.expect(&["unwatch 2", "/p/a: it is already watched as /p/b"]);
    // `/p/b` is not the directory of watch 3 any more, so watch 3 is removed.
    t.answer_scan_ok("/p/b", 4, &[("x", socket(1))]);
    t.expect(&["unwatch 3", "examine /p/b/y"]);
    t.answer_examination_gone("/p/b/y");
    t.expect(&["lost /p/b/y"]);
    t.tick();
    t.expect(&["scan /p/a", "scan /p/b"]);
    t.answer_scan_ok("/p/a", 5, &[("y", socket(2))]);
    t.answer_scan_ok("/p/b", 4, &[("x", socket(1))]);
    t.expect(&["found /p/a/y #2", "examine /p/a/x", "/p/a: recovered"]);
    t.answer_examination_gone("/p/a/x");
    t.expect(&["lost /p/a/x"]);
    t.tick();
    t.expect(&["scan /p/b"]);
    t.answer_scan_ok("/p/b", 4, &[("x", socket(1))]);
    t.expect(&["found /p/b/x #1"]);
}

#[test]
fn directories_that_are_exchanged_twice_lose_nothing() {
    let mut t = two_directories();
    exchange_directories(&mut t, 2, 3);
    exchange_directories(&mut t, 2, 3);
    t.take_outputs();
    t.answer_examination("/p/a", EntryKind::Directory);
    t.answer_examination("/p/b", EntryKind::Directory);
    t.answer_scan_ok("/p/a", 2, &[("x", socket(1))]);
    t.answer_scan_ok("/p/b", 3, &[("y", socket(2))]);
    let wanted = t.take_outputs();
    assert!(wanted.iter().all(|it| it.starts_with("scan")), "{wanted:?}");
}

#[test]
fn directories_that_are_exchanged_back_keep_their_own_watches() {
    let mut t = two_directories();
    exchange_directories(&mut t, 2, 3);
    t.answer_scan_ok("/p/b", 2, &[("x", socket(1))]);
    exchange_directories(&mut t, 2, 3);
    t.answer_scan_ok("/p/a", 2, &[("x", socket(1))]);
    t.answer_scan_ok("/p/b", 3, &[("y", socket(2))]);
    t.answer_examination_gone("/p/b/x");
    let wanted = t.take_outputs();
    assert!(!wanted.contains(&"lost /p/a/x".to_owned()), "{wanted:?}");
    assert!(!wanted.contains(&"lost /p/b/y".to_owned()), "{wanted:?}");
    t.report_appeared(2, "new");
    t.report_appeared(3, "new");
    t.expect(&["examine /p/a/new", "examine /p/b/new"]);
}

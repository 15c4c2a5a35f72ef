//! How often directories are scanned, and in which order.

use std::time::Duration;

use super::*;

#[test]
fn a_directory_that_changes_continually_is_scanned_less_often() {
    let mut t = Timeline::scanned(&[]);
    let mut scans = Vec::new();
    for ms in 0..30_000 {
        t.now = Time::from_millis(ms);
        t.watch.handle_timeout(t.now);
        t.handle_event(Event::Moved { watch: WatchId(1) });
        while let Some(output) = t.watch.poll_output() {
            assert_eq!(describe(&output), "scan root /p");
            scans.push(ms);
            t.answer_scan_ok("/p", 1, &[]);
        }
    }
    assert_eq!(
        scans,
        [
            0, 10, 30, 70, 150, 310, 630, 1270, 2550, 5110, 10_110, 15_110, 20_110, 25_110
        ]
    );
    t.tick();
    t.expect(&["scan root /p"]);
    t.answer_scan_ok("/p", 1, &[]);
    t.expect_idle();
    t.now += 2 * config::PAUSE_CALM;
    for _ in 0..2 {
        t.handle_event(Event::Moved { watch: WatchId(1) });
        t.expect(&["scan root /p"]);
        t.answer_scan_ok("/p", 1, &[]);
        t.now += config::SCAN_PAUSES.first;
    }
}

#[test]
fn the_directories_that_the_user_named_are_scanned_first() {
    let mut t = Timeline::on(&["/p", "/q"]);
    let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let dirs: Vec<_> = names
        .iter()
        .map(|it| (it.as_str(), EntryKind::Directory))
        .collect();
    t.answer_scan_ok("/p", 1, &dirs);
    t.answer_scan_ok("/q", 2, &[]);
    for (name, watch) in names.iter().zip(3..) {
        t.answer_scan_ok(&format!("/p/{name}"), watch, &[]);
    }
    while t.watch.poll_output().is_some() {}
    assert_eq!(t.watch.tree.paths_roots_first().len(), 2 + names.len());
    t.handle_event(Event::Overflowed);
    for root in ["/p", "/q"] {
        let output = t.watch.poll_output().expect("a scan");
        assert_eq!(describe(&output), format!("scan root {root}"));
    }
}

#[test]
fn a_directory_that_is_removed_and_created_again_is_scanned() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.answer_scan_ok("/p/sub", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/sub", "found /p/sub/a #1"]);
    t.skip_scan_pause();
    t.report_vanished(1, "sub");
    t.handle_event(Event::Moved { watch: WatchId(2) });
    // The examination is answered, and the scan is still pending.
    let examine = t.watch.poll_output().expect("an output");
    assert_eq!(describe(&examine), "examine /p/sub");
    t.answer_examination_gone("/p/sub");
    t.skip_scan_pause();
    t.report_dir_appeared(1, "sub");
    t.expect(&["scan /p/sub", "lost /p/sub/a", "unwatch 2", "scan /p/sub"]);
    t.answer_scan_ok("/p/sub", 3, &[("a", socket(2))]);
    t.expect(&["found /p/sub/a #2"]);
    t.expect_idle();
}

#[test]
fn a_name_that_is_not_listed_is_examined() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", socket(2)), ("c", socket(3))]);
    t.expect(&["found /p/a #1", "found /p/b #2", "found /p/c #3"]);
    t.handle_event(Event::Moved { watch: WatchId(1) });
    t.expect(&["scan root /p"]);
    t.answer_scan_ok(
        "/p",
        1,
        &[
            ("a", EntryKind::Directory),
            ("c", socket(5)),
            ("d", socket(4)),
        ],
    );
    t.expect(&[
        "lost /p/a",
        "scan /p/a",
        "found /p/c #5",
        "found /p/d #4",
        "examine /p/b",
    ]);
    t.answer_scan_ok("/p/a", 2, &[]);
    t.answer_examination_gone("/p/b");
    t.expect(&["lost /p/b"]);
    t.expect_idle();
}

#[test]
fn lost_events_do_not_delay_directories_for_long() {
    let mut t = Timeline::scanned(&[]);
    let mut scans = Vec::new();
    for ms in 0..10_000 {
        t.now = Time::from_millis(ms);
        t.watch.handle_timeout(t.now);
        t.handle_event(Event::Overflowed);
        while let Some(output) = t.watch.poll_output() {
            assert_eq!(describe(&output), "scan root /p");
            scans.push(ms);
            t.answer_scan_ok("/p", 1, &[]);
        }
    }
    let pause = u64::try_from(config::ROUND_PAUSE.as_millis()).unwrap();
    assert!(
        scans.windows(2).all(|it| it[1] - it[0] == pause),
        "{scans:?}"
    );
    // A change of the directory itself does not wait for the pause between rounds.
    t.now += Duration::from_millis(pause - 1);
    t.handle_event(Event::Moved { watch: WatchId(1) });
    t.expect(&["scan root /p"]);
}

#[test]
fn one_scan_of_a_directory_is_pending_at_a_time() {
    let mut t = Timeline::scanned(&[]);
    for _ in 0..1000 {
        t.handle_event(Event::Moved { watch: WatchId(1) });
        t.handle_event(Event::Overflowed);
    }
    t.expect(&["scan root /p"]);
    t.skip_scan_pause();
    t.answer_scan_ok("/p", 1, &[]);
    t.tick();
    t.expect(&["scan root /p"]);
}

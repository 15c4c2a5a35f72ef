//! Problems of the watch: events that are lost, directories that fail, are created again or have
//! two paths, and limits.

use super::*;

#[test]
fn after_an_overflow_everything_is_scanned_and_compared() {
    let mut t = Timeline::scanned(&[
        ("stays", socket(1)),
        ("goes", socket(2)),
        ("changes", socket(3)),
        ("sub", EntryKind::Directory),
    ]);
    t.answer_scan_ok("/p/sub", 2, &[("below", socket(4))]);
    while t.watch.poll_output().is_some() {}

    t.skip_scan_pause();
    t.handle_event(Event::Overflowed);
    t.expect(&["scan root /p", "scan /p/sub"]);
    t.answer_scan_ok(
        "/p",
        1,
        &[
            ("stays", socket(1)),
            ("changes", socket(5)),
            ("comes", socket(6)),
            ("sub", EntryKind::Directory),
        ],
    );
    t.expect(&[
        "found /p/changes #5",
        "found /p/comes #6",
        "examine /p/goes",
    ]);
    t.answer_examination_gone("/p/goes");
    t.expect(&["lost /p/goes"]);
    t.answer_scan_ok("/p/sub", 2, &[]);
    t.answer_examination_gone("/p/sub/below");
    t.expect(&["examine /p/sub/below", "lost /p/sub/below"]);
}

#[test]
fn a_directory_replaced_without_an_event_gets_a_new_watch() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.answer_scan_ok("/p/sub", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/sub", "found /p/sub/a #1"]);
    t.answer_scan_ok("/p/sub", 3, &[("a", socket(2))]);
    t.expect(&["unwatch 2", "found /p/sub/a #2"]);
    t.handle_event(Event::Unwatched { watch: WatchId(2) });
    t.expect_silence();
}

#[test]
fn a_lost_root_is_reported_and_created_again_on_the_tick() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.handle_event(Event::Unwatched { watch: WatchId(1) });
    t.expect(&["scan root /p"]);
    t.answer_scan_missing("/p");
    t.expect(&["lost /p/a", "/p: it does not exist"]);

    t.tick();
    assert_eq!(t.now, Time::ZERO + config::SYSTEM_RETRY);
    t.expect(&["create and scan /p"]);
    t.answer_scan_ok("/p", 2, &[("a", socket(2))]);
    t.expect(&["found /p/a #2", "/p: recovered"]);
    t.expect_idle();
}

#[test]
fn a_root_that_was_renamed_away_is_not_watched_there() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.handle_event(Event::Moved { watch: WatchId(1) });
    t.expect(&["scan root /p"]);
    t.answer_scan_missing("/p");
    t.expect(&["lost /p/a", "unwatch 1", "/p: it does not exist"]);
}

#[test]
fn a_root_that_cannot_be_created_again_is_reported_once() {
    let mut t = Timeline::scanned(&[]);
    t.handle_event(Event::Unwatched { watch: WatchId(1) });
    t.answer_scan_missing("/p");
    t.expect(&["scan root /p", "/p: it does not exist"]);
    let denied = || Problem::NotCreated(Cause::Denied);
    t.tick();
    t.answer_scan("/p", Err(denied()), Err(denied()));
    t.expect(&[
        "create and scan /p",
        "/p: it cannot be created: permission denied",
    ]);
    for _ in 0..3 {
        t.tick();
        t.answer_scan("/p", Err(denied()), Err(denied()));
        t.expect(&["create and scan /p"]);
    }
}

#[test]
fn a_directory_that_cannot_be_watched_is_reported() {
    let mut t = Timeline::scanned(&[
        ("bad", EntryKind::Directory),
        ("good", EntryKind::Directory),
    ]);
    t.expect(&["scan /p/bad", "scan /p/good"]);
    t.answer_scan("/p/bad", not_watched(), Ok(listing(&[("a", socket(1))])));
    t.expect(&[
        "found /p/bad/a #1",
        "/p/bad: it cannot be watched and is scanned every 1s: no inotify watches are left",
    ]);
    t.answer_scan_ok("/p/good", 2, &[("b", socket(2))]);
    t.expect(&["found /p/good/b #2"]);

    t.tick();
    t.expect(&["scan /p/bad"]);
    t.answer_scan("/p/bad", not_watched(), Ok(listing(&[("c", socket(3))])));
    t.answer_examination_gone("/p/bad/a");
    t.expect(&["found /p/bad/c #3", "examine /p/bad/a", "lost /p/bad/a"]);
    t.tick();
    t.answer_scan_ok("/p/bad", 3, &[("c", socket(3))]);
    t.expect(&["scan /p/bad", "/p/bad: recovered"]);
    t.expect_idle();
}

#[test]
fn without_inotify_everything_is_scanned_on_the_tick() {
    let no_inotify = || Err(Problem::NotWatched(Cause::InstancesUsedUp));
    let root = || Ok(listing(&[("a", socket(1)), ("sub", EntryKind::Directory)]));
    let mut t = Timeline::new();
    t.answer_scan("/p", no_inotify(), root());
    t.answer_scan("/p/sub", no_inotify(), Ok(listing(&[("b", socket(2))])));
    t.expect(&[
        "create and scan /p",
        "found /p/a #1",
        "scan /p/sub",
        "/p: it cannot be watched and is scanned every 1s: no inotify instances are left",
        "found /p/sub/b #2",
    ]);
    t.tick();
    t.expect(&["create and scan /p", "scan /p/sub"]);
    t.answer_scan("/p", no_inotify(), root());
    t.answer_scan("/p/sub", no_inotify(), Ok(listing(&[("c", socket(3))])));
    t.answer_examination_gone("/p/sub/b");
    t.expect(&["found /p/sub/c #3", "examine /p/sub/b", "lost /p/sub/b"]);

    t.tick();
    t.answer_scan("/p", Ok(WatchId(1)), root());
    t.answer_scan_ok("/p/sub", 2, &[("c", socket(3))]);
    t.expect(&["create and scan /p", "scan /p/sub", "/p: recovered"]);
    t.expect_idle();
}

#[test]
fn a_change_without_an_event_is_found_by_the_resync() {
    let mut t = Timeline::new();
    assert_eq!(t.watch.poll_timeout(), None, "nothing was scanned");
    t.expect(&["create and scan /p"]);
    t.answer_scan_ok("/p", 1, &[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    for (watch, inode) in [(2, 2), (3, 3)] {
        t.tick();
        t.expect(&["scan root /p"]);
        // Another file system was mounted over `/p`.
        t.answer_scan_ok("/p", watch, &[("a", socket(inode))]);
        t.expect(&[
            &format!("unwatch {}", watch - 1),
            &format!("found /p/a #{inode}"),
        ]);
    }
    assert_eq!(t.now, Time::ZERO + 2 * config::RESYNC_INTERVAL);
}

#[test]
fn a_directory_that_cannot_be_read_keeps_its_plugins() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.handle_event(Event::Overflowed);
    t.expect(&["found /p/a #1", "scan root /p"]);
    let unreadable = Err(Problem::NotRead(Cause::DescriptorsUsedUp));
    t.answer_scan("/p", Ok(WatchId(1)), unreadable);
    t.expect(&["/p: it cannot be read: no file descriptors are left"]);
    t.tick();
    t.answer_scan_ok("/p", 1, &[("a", socket(1))]);
    t.expect(&["create and scan /p", "/p: recovered"]);
}

#[test]
fn a_file_in_the_place_of_a_root_is_reported_until_removed() {
    let mut t = Timeline::new();
    t.answer_scan(
        "/p",
        Err(Problem::NotADirectory),
        Err(Problem::NotADirectory),
    );
    t.expect(&["create and scan /p", "/p: it is not a directory"]);
    t.tick();
    t.answer_scan_ok("/p", 1, &[]);
    t.expect(&["create and scan /p", "/p: recovered"]);
}

#[test]
fn a_subdirectory_that_is_missing_when_scanned_is_removed() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.expect(&["scan /p/sub"]);
    t.answer_scan_missing("/p/sub");
    t.expect_silence();
    t.expect_idle();
    t.skip_scan_pause();
    t.report_dir_appeared(1, "sub");
    t.expect(&["scan /p/sub"]);
}

#[test]
fn a_late_answer_about_a_removed_directory_leaves_no_watch() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.expect(&["scan /p/sub"]);
    t.report_vanished(1, "sub");
    t.answer_examination_gone("/p/sub");
    t.answer_scan_ok("/p/sub", 2, &[("a", socket(1))]);
    t.answer_examination("/p/sub/a", socket(1));
    t.expect(&["examine /p/sub", "unwatch 2"]);
}

#[test]
fn roots_with_a_common_prefix_are_all_scanned() {
    let mut t = Timeline::on(&["/p", "/p/../q"]);
    t.expect(&["create and scan /p", "create and scan /p/../q"]);
}

#[test]
fn the_same_directory_under_a_second_path_is_watched_once() {
    let mut t = Timeline::on(&["/p", "/q"]);
    t.answer_scan_ok("/p", 1, &[("a", socket(1))]);
    t.answer_scan_ok("/q", 1, &[("a", socket(1))]);
    t.expect(&[
        "create and scan /p",
        "create and scan /q",
        "found /p/a #1",
        "/q: it is already watched as /p",
    ]);
    for pause in [1, 2, 4] {
        let before = t.now;
        t.tick();
        assert_eq!(t.now.saturating_since(before).as_secs(), pause);
        t.expect(&["create and scan /q"]);
        t.answer_scan_ok("/q", 1, &[("a", socket(1))]);
        t.expect_silence();
    }
}

#[test]
fn a_directory_that_is_mounted_inside_itself_ends_the_descent() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.answer_scan_ok("/p/sub", 2, &[("loop", EntryKind::Directory)]);
    t.skip_scan_pause();
    t.answer_scan_ok("/p/sub/loop", 2, &[("loop", EntryKind::Directory)]);
    t.expect(&[
        "scan /p/sub",
        "scan /p/sub/loop",
        "/p/sub/loop: it is already watched as /p/sub",
    ]);
    t.report_vanished(1, "sub");
    t.expect(&["examine /p/sub"]);
    t.answer_examination_gone("/p/sub");
    t.expect(&["unwatch 2"]);
}

#[test]
fn directories_below_the_depth_limit_are_reported_and_ignored() {
    let mut t = Timeline::scanned(&[("d", EntryKind::Directory)]);
    let mut dir = String::from("/p");
    for depth in 1..=config::MAX_TREE_DEPTH {
        dir.push_str("/d");
        t.expect(&[&format!("scan {dir}")]);
        t.answer_scan_ok(
            &dir,
            i32::try_from(depth + 1).unwrap(),
            &[("d", EntryKind::Directory)],
        );
    }
    t.expect(&[&format!(
        "{dir}: it contains directories more than 16 levels deep, which are ignored"
    )]);
    t.expect_idle(); // Another scan would not help.
}

#[test]
fn names_missing_from_an_incomplete_listing_stay() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    let mut part = listing(&[("b", socket(2))]);
    part.is_cut = true;
    t.answer_scan("/p", Ok(WatchId(1)), Ok(part));
    t.expect(&[
        "found /p/b #2",
        "examine /p/a",
        "/p: it contains more than 16384 names, or 1536 that may be sockets; the rest are ignored",
    ]);
    t.answer_examination("/p/a", socket(1));
    t.expect_silence();
}

#[test]
fn calling_the_timeout_early_is_harmless() {
    let mut t = Timeline::new();
    t.watch.handle_timeout(t.now);
    t.answer_scan_missing("/p");
    t.watch.handle_timeout(t.now);
    t.expect(&["create and scan /p", "/p: it does not exist"]);
}

#[test]
fn a_directory_with_unreported_changes_is_also_scanned() {
    let mut timeline = Timeline::new();
    timeline.expect(&["create and scan /p"]);
    let remote = || Listing {
        unreported: Some("nfs4".into()),
        ..listing(&[("sub", EntryKind::Directory)])
    };
    timeline.answer_scan("/p", Ok(WatchId(1)), Ok(remote()));
    let trouble = format!("/p: {}", Problem::NotReported("nfs4".into()));
    timeline.expect(&["scan /p/sub", &trouble]);
    let below = Listing {
        entries: Vec::new(),
        ..remote()
    };
    timeline.answer_scan("/p/sub", Ok(WatchId(2)), Ok(below));
    timeline.expect_silence();
    timeline.report_appeared(2, "a");
    timeline.expect(&["examine /p/sub/a"]);
    timeline.tick();
    assert_eq!(timeline.now, Time::ZERO + config::SYSTEM_RETRY);
    timeline.expect(&["create and scan /p", "scan /p/sub"]);
}

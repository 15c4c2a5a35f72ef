//! Directories that are listed in pieces, and how often they are listed.

use std::time::Duration;

use super::*;

/// Returns a piece of a listing that is not the last one.
pub(super) fn piece(entries: &[(&str, EntryKind)]) -> Listing {
    Listing {
        rest: Rest::Follows,
        ..listing(entries)
    }
}

impl Timeline {
    /// Answers a request for the next piece.
    pub(super) fn list(&mut self, dir: &str, entries: Listing) {
        self.input(Input::Listed {
            dir: Path::new(dir).into(),
            entries: Ok(entries),
        });
    }

    /// Answers a scan: the directory is watched, and listed in part.
    fn scan_part(&mut self, dir: &str, watch: i32, entries: &[(&str, EntryKind)]) {
        self.scan(dir, Ok(WatchId(watch)), Ok(piece(entries)));
    }
}

#[test]
fn a_directory_is_listed_piece_by_piece_and_what_no_piece_holds_is_looked_at_in_the_end() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", socket(2)), ("c", socket(3))]);
    t.expect(&["found /p/a #1", "found /p/b #2", "found /p/c #3"]);
    t.event(Event::Moved { watch: WatchId(1) });
    t.expect(&["scan root /p"]);
    t.scan_part("/p", 1, &[("a", socket(1))]);
    t.expect(&["list /p"]);
    t.list("/p", piece(&[("d", socket(4))]));
    t.expect(&["found /p/d #4", "list /p"]);
    t.list("/p", listing(&[("c", socket(5))]));
    t.expect(&["found /p/c #5", "examine /p/b"]);
    t.examine_gone("/p/b");
    t.expect(&["lost /p/b"]);
    t.expect_rest();
}

#[test]
fn an_older_listing_does_not_undo_what_was_seen_since() {
    let mut t = Timeline::new();
    t.scan_part("/p", 1, &[]);
    t.expect(&["create and scan /p", "list /p"]);
    // `after` and `sub` were added where the listing had already passed; `changed` changed.
    for (name, inode) in [("after", 1), ("changed", 2)] {
        t.appeared(1, name);
        t.examine(&format!("/p/{name}"), socket(inode));
    }
    t.dir_appeared(1, "sub");
    t.expect(&[
        "examine /p/after",
        "found /p/after #1",
        "examine /p/changed",
        "found /p/changed #2",
        "scan /p/sub",
    ]);
    t.list("/p", listing(&[("changed", EntryKind::Directory)]));
    t.expect(&["examine /p/changed"]);
    t.examine("/p/changed", socket(2));
    t.expect_silence();
}

#[test]
fn a_directory_to_which_something_happens_all_the_time_is_scanned_after_pauses_that_double() {
    let mut t = Timeline::scanned(&[]);
    let mut scans = Vec::new();
    for ms in 0..30_000 {
        t.now = Time::from_millis(ms);
        t.watch.handle_timeout(t.now);
        t.event(Event::Moved { watch: WatchId(1) });
        while let Some(output) = t.watch.poll_output() {
            assert_eq!(describe(&output), "scan root /p");
            scans.push(ms);
            t.scan_ok("/p", 1, &[]);
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
    t.scan_ok("/p", 1, &[]);
    t.expect_rest();
    t.now += 2 * config::SCAN_CALM;
    for _ in 0..2 {
        t.event(Event::Moved { watch: WatchId(1) });
        t.expect(&["scan root /p"]);
        t.scan_ok("/p", 1, &[]);
        t.now += config::SCAN_PAUSE;
    }
}

#[test]
fn events_that_are_lost_all_the_time_make_no_directory_wait_longer_than_a_moment() {
    let mut t = Timeline::scanned(&[]);
    let mut scans = Vec::new();
    for ms in 0..10_000 {
        t.now = Time::from_millis(ms);
        t.watch.handle_timeout(t.now);
        t.event(Event::Overflowed);
        while let Some(output) = t.watch.poll_output() {
            match output {
                Output::Scan { .. } => {
                    scans.push(ms);
                    t.scan_part("/p", 1, &[]);
                }
                Output::List { .. } if ms % 3 == 0 => t.list("/p", listing(&[])),
                Output::List { .. } => t.list("/p", piece(&[])),
                other => panic!("{other:?}"),
            }
            t.now += Duration::from_micros(10);
            if t.now >= Time::from_millis(ms + 1) {
                break;
            }
        }
    }
    let most = Duration::from_millis(3) + 2 * config::ROUND_PAUSE;
    let most = u64::try_from(most.as_millis()).unwrap();
    assert!(
        scans.windows(2).all(|it| it[1] - it[0] <= most),
        "{scans:?}"
    );
    assert!(scans.len() < 10_000 / 20 + 10, "{scans:?}");
    // A change of the directory itself counts separately.
    while t.watch.poll_output().is_some() {}
    t.list("/p", listing(&[]));
    t.later();
    t.watch.handle_timeout(t.now);
    t.expect(&["scan root /p"]);
    t.scan_ok("/p", 1, &[]);
    t.event(Event::Moved { watch: WatchId(1) });
    t.expect(&["scan root /p"]);
}

#[test]
fn the_directories_that_the_user_named_are_scanned_first_after_an_overflow() {
    let mut t = Timeline::on(&["/p", "/q"]);
    let names: Vec<String> = (0..2 * config::LISTED_AT_ONCE)
        .map(|n| n.to_string())
        .collect();
    let dirs: Vec<_> = names
        .iter()
        .map(|it| (it.as_str(), EntryKind::Directory))
        .collect();
    t.scan_ok("/p", 1, &dirs);
    t.scan_ok("/q", 2, &[]);
    for (name, watch) in names.iter().zip(3..) {
        t.scan_ok(&format!("/p/{name}"), watch, &[]);
    }
    while t.watch.poll_output().is_some() {}
    assert_eq!(t.watch.tree.paths_from_roots().len(), 2 + names.len());
    t.event(Event::Overflowed);
    for root in ["/p", "/q"] {
        let output = t.watch.poll_output().expect("a scan");
        assert_eq!(describe(&output), format!("scan root {root}"));
    }
}

#[test]
fn one_scan_of_a_directory_is_wanted_at_a_time_and_one_more_after_its_listing() {
    let mut t = Timeline::scanned(&[]);
    for _ in 0..1000 {
        t.event(Event::Moved { watch: WatchId(1) });
        t.event(Event::Overflowed);
    }
    t.expect(&["scan root /p"]);
    t.later();
    t.scan_part("/p", 1, &[]);
    for _ in 0..1000 {
        t.event(Event::Moved { watch: WatchId(1) });
        t.event(Event::Overflowed);
    }
    t.expect(&["list /p"]);
    t.later();
    t.list("/p", listing(&[]));
    t.expect_silence();
    t.tick();
    t.expect(&["scan root /p"]);
}

#[test]
fn few_directories_are_listed_at_a_time_and_a_small_one_waits_for_none_of_them() {
    let names: Vec<String> = (0..7).map(|n| format!("d{n}")).collect();
    let dirs = names.iter().map(|it| (it.as_str(), EntryKind::Directory));
    let mut t = Timeline::scanned(&dirs.collect::<Vec<_>>());
    let scans: Vec<String> = names.iter().map(|it| format!("scan /p/{it}")).collect();
    t.expect(&scans.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, watch) in names.iter().zip(2..) {
        t.scan_part(&format!("/p/{name}"), watch, &[]);
    }
    t.expect(&[
        "close /p/d4",
        "close /p/d5",
        "close /p/d6",
        "list /p/d0",
        "list /p/d1",
        "list /p/d2",
        "list /p/d3",
    ]);
    t.dir_appeared(1, "small");
    t.expect(&["scan /p/small"]);
    t.scan_ok("/p/small", 9, &[("a", socket(1))]);
    t.expect(&["found /p/small/a #1"]);
    t.list("/p/d2", listing(&[]));
    t.expect(&["scan /p/d4"]);
    t.vanished(1, "d0");
    t.examine_gone("/p/d0");
    t.expect(&["examine /p/d0", "close /p/d0", "scan /p/d5", "unwatch 2"]);
    t.list("/p/d0", piece(&[]));
    t.expect(&["close /p/d0"]);
}

/// Creates a watch with seven large directories: four are being listed; `d4`, `d5` and `d6` wait.
fn large_directories() -> Timeline {
    let names: Vec<String> = (0..7).map(|n| format!("d{n}")).collect();
    let dirs = names.iter().map(|it| (it.as_str(), EntryKind::Directory));
    let mut t = Timeline::scanned(&dirs.collect::<Vec<_>>());
    for (name, watch) in names.iter().zip(2..) {
        t.scan_part(&format!("/p/{name}"), watch, &[]);
    }
    while t.watch.poll_output().is_some() {}
    t
}

#[test]
fn a_directory_that_turns_out_to_be_another_one_lets_the_next_large_one_begin() {
    let mut t = large_directories();
    t.list("/p/d0", listing(&[]));
    t.expect(&["scan /p/d4"]);
    t.scan_part("/p/d4", 1, &[]);
    t.expect(&[
        "scan root /p",
        "close /p/d4",
        "unwatch 6",
        "/p/d4: it is already watched as /p",
        "scan /p/d5",
    ]);
}

#[test]
fn a_directory_that_is_gone_when_it_could_be_listed_lets_the_next_large_one_begin() {
    // First during its scan, then before.
    let mut t = large_directories();
    t.list("/p/d0", listing(&[]));
    t.expect(&["scan /p/d4"]);
    t.examine_gone("/p/d4");
    t.scan_part("/p/d4", 6, &[]);
    t.expect(&[
        "scan /p/d5",
        "unwatch 6",
        "unwatch 6",
        "close /p/d4",
        "scan /p/d6",
    ]);

    let mut t = large_directories();
    t.list("/p/d0", listing(&[]));
    t.examine_gone("/p/d4");
    t.expect(&["scan /p/d5", "unwatch 6"]);
}

#[test]
fn a_directory_that_is_removed_and_made_again_before_its_scan_is_scanned_once() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.scan_ok("/p/sub", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/sub", "found /p/sub/a #1"]);
    t.later();
    t.vanished(1, "sub");
    t.event(Event::Moved { watch: WatchId(2) });
    // The examination is answered, and the scan is still pending.
    let examine = t.watch.poll_output().expect("an output");
    assert_eq!(describe(&examine), "examine /p/sub");
    t.examine_gone("/p/sub");
    t.later();
    t.dir_appeared(1, "sub");
    t.expect(&["lost /p/sub/a", "unwatch 2", "scan /p/sub"]);
    t.scan_part("/p/sub", 3, &[]);
    t.expect(&["list /p/sub"]);
    t.list("/p/sub", listing(&[("a", socket(2))]));
    t.expect(&["found /p/sub/a #2"]);
    t.expect_rest();
}

#[test]
fn a_second_scan_of_a_directory_begins_its_listing_anew() {
    let mut t = Timeline::new();
    t.expect(&["create and scan /p"]);
    t.scan_part("/p", 1, &[("a", socket(1))]);
    t.expect(&["found /p/a #1", "list /p"]);
    t.scan_part("/p", 1, &[]);
    t.expect(&["list /p"]);
    t.list("/p", listing(&[("a", socket(1)), ("b", socket(2))]));
    t.expect(&["found /p/b #2"]);
    t.expect_rest();
    assert!(!t.watch.listings.is_open(Path::new("/p")));
}

#[test]
fn a_change_during_a_listing_that_begins_anew_is_not_forgotten() {
    let mut t = Timeline::new();
    t.expect(&["create and scan /p"]);
    t.scan_part("/p", 1, &[]);
    t.event(Event::Moved { watch: WatchId(1) });
    t.expect(&["list /p"]);
    t.scan_part("/p", 1, &[]);
    t.expect(&["list /p"]);
    t.list("/p", listing(&[]));
    t.expect(&["scan root /p"]);
}

#[test]
fn the_listing_of_a_root_ends_when_the_root_is_gone() {
    let mut t = Timeline::new();
    t.expect(&["create and scan /p"]);
    t.scan_part("/p", 1, &[("a", socket(1))]);
    t.expect(&["found /p/a #1", "list /p"]);
    t.scan_missing("/p");
    t.expect(&[
        "close /p",
        "lost /p/a",
        "unwatch 1",
        "/p: it does not exist",
    ]);
    assert!(!t.watch.listings.is_open(Path::new("/p")));
}

#[test]
fn a_directory_whose_listing_was_closed_keeps_its_sockets_and_is_scanned_again() {
    let mut t = Timeline::new();
    t.expect(&["create and scan /p"]);
    t.scan_part("/p", 1, &[("a", socket(1))]);
    t.expect(&["found /p/a #1", "list /p"]);
    t.input(Input::Unlisted {
        dir: Path::new("/p").into(),
    });
    t.expect(&["scan root /p"]);
    t.scan_ok("/p", 1, &[("a", socket(1))]);
    t.expect_silence();
    t.expect_rest();
}

#[test]
fn listings_go_on_although_there_is_always_something_else_to_do() {
    let mut t = Timeline::new();
    t.scan_part("/p", 1, &[]);
    let mut others = 0;
    for n in 0.. {
        t.appeared(1, &n.to_string());
        match t.watch.poll_output() {
            Some(Output::List { .. }) => break,
            _ => others += 1,
        }
    }
    assert_eq!(others, config::LISTED_AT_ONCE);
}

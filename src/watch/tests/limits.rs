//! The limits on the sockets of one directory and of all directories together.

use std::ops::RangeInclusive;

use super::*;

/// The maximum number of sockets in one directory.
const MOST: u64 = config::MAX_EXAMINED_NAMES as u64;

/// Returns a listing of sockets with these inode numbers.
fn socket_listing(inodes: RangeInclusive<u64>) -> Listing {
    let entry = |inode| Entry {
        name: format!("{inode:06}").into(),
        kind: socket(inode),
    };
    Listing {
        entries: inodes.map(entry).collect(),
        ..listing(&[])
    }
}

impl Timeline {
    /// Takes all pending outputs. Returns how many sockets they report as found, and as lost.
    fn take_found_and_lost_counts(&mut self) -> (usize, usize) {
        let (mut found, mut lost) = (0, 0);
        while let Some(output) = self.watch.poll_output() {
            let is_found = matches!(output, Output::Found { .. });
            found += usize::from(is_found);
            lost += usize::from(matches!(output, Output::Lost { .. }));
        }
        (found, lost)
    }
}

#[test]
fn one_directory_leaves_room_for_others() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.answer_scan("/p/sub", Ok(WatchId(2)), Ok(socket_listing(1..=MOST)));
    assert_eq!(
        t.take_found_and_lost_counts(),
        (config::MAX_EXAMINED_NAMES, 0)
    );
    t.answer_examination("/p/sub/more", socket(100_001));
    t.answer_examination("/p/sub/still-more", socket(100_002));
    t.expect(&[&format!("/p/sub: {}", Problem::TooManyNames)]);
    t.answer_examination("/p/beside", socket(100_003));
    t.expect(&["found /p/beside #100003"]);
    t.report_vanished(1, "sub");
    t.answer_examination_gone("/p/sub");
    assert_eq!(
        t.take_found_and_lost_counts(),
        (0, config::MAX_EXAMINED_NAMES)
    );
    assert_eq!(t.watch.tree.sockets().len(), 1);
}

#[test]
fn a_link_stays_known_if_the_directory_of_its_socket_is_full() {
    let mut t = Timeline::scanned(&[("link", link(100_001)), ("sub", EntryKind::Directory)]);
    t.answer_scan("/p/sub", Ok(WatchId(2)), Ok(socket_listing(1..=MOST)));
    assert_eq!(
        t.take_found_and_lost_counts(),
        (config::MAX_EXAMINED_NAMES + 1, 0)
    );
    t.answer_examination("/p/sub/own", socket(100_001));
    t.expect(&[&format!("/p/sub: {}", Problem::TooManyNames)]);
    let is_watched = |it: Directory<'_>| it.state == DirectoryState::Watched;
    assert!(t.watch.directories().all(is_watched));
    t.answer_examination_gone("/p/sub/000001");
    t.answer_examination("/p/sub/own", socket(100_001));
    t.expect(&[
        "lost /p/sub/000001",
        "lost /p/link",
        "found /p/sub/own #100001",
    ]);
}

#[test]
fn sockets_found_before_the_limit_was_reached_stay() {
    let dirs = [("a", EntryKind::Directory), ("b", EntryKind::Directory)];
    let mut t = Timeline::scanned(&dirs);
    t.answer_scan("/p/a", Ok(WatchId(2)), Ok(socket_listing(1..=MOST)));
    let all = config::MAX_SOCKETS as u64;
    t.answer_scan("/p/b", Ok(WatchId(3)), Ok(socket_listing(MOST + 1..=all)));
    assert_eq!(t.take_found_and_lost_counts(), (config::MAX_SOCKETS, 0));
    t.answer_examination("/p/late", socket(100_001));
    t.expect(&[&format!("/p: {}", Problem::TooManySockets)]);
    // Another path to a known socket, and the replacement of a socket, do not count towards the
    // limit.
    t.answer_examination("/p/link", socket(1));
    t.expect_silence();
    t.answer_examination("/p/a/000002", socket(100_002));
    t.expect(&["found /p/a/000002 #100002"]);
    t.answer_examination_gone("/p/a/000003");
    t.answer_examination("/p/late", socket(100_001));
    t.expect(&["lost /p/a/000003", "found /p/late #100001"]);
    t.tick();
    t.expect(&["create and scan /p"]);
}

#[test]
fn a_directory_above_a_limit_is_scanned_less_and_less_often() {
    let mut t = Timeline::scanned(&[]);
    t.handle_event(Event::Moved { watch: WatchId(1) });
    let too_many = || Listing {
        is_cut: true,
        ..listing(&[])
    };
    let mut pauses = Vec::new();
    for _ in 0..8 {
        t.answer_scan("/p", Ok(WatchId(1)), Ok(too_many()));
        t.take_found_and_lost_counts();
        let before = t.now;
        t.tick();
        pauses.push(t.now.saturating_since(before).as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    t.answer_scan_ok("/p", 1, &[]);
    t.expect(&["create and scan /p", "/p: recovered"]);
    t.answer_scan("/p", Ok(WatchId(1)), Ok(too_many()));
    let before = t.now;
    t.tick();
    assert_eq!(t.now, before + config::SYSTEM_RETRY, "first pause");
}

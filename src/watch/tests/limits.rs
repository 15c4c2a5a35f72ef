//! The limits on the sockets of one part of the tree and of all.

use std::ops::RangeInclusive;

use super::*;

const MOST_BELOW: u64 = config::MAX_SOCKETS as u64 / 4;
const MOST_IN_ROOT: u64 = config::MAX_SOCKETS as u64 - MOST_BELOW;

/// Returns a listing of sockets with these inode numbers.
fn sockets(inodes: RangeInclusive<u64>) -> Listing {
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
    /// Discards all pending outputs. Returns how many sockets they report as found and as lost.
    fn count(&mut self) -> (usize, usize) {
        let (mut found, mut lost) = (0, 0);
        while let Some(output) = self.watch.poll_output() {
            let is_found = matches!(output, Output::Found { .. });
            found += usize::from(is_found);
            lost += usize::from(matches!(output, Output::Lost { .. }));
        }
        (found, lost)
    }
}

/// Creates a watch on `/p` whose directory `sub` holds the most sockets allowed, from 1 on.
fn full_sub() -> Timeline {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.scan("/p/sub", Ok(WatchId(2)), Ok(sockets(1..=MOST_BELOW)));
    assert_eq!(t.count(), (config::MAX_SOCKETS / 4, 0));
    t
}

#[test]
fn one_sub_directory_takes_no_more_than_its_part_of_the_places() {
    let mut t = full_sub();
    t.examine("/p/sub/more", socket(100_001));
    t.examine("/p/sub/still-more", socket(100_002));
    t.expect(&[
        "/p/sub: there are more than 512 plugin sockets in this part of the tree; the rest are \
         ignored",
    ]);
    t.examine("/p/beside", socket(100_003));
    t.dir_appeared(1, "other");
    t.expect(&["found /p/beside #100003", "scan /p/other"]);
    t.scan_ok("/p/other", 3, &[("a", socket(100_004))]);
    t.expect(&["found /p/other/a #100004"]);
    // A deeper directory belongs to the same part, and the part ends with its topmost directory.
    t.dir_appeared(2, "deeper");
    t.scan_ok("/p/sub/deeper", 4, &[("b", socket(100_005))]);
    assert_eq!(t.count(), (0, 0));
    t.vanished(1, "sub");
    t.examine_gone("/p/sub");
    assert_eq!(t.count(), (0, config::MAX_SOCKETS / 4));
    assert_eq!(t.watch.tree.sockets().count(), 2);
}

#[test]
fn the_sockets_in_the_root_leave_places_for_those_below_it() {
    let mut t = Timeline::new();
    t.scan("/p", Ok(WatchId(1)), Ok(sockets(1..=MOST_IN_ROOT + 1)));
    assert_eq!(t.count(), (config::MAX_SOCKETS / 4 * 3, 0));
    t.dir_appeared(1, "sub");
    t.scan_ok("/p/sub", 2, &[("a", socket(100_001))]);
    assert_eq!(t.count(), (1, 0));
}

#[test]
fn when_all_places_are_taken_what_was_found_before_stays_and_a_place_that_is_free_is_taken() {
    let dirs = ["a", "b", "c", "d"].map(|name| (name, EntryKind::Directory));
    let mut t = Timeline::scanned(&dirs);
    for (n, (name, _)) in (0..).zip(dirs) {
        let inodes = sockets(n * MOST_BELOW + 1..=(n + 1) * MOST_BELOW);
        let watch = WatchId(2 + i32::try_from(n).unwrap());
        t.scan(&format!("/p/{name}"), Ok(watch), Ok(inodes));
    }
    assert_eq!(t.count(), (config::MAX_SOCKETS, 0));
    t.examine("/p/late", socket(100_001));
    t.expect(&[&format!("/p: {}", Problem::TooManySockets)]);
    // A further path to a known socket, and a socket that is replaced, need no place.
    t.examine("/p/link", socket(1));
    t.expect_silence();
    t.examine("/p/a/000002", socket(100_002));
    t.expect(&["found /p/a/000002 #100002"]);
    t.examine_gone("/p/a/000003");
    t.examine("/p/late", socket(100_001));
    t.expect(&["lost /p/a/000003", "found /p/late #100001"]);
    t.tick();
    t.expect(&["create and scan /p"]);
}

#[test]
fn a_directory_with_too_much_in_it_is_scanned_after_pauses_that_double_to_a_minute() {
    let mut t = Timeline::scanned(&[]);
    t.event(Event::Moved { watch: WatchId(1) });
    let too_many = || Listing {
        is_cut: true,
        ..listing(&[])
    };
    let mut pauses = Vec::new();
    for _ in 0..8 {
        t.scan("/p", Ok(WatchId(1)), Ok(too_many()));
        t.count();
        let before = t.now;
        t.tick();
        pauses.push(t.now.saturating_since(before).as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    t.scan_ok("/p", 1, &[]);
    t.expect(&["create and scan /p", "/p: recovered"]);
    t.scan("/p", Ok(WatchId(1)), Ok(too_many()));
    let before = t.now;
    t.tick();
    assert_eq!(t.now, before + config::WATCH_RETRY, "it begins anew");
}

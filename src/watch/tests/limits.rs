//! The limits on the sockets of one part of the tree, and how dead sockets make room for others.

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
            let is_found = matches!(output, Output::Found { .. } | Output::Alias { .. });
            found += usize::from(is_found);
            lost += usize::from(matches!(output, Output::Lost { .. }));
        }
        (found, lost)
    }

    fn refused(&mut self, path: &str, is_refused: bool) {
        self.input(Input::Refused {
            path: Path::new(path).into(),
            is_refused,
        });
    }

    fn links(&self, inode: u64) -> usize {
        match socket(inode) {
            EntryKind::Socket(identity) => self.watch.tree.sockets().links(identity),
            _ => unreachable!("it is a socket"),
        }
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
fn of_many_links_to_one_socket_a_few_are_followed_and_the_others_take_no_places() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.expect(&["scan /p/sub"]);
    let names: Vec<String> = (0..17_000).map(|n| format!("{n:06}")).collect();
    let links: Vec<_> = names.iter().map(|it| (it.as_str(), socket(1))).collect();
    t.scan_ok("/p/sub", 2, &links);
    let mut found = 0;
    while let Some(output) = t.watch.poll_output() {
        match output {
            Output::Found { .. } | Output::Alias { .. } => found += 1,
            other => assert_eq!(
                describe(&other),
                "/p/sub: more than 16 links lead to one plugin socket; the rest are ignored"
            ),
        }
    }
    assert_eq!((found, t.links(1)), (config::MAX_LINKS, config::MAX_LINKS));
    t.appeared(2, "later");
    t.examine("/p/sub/later", socket(2));
    t.expect(&["examine /p/sub/later", "found /p/sub/later #2"]);

    // A socket that is removed makes room for the next one.
    t.vanished(2, "000000");
    t.examine_gone("/p/sub/000000");
    t.expect(&["examine /p/sub/000000", "lost /p/sub/000000"]);
    t.tick();
    t.expect(&["scan /p/sub"]);
    t.scan_ok(
        "/p/sub",
        2,
        &[&links[1..17], &[("later", socket(2))]].concat(),
    );
    t.expect(&["alias /p/sub/000016 #1", "/p/sub: recovered"]);
    t.expect_rest();
}

#[test]
fn links_of_a_neighbour_leave_room_for_the_path_of_the_plugin() {
    let mut t = Timeline::scanned(&[
        ("evil", EntryKind::Directory),
        ("sub", EntryKind::Directory),
    ]);
    t.expect(&["scan /p/evil", "scan /p/sub"]);
    let names: Vec<String> = (0..=config::MAX_LINKS)
        .map(|n| format!("l{n:02}"))
        .collect();
    let links: Vec<_> = names.iter().map(|it| (it.as_str(), socket(1))).collect();
    t.scan_ok("/p/evil", 2, &links);
    assert_eq!(t.count(), (config::MAX_LINKS, 0));
    t.scan_ok("/p/sub", 3, &[("own", socket(1))]);
    t.expect(&["alias /p/sub/own #1"]);
    assert_eq!(t.links(1), config::MAX_LINKS + 1);
}

#[test]
fn a_socket_renewed_and_renewed_back_is_counted_once() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", socket(2))]);
    for inode in [2, 1, 2, 1] {
        t.examine("/p/a", socket(inode));
        assert_eq!(
            (t.links(1), t.links(2)),
            (usize::from(inode == 1), 1 + usize::from(inode == 2))
        );
    }
    t.examine_gone("/p/a");
    assert_eq!((t.links(1), t.links(2)), (0, 1));
}

#[test]
fn a_name_that_becomes_one_link_too_many_is_lost() {
    let names: Vec<String> = (0..config::MAX_LINKS).map(|n| format!("l{n:02}")).collect();
    let links = names.iter().map(|it| (it.as_str(), socket(1)));
    let entries: Vec<_> = links.chain([("other", socket(2))]).collect();
    let mut t = Timeline::scanned(&entries);
    assert_eq!(t.count(), (entries.len(), 0));
    t.examine("/p/other", socket(1));
    t.expect(&[
        "lost /p/other",
        "/p: more than 16 links lead to one plugin socket; the rest are ignored",
    ]);
}

#[test]
fn one_sub_directory_takes_no_more_than_its_part_of_the_places() {
    let mut t = full_sub();
    t.examine("/p/sub/more", socket(100_001));
    t.examine("/p/sub/still-more", socket(100_002));
    t.expect(&[
        "/p/sub: there are more than 4096 plugin sockets in this part of the tree; the rest are \
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
    assert_eq!(t.watch.tree.sockets().counts(), (2, 0));
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
fn a_socket_on_which_nothing_listens_makes_room_the_one_first_that_was_refused_first() {
    let mut t = full_sub();
    for inode in [7, 5, 9] {
        t.refused(&format!("/p/sub/{inode:06}"), true);
        t.refused(&format!("/p/sub/{inode:06}"), true);
    }
    t.refused("/p/sub/000005", false);
    t.refused("/p/sub/unknown", true);
    let trouble = Problem::TooManySocketsBelow(4096);
    t.examine("/p/sub/a", socket(100_001));
    t.expect(&[
        "lost /p/sub/000007",
        &format!("/p/sub: {trouble}"),
        "found /p/sub/a #100001",
    ]);
    // Another socket under the same name is not refused yet.
    t.examine("/p/sub/000009", socket(100_009));
    t.examine("/p/sub/b", socket(100_002));
    t.expect(&["found /p/sub/000009 #100009"]);
    assert_eq!(
        t.watch.tree.sockets().counts(),
        (config::MAX_SOCKETS / 4, 0)
    );
}

#[test]
fn sockets_that_made_room_do_not_take_the_places_of_those_that_are_listed_after_them() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.expect(&["scan /p/sub"]);
    let mut live = None;
    for _ in 0..200 {
        // All sockets but the last are dead, and a few of those found are refused between two
        // scans.
        t.scan("/p/sub", Ok(WatchId(2)), Ok(sockets(1..=MOST_BELOW + 100)));
        let mut found = Vec::new();
        while let Some(output) = t.watch.poll_output() {
            if let Output::Found { path, identity, .. } = output {
                found.push((path, identity.inode));
            }
        }
        let last = found.iter().find(|(_, inode)| *inode == MOST_BELOW + 100);
        live = live.or_else(|| last.cloned());
        for (path, _) in found
            .iter()
            .filter(|(_, inode)| *inode <= MOST_BELOW + 99)
            .take(8)
        {
            t.refused(path.to_str().unwrap(), true);
        }
        if live.is_some() {
            return;
        }
        t.tick();
    }
    panic!("the last one is never found");
}

#[test]
fn when_all_places_are_taken_a_refused_socket_makes_room_wherever_it_is() {
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
    t.examine("/p/link", socket(1));
    t.expect(&["alias /p/link #1"]);
    t.refused("/p/c/008200", true);
    t.examine("/p/late", socket(100_001));
    // `/p/c` has the same problem as the directory above it, which is not reported again.
    t.expect(&["lost /p/c/008200", "found /p/late #100001"]);
    t.tick();
    t.expect(&["create and scan /p", "scan /p/c"]);
}

#[test]
fn a_directory_with_too_much_in_it_is_scanned_after_pauses_that_double_to_a_minute() {
    let mut t = Timeline::scanned(&[]);
    t.event(Event::Moved { watch: WatchId(1) });
    let too_many = || Listing {
        rest: Rest::Ignored,
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

#[test]
fn symbolic_links_leave_room_for_the_socket_itself() {
    let names: Vec<String> = (0..config::MAX_LINKS).map(|n| format!("l{n:02}")).collect();
    let links: Vec<_> = names.iter().map(|it| (it.as_str(), link(1))).collect();
    let mut t = Timeline::scanned(&links);
    assert_eq!(t.count(), (config::MAX_LINKS / 2, 0));
    t.examine("/p/socket", socket(1));
    assert_eq!(t.count(), (1, 0));
}

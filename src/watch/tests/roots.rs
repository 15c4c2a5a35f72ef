//! Roots that are added and removed: what is known stays or goes, and nothing arrives too late.

mod model;

use super::pieces::piece;
use super::*;

impl Timeline {
    /// Adds a root that can be watched and listed.
    fn add(&mut self, dir: &str, watch: i32, entries: &[(&str, EntryKind)]) {
        let added = self.try_add(dir, Ok(WatchId(watch)), Ok(listing(entries)));
        assert_eq!(added, Ok(()));
    }

    fn try_add(
        &mut self,
        dir: &str,
        watch: Result<WatchId, Problem>,
        entries: Result<Listing, Problem>,
    ) -> Result<(), Problem> {
        let dir = Path::new(dir).into();
        self.watch.add_root(&dir, watch, entries, self.now)
    }

    fn remove(&mut self, dir: &str) {
        self.watch.remove_root(Path::new(dir), self.now);
    }
}

#[test]
fn a_root_is_added_and_removed_and_another_one_notices_nothing() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.add("/q", 2, &[("b", socket(2)), ("sub", EntryKind::Directory)]);
    t.expect(&["found /q/b #2", "scan /q/sub"]);
    t.scan_ok("/q/sub", 3, &[("c", socket(3))]);
    t.appeared(2, "d");
    t.examine("/q/d", socket(4));
    t.expect(&["found /q/sub/c #3", "examine /q/d", "found /q/d #4"]);

    t.remove("/q");
    t.expect(&[
        "lost /q/b",
        "lost /q/d",
        "lost /q/sub/c",
        "unwatch 2",
        "unwatch 3",
    ]);
    t.expect_rest();
    t.remove("/q");
    t.remove("/p/sub");
    t.expect_silence();
    t.appeared(1, "e");
    t.expect(&["examine /p/e"]);
}

#[test]
fn late_events_and_answers_of_a_removed_root_change_nothing() {
    let mut t = Timeline::scanned(&[]);
    t.add("/q", 2, &[("a", socket(1)), ("sub", EntryKind::Directory)]);
    t.expect(&["found /q/a #1", "scan /q/sub"]);
    t.remove("/q");
    t.expect(&["lost /q/a", "unwatch 2"]);

    t.appeared(2, "b");
    t.dir_appeared(2, "dir");
    t.vanished(2, "a");
    t.event(Event::Moved { watch: WatchId(2) });
    t.event(Event::Unwatched { watch: WatchId(2) });
    t.examine("/q/b", socket(2));
    t.examine("/q/b", EntryKind::Unknown);
    t.examine("/q/dir", EntryKind::Directory);
    t.examine_gone("/q/a");
    t.list("/q", listing(&[("b", socket(2))]));
    t.input(Input::Unlisted {
        dir: Path::new("/q").into(),
    });
    t.input(Input::Doubted {
        path: Path::new("/q/a").into(),
    });
    t.input(Input::Remounted { dir: "/q".into() });
    t.expect_silence();
    // What the shell has opened for the watch meanwhile is released.
    t.scan_ok("/q/sub", 3, &[("b", socket(2))]);
    t.expect(&["unwatch 3"]);
    t.list("/q", piece(&[("b", socket(2))]));
    t.expect(&["close /q"]);
    t.expect_rest();
}

#[test]
fn what_is_pending_for_a_root_is_dropped_when_the_root_is_removed() {
    let mut t = Timeline::scanned(&[]);
    t.add("/q", 2, &[("a", socket(1)), ("sub", EntryKind::Directory)]);
    t.expect(&["found /q/a #1", "scan /q/sub"]);
    t.scan("/q/sub", Ok(WatchId(3)), Ok(piece(&[])));
    t.expect(&["list /q/sub"]);
    // Pauses of each kind: a name, a directory and a doubted path.
    for _ in 0..2 {
        t.vanished(2, "a");
        t.event(Event::Moved { watch: WatchId(2) });
        t.input(Input::Doubted {
            path: Path::new("/q/a").into(),
        });
        t.examine("/q/a", socket(1));
    }
    // A problem that is tried again, found sockets, and a round.
    t.scan(
        "/q",
        not_watched(),
        Ok(listing(&[("b", socket(2)), ("c", socket(3))])),
    );
    t.event(Event::Overflowed);
    t.remove("/q");
    t.expect(&[
        "scan root /p",
        "close /q/sub",
        "lost /q/a",
        "lost /q/b",
        "lost /q/c",
        "unwatch 2",
        "unwatch 3",
    ]);
    t.scan_ok("/p", 1, &[]);
    t.expect_rest();
    t.watch.handle_timeout(t.now + config::WATCH_RETRY);
    t.expect_silence();
    // Its directories are scanned at once when it is added again.
    t.add("/q", 4, &[("sub", EntryKind::Directory)]);
    t.expect(&["scan /q/sub"]);
}

#[test]
fn the_listings_of_a_removed_root_make_room_for_those_of_others() {
    let mut t = Timeline::scanned(&[]);
    let names: Vec<String> = (0..config::MAX_OPEN_LISTINGS)
        .map(|n| n.to_string())
        .collect();
    let dirs: Vec<_> = names
        .iter()
        .map(|it| (&**it, EntryKind::Directory))
        .collect();
    t.add("/q", 2, &dirs);
    while t.watch.poll_output().is_some() {}
    for (name, watch) in names.iter().zip(3..) {
        t.scan(&format!("/q/{name}"), Ok(WatchId(watch)), Ok(piece(&[])));
    }
    let large = t.try_add("/large", Ok(WatchId(9)), Ok(piece(&[])));
    assert_eq!(large, Ok(()));
    t.expect(&[
        "close /large",
        "list /q/0",
        "list /q/1",
        "list /q/2",
        "list /q/3",
    ]);
    t.remove("/q");
    t.expect(&[
        "close /q/0",
        "scan root /large",
        "close /q/1",
        "close /q/2",
        "close /q/3",
        "unwatch 2",
        "unwatch 3",
        "unwatch 4",
        "unwatch 5",
        "unwatch 6",
    ]);
}

#[test]
fn a_root_that_is_added_again_at_once_keeps_its_watch_and_later_it_gets_another() {
    let mut t = Timeline::scanned(&[]);
    t.add("/q", 2, &[("a", socket(1))]);
    t.expect(&["found /q/a #1"]);
    t.remove("/q");
    t.add("/q", 2, &[("a", socket(1))]);
    t.expect(&["lost /q/a", "found /q/a #1"]);
    t.appeared(2, "b");
    t.expect(&["examine /q/b"]);

    t.remove("/q");
    t.expect(&["lost /q/a", "unwatch 2"]);
    t.add("/q", 3, &[("a", socket(1))]);
    t.event(Event::Unwatched { watch: WatchId(2) });
    t.appeared(2, "late");
    t.expect(&["found /q/a #1"]);
    t.appeared(3, "b");
    t.expect(&["examine /q/b"]);
    t.expect_rest();
}

#[test]
fn a_root_with_a_problem_that_prevents_a_start_is_not_added() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.scan_ok("/p/sub", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/sub", "found /p/sub/a #1"]);
    let denied = || Problem::NotRead(Cause::Denied);
    for problem in [Problem::Missing, Problem::NotADirectory, denied()] {
        let added = t.try_add("/q", Err(problem.clone()), Err(problem.clone()));
        assert_eq!(added, Err(problem));
    }
    t.expect_silence();
    assert_eq!(
        t.try_add("/q", Ok(WatchId(3)), Err(denied())),
        Err(denied())
    );
    t.expect(&["unwatch 3"]);
    // A link leads to what is watched already: its watch stays.
    let same = |dir: &str| Err(Problem::SameAs(Path::new(dir).into()));
    assert_eq!(t.try_add("/q", Ok(WatchId(1)), Ok(piece(&[]))), same("/p"));
    assert_eq!(
        t.try_add("/q/sub", Ok(WatchId(2)), Ok(listing(&[]))),
        same("/p/sub")
    );
    t.expect(&["close /q"]);
    t.appeared(2, "b");
    t.expect(&["examine /p/sub/b"]);
    // It can be scanned at intervals.
    let added = t.try_add("/r", not_watched(), Ok(listing(&[("a", socket(2))])));
    assert_eq!(added, Ok(()));
    let trouble = format!("/r: {}", not_watched().unwrap_err());
    t.expect(&["found /r/a #2", &trouble]);
    t.tick();
    t.expect(&["create and scan /r"]);
}

#[test]
fn a_known_directory_becomes_a_root_and_stays_one_when_the_outer_root_is_removed() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory), ("a", socket(1))]);
    t.scan_ok(
        "/p/sub",
        2,
        &[("deep", EntryKind::Directory), ("b", socket(2))],
    );
    t.scan_ok("/p/sub/deep", 3, &[("c", socket(3))]);
    while t.watch.poll_output().is_some() {}
    t.later();
    t.event(Event::Moved { watch: WatchId(2) });
    t.add(
        "/p/sub",
        2,
        &[("deep", EntryKind::Directory), ("b", socket(2))],
    );
    t.expect(&["scan /p/sub/deep"]);
    t.scan_ok("/p/sub/deep", 3, &[("c", socket(3))]);
    t.tick();
    t.expect(&["scan root /p/sub"]);
    t.scan_ok(
        "/p/sub",
        2,
        &[("deep", EntryKind::Directory), ("b", socket(2))],
    );
    t.later();
    t.event(Event::Moved { watch: WatchId(1) });
    t.scan_ok("/p", 1, &[("sub", EntryKind::Directory), ("a", socket(1))]);
    t.expect(&["scan root /p"]);

    t.remove("/p");
    t.expect(&["lost /p/a", "unwatch 1"]);
    t.appeared(2, "d");
    t.appeared(3, "e");
    t.expect(&["examine /p/sub/d", "examine /p/sub/deep/e"]);
    t.remove("/p/sub");
    t.expect(&[
        "lost /p/sub/b",
        "lost /p/sub/deep/c",
        "unwatch 2",
        "unwatch 3",
    ]);
    t.expect_rest();
}

#[test]
fn a_root_inside_another_one_is_followed_as_part_of_that_one_when_it_is_removed() {
    let mut t = Timeline::on(&["/p/sub", "/p"]);
    t.scan_ok(
        "/p/sub",
        2,
        &[("deep", EntryKind::Directory), ("a", socket(1))],
    );
    t.scan_ok("/p/sub/deep", 3, &[("b", socket(2))]);
    t.scan_ok("/p", 1, &[("sub", EntryKind::Directory)]);
    while t.watch.poll_output().is_some() {}
    t.later();
    t.event(Event::Moved { watch: WatchId(2) });
    t.remove("/p/sub");
    t.expect(&["scan /p/sub/deep"]);
    t.scan_ok("/p/sub/deep", 3, &[("b", socket(2))]);
    t.tick();
    t.expect(&["scan /p/sub"]);
    // It is not a root any more: it goes with its name, and a link in its place is not followed.
    t.scan_missing("/p/sub");
    t.expect(&[
        "lost /p/sub/a",
        "lost /p/sub/deep/b",
        "unwatch 2",
        "unwatch 3",
    ]);
    t.expect_rest();

    t.add("/p/.hidden", 4, &[("a", socket(1))]);
    t.expect(&["found /p/.hidden/a #1"]);
    t.remove("/p/.hidden");
    t.expect(&["lost /p/.hidden/a", "unwatch 4"]);
}

#[test]
fn a_removed_root_takes_along_neither_those_inside_it_nor_what_is_below_these() {
    let mut t = Timeline::on(&["/p", "/p/a", "/p/a/b"]);
    t.scan_ok("/p", 1, &[("a", EntryKind::Directory), ("s", socket(1))]);
    t.scan_ok(
        "/p/a",
        2,
        &[("b", EntryKind::Directory), ("z", EntryKind::Directory)],
    );
    t.scan_ok("/p/a/b", 3, &[("s", socket(2))]);
    t.scan_ok("/p/a/z", 4, &[("s", socket(3))]);
    while t.watch.poll_output().is_some() {}
    t.remove("/p");
    t.expect(&["lost /p/s", "unwatch 1"]);
    t.later();
    t.remove("/p/a/b");
    t.expect(&["scan /p/a/b"]);
    t.scan_ok("/p/a/b", 3, &[("s", socket(2))]);
    t.remove("/p/a");
    t.expect(&[
        "lost /p/a/b/s",
        "lost /p/a/z/s",
        "unwatch 2",
        "unwatch 3",
        "unwatch 4",
    ]);
}

#[test]
fn a_root_that_is_moved_into_another_one_is_followed_there_once_its_own_path_is_gone() {
    let mut t = Timeline::on(&["/p", "/q"]);
    t.scan_ok("/p", 1, &[]);
    t.scan_ok("/q", 2, &[("a", socket(1))]);
    while t.watch.poll_output().is_some() {}
    t.later();
    t.dir_appeared(1, "q");
    t.scan_ok("/p/q", 2, &[("a", socket(1))]);
    t.expect(&[
        "scan /p/q",
        "scan root /q",
        "/p/q: it is already watched as /q",
    ]);
    t.later();
    t.scan_missing("/q");
    t.expect(&[
        "lost /q/a",
        "unwatch 2",
        "scan /p/q",
        "/q: it does not exist",
    ]);
    t.scan_ok("/p/q", 3, &[("a", socket(1))]);
    t.expect(&["found /p/q/a #1", "/p/q: recovered"]);
}

#[test]
fn an_expected_socket_goes_with_the_only_root_that_leads_to_it() {
    let mut t = Timeline::on(&["/p", "/p/sub", "/q"]);
    let expected = ["/p/a", "/p/sub/b", "/p/.hidden/c", "/q/d", "/later/e"];
    let expected = expected.map(|path| Path::new(path).into());
    t.watch.expect(expected.to_vec());
    t.expect(&[
        "create and scan /p",
        "create and scan /p/sub",
        "create and scan /q",
        "lost /later/e",
        "lost /p/.hidden/c",
    ]);
    t.remove("/q");
    t.expect(&["lost /q/d"]);
    t.remove("/p");
    t.expect(&["lost /p/a"]);
    t.add("/later", 4, &[("e", socket(5))]);
    t.expect(&["found /later/e #5"]);
    t.scan_ok("/p/sub", 2, &[("b", socket(2))]);
    t.expect(&["found /p/sub/b #2"]);
}

#[test]
fn an_expected_socket_below_a_link_waits_for_the_root_that_leads_through_the_link() {
    let mut t = Timeline::on(&["/p", "/p/link", "/p/way/inner"]);
    let expected = ["/p/a", "/p/link/sub/b", "/p/way/c", "/p/way/inner/sub/d"];
    t.watch
        .expect(expected.map(|path| Path::new(path).into()).to_vec());
    while t.watch.poll_output().is_some() {}
    t.scan_ok("/p", 1, &[]);
    t.expect(&["examine /p/a", "examine /p/way"]);
    for not_a_socket in ["/p/a", "/p/link", "/p/way"] {
        t.examine(not_a_socket, EntryKind::Other);
    }
    t.expect(&["lost /p/a", "lost /p/way/c"]);
    t.scan_ok("/p/link", 2, &[("sub", EntryKind::Directory)]);
    t.scan_ok("/p/link/sub", 3, &[("b", socket(1))]);
    t.expect(&["scan /p/link/sub", "found /p/link/sub/b #1"]);
    t.scan_ok("/p/way/inner", 4, &[]);
    t.examine_gone("/p/way/inner/sub");
    t.expect(&["examine /p/way/inner/sub", "lost /p/way/inner/sub/d"]);
}

#[test]
fn a_socket_in_the_place_of_an_inner_root_is_lost_when_a_directory_is_there_again() {
    let mut t = Timeline::on(&["/p", "/p/q"]);
    t.expect(&["create and scan /p", "create and scan /p/q"]);
    t.scan_ok("/p", 1, &[("q", socket(1))]);
    t.expect(&["found /p/q #1"]);
    t.scan_ok("/p/q", 2, &[]);
    t.examine("/p/q", EntryKind::Directory);
    t.expect(&["lost /p/q", "scan root /p/q"]);
}

//! Roots that are added and removed: the sockets that stay, those that are lost, and late answers.

mod model;

use super::*;

impl Timeline {
    /// Adds a root that can be watched and listed.
    fn add_root(&mut self, dir: &str, watch: i32, entries: &[(&str, EntryKind)]) {
        let added = self.try_add_root(dir, Ok(WatchId(watch)), Ok(listing(entries)));
        assert_eq!(added, Ok(()));
    }

    fn try_add_root(
        &mut self,
        dir: &str,
        watch: Result<WatchId, Problem>,
        entries: Result<Listing, Problem>,
    ) -> Result<(), Problem> {
        let dir = Path::new(dir).into();
        self.watch.add_root(&dir, watch, entries, self.now)
    }

    fn remove_root(&mut self, dir: &str) {
        self.watch.remove_root(Path::new(dir), self.now);
    }
}

#[test]
fn adding_and_removing_a_root_does_not_affect_others() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.add_root("/q", 2, &[("b", socket(2)), ("sub", EntryKind::Directory)]);
    t.expect(&["found /q/b #2", "scan /q/sub"]);
    t.answer_scan_ok("/q/sub", 3, &[("c", socket(3))]);
    t.report_appeared(2, "d");
    t.answer_examination("/q/d", socket(4));
    t.expect(&["found /q/sub/c #3", "examine /q/d", "found /q/d #4"]);

    t.remove_root("/q");
    t.expect(&[
        "lost /q/b",
        "lost /q/d",
        "lost /q/sub/c",
        "unwatch 2",
        "unwatch 3",
    ]);
    t.expect_idle();
    t.remove_root("/q");
    t.remove_root("/p/sub");
    t.expect_silence();
    t.report_appeared(1, "e");
    t.expect(&["examine /p/e"]);
}

#[test]
fn late_events_and_answers_of_a_removed_root_change_nothing() {
    let mut t = Timeline::scanned(&[]);
    t.add_root("/q", 2, &[("a", socket(1)), ("sub", EntryKind::Directory)]);
    t.expect(&["found /q/a #1", "scan /q/sub"]);
    t.remove_root("/q");
    t.expect(&["lost /q/a", "unwatch 2"]);

    t.report_appeared(2, "b");
    t.report_dir_appeared(2, "dir");
    t.report_vanished(2, "a");
    t.handle_event(Event::Moved { watch: WatchId(2) });
    t.handle_event(Event::Unwatched { watch: WatchId(2) });
    t.answer_examination("/q/b", socket(2));
    t.answer_examination("/q/b", EntryKind::Unknown);
    t.answer_examination("/q/dir", EntryKind::Directory);
    t.answer_examination_gone("/q/a");
    t.handle_input(Input::Doubted {
        path: Path::new("/q/a").into(),
    });
    t.handle_input(Input::Remounted { dir: "/q".into() });
    t.expect_silence();
    // The watch that the shell has added in the meantime is removed.
    t.answer_scan_ok("/q/sub", 3, &[("b", socket(2))]);
    t.expect(&["unwatch 3"]);
    t.expect_idle();
}

#[test]
fn pending_work_for_a_removed_root_is_dropped() {
    let mut t = Timeline::scanned(&[]);
    t.add_root("/q", 2, &[("a", socket(1)), ("sub", EntryKind::Directory)]);
    t.expect(&["found /q/a #1", "scan /q/sub"]);
    t.answer_scan_ok("/q/sub", 3, &[]);
    // Pauses of each kind: of a name, of a directory and of a path in doubt.
    for _ in 0..2 {
        t.report_vanished(2, "a");
        t.handle_event(Event::Moved { watch: WatchId(2) });
        t.handle_input(Input::Doubted {
            path: Path::new("/q/a").into(),
        });
        t.answer_examination("/q/a", socket(1));
    }
    // A problem whose directory is scanned again, found sockets, and a round.
    t.answer_scan(
        "/q",
        not_watched(),
        Ok(listing(&[("b", socket(2)), ("c", socket(3))])),
    );
    t.handle_event(Event::Overflowed);
    t.remove_root("/q");
    t.expect(&[
        "found /q/b #2",
        "found /q/c #3",
        "scan root /p",
        "lost /q/a",
        "lost /q/b",
        "lost /q/c",
        "unwatch 2",
        "unwatch 3",
    ]);
    t.answer_scan_ok("/p", 1, &[]);
    t.watch.handle_timeout(t.now + config::SYSTEM_RETRY);
    t.expect_silence();
    t.expect_idle();
    // The directories are scanned when the root is added again.
    t.skip_scan_pause();
    t.add_root("/q", 4, &[("sub", EntryKind::Directory)]);
    t.expect(&["scan /q/sub"]);
}

#[test]
fn a_root_that_is_added_again_at_once_keeps_its_watch() {
    let mut t = Timeline::scanned(&[]);
    t.add_root("/q", 2, &[("a", socket(1))]);
    t.expect(&["found /q/a #1"]);
    t.remove_root("/q");
    t.add_root("/q", 2, &[("a", socket(1))]);
    t.expect(&["lost /q/a", "found /q/a #1"]);
    t.report_appeared(2, "b");
    t.expect(&["examine /q/b"]);

    t.remove_root("/q");
    t.expect(&["lost /q/a", "unwatch 2"]);
    t.add_root("/q", 3, &[("a", socket(1))]);
    t.handle_event(Event::Unwatched { watch: WatchId(2) });
    t.report_appeared(2, "late");
    t.expect(&["found /q/a #1"]);
    t.report_appeared(3, "b");
    t.expect(&["examine /q/b"]);
    t.expect_idle();
}

#[test]
fn a_root_with_a_problem_that_prevents_a_start_is_not_added() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.answer_scan_ok("/p/sub", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/sub", "found /p/sub/a #1"]);
    let denied = || Problem::NotRead(Cause::Denied);
    for problem in [Problem::Missing, Problem::NotADirectory, denied()] {
        let added = t.try_add_root("/q", Err(problem.clone()), Err(problem.clone()));
        assert_eq!(added, Err(problem));
    }
    t.expect_silence();
    assert_eq!(
        t.try_add_root("/q", Ok(WatchId(3)), Err(denied())),
        Err(denied())
    );
    t.expect(&["unwatch 3"]);
    // A root that can only be scanned at intervals is added.
    let added = t.try_add_root("/r", not_watched(), Ok(listing(&[("a", socket(2))])));
    assert_eq!(added, Ok(()));
    let trouble = format!("/r: {}", not_watched().unwrap_err());
    t.expect(&["found /r/a #2", &trouble]);
    t.tick();
    t.expect(&["create and scan /r"]);
}

#[test]
fn a_root_that_is_moved_into_another_one_is_watched_there() {
    let mut t = Timeline::on(&["/p", "/q"]);
    t.answer_scan_ok("/p", 1, &[]);
    t.answer_scan_ok("/q", 2, &[("a", socket(1))]);
    while t.watch.poll_output().is_some() {}
    t.skip_scan_pause();
    t.report_dir_appeared(1, "q");
    t.answer_scan_ok("/p/q", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/q", "/p/q: it is already watched as /q"]);
    t.answer_scan_missing("/q");
    t.expect(&["lost /q/a", "unwatch 2", "/q: it does not exist"]);
    t.tick();
    t.expect(&["scan /p/q", "create and scan /q"]);
    t.answer_scan_ok("/p/q", 3, &[("a", socket(1))]);
    t.expect(&["found /p/q/a #1", "/p/q: recovered"]);
}

#[test]
fn an_expected_socket_is_lost_with_the_only_root_that_covers_it() {
    let mut t = Timeline::on(&["/p", "/q"]);
    let expected = ["/p/a", "/p/sub/b", "/p/.hidden/c", "/q/d", "/later/e"];
    let expected = expected.map(|path| Path::new(path).into());
    t.watch.expect(expected.to_vec());
    t.expect(&[
        "create and scan /p",
        "create and scan /q",
        "lost /later/e",
        "lost /p/.hidden/c",
    ]);
    t.remove_root("/q");
    t.expect(&["lost /q/d"]);
    t.remove_root("/p");
    t.expect(&["lost /p/a", "lost /p/sub/b"]);
    t.add_root("/later", 4, &[("e", socket(5))]);
    t.expect(&["found /later/e #5"]);
}

//! The watch, told as timelines: what happened, and what it wants done, silence included.

use super::*;

/// A watch, and a world that answers nothing by itself.
struct Timeline {
    watch: Watch,
    now: Time,
}

impl Timeline {
    /// A new watch on `/p`, whose first request is still open.
    fn new() -> Self {
        Self::on(&["/p"])
    }

    fn on(roots: &[&str]) -> Self {
        Self {
            watch: Watch::new(roots.iter().map(PathBuf::from)),
            now: Time::ZERO,
        }
    }

    /// A watch on `/p` that was scanned with watch 1 and held `entries`.
    fn scanned(entries: &[(&str, Kind)]) -> Self {
        let mut timeline = Self::new();
        timeline.expect(&["create and scan /p"]);
        timeline.scan("/p", Ok(WatchId(1)), Ok(listing(entries)));
        timeline
    }

    fn scan(
        &mut self,
        dir: &str,
        watch: Result<WatchId, Problem>,
        entries: Result<Listing, Problem>,
    ) {
        self.input(Input::Scanned {
            dir: Path::new(dir).into(),
            watch,
            entries,
        });
    }

    /// The usual answer: watched and listed.
    fn scan_ok(&mut self, dir: &str, watch: i32, entries: &[(&str, Kind)]) {
        self.scan(dir, Ok(WatchId(watch)), Ok(listing(entries)));
    }

    fn scan_missing(&mut self, dir: &str) {
        self.scan(dir, Err(Problem::Missing), Err(Problem::Missing));
    }

    fn look(&mut self, path: &str, kind: Kind) {
        self.input(Input::Looked {
            path: Path::new(path).into(),
            kind,
        });
    }

    fn appeared(&mut self, watch: i32, name: &str) {
        self.event(Event::Appeared {
            watch: WatchId(watch),
            name: name.into(),
            is_directory: false,
        });
    }

    fn dir_appeared(&mut self, watch: i32, name: &str) {
        self.event(Event::Appeared {
            watch: WatchId(watch),
            name: name.into(),
            is_directory: true,
        });
    }

    fn vanished(&mut self, watch: i32, name: &str) {
        self.event(Event::Vanished {
            watch: WatchId(watch),
            name: name.into(),
        });
    }

    fn event(&mut self, event: Event) {
        self.input(Input::Event(event));
    }

    fn input(&mut self, input: Input) {
        self.watch.handle_input(input, self.now);
    }

    /// Lets time pass to the next deadline and handles it.
    fn tick(&mut self) {
        self.now = self.watch.poll_timeout().expect("a deadline is armed");
        self.watch.handle_timeout(self.now);
    }

    /// Compares all that the watch wants done by now.
    #[track_caller]
    fn expect(&mut self, outputs: &[&str]) {
        let mut seen = Vec::new();
        while let Some(output) = self.watch.poll_output() {
            seen.push(describe(&output));
        }
        assert_eq!(seen, outputs);
    }

    #[track_caller]
    fn expect_silence(&mut self) {
        self.expect(&[]);
    }

    /// Nothing is left to do until everything is scanned again.
    #[track_caller]
    fn expect_rest(&self) {
        let next = self.watch.poll_timeout().expect("the resync is armed");
        assert!(next > self.now + config::WATCH_RETRY, "{next:?}");
    }
}

fn describe(output: &Output) -> String {
    match output {
        Output::Scan { dir, place } => {
            let how = match place {
                Place::MissingRoot => "create and scan",
                Place::Root => "scan root",
                Place::Below => "scan",
            };
            format!("{how} {}", dir.display())
        }
        Output::Look { path } => format!("look at {}", path.display()),
        Output::Unwatch { watch } => format!("unwatch {}", watch.0),
        Output::Found { path, identity } => format!("found {} #{}", path.display(), identity.inode),
        Output::Lost { path } => format!("lost {}", path.display()),
        Output::Report(Report::Trouble { dir, problem }) => format!("{}: {problem}", dir.display()),
        Output::Report(Report::Recovered { dir }) => format!("{}: recovered", dir.display()),
    }
}

/// The socket with that inode number.
fn socket(inode: u64) -> Kind {
    Kind::Socket(Identity {
        device: 1,
        inode,
        born: (0, 0),
    })
}

fn listing(entries: &[(&str, Kind)]) -> Listing {
    let entry = |&(name, kind): &(&str, Kind)| Entry {
        name: name.into(),
        kind,
    };
    Listing {
        entries: entries.iter().map(entry).collect(),
        complete: true,
    }
}

fn not_watched() -> Result<WatchId, Problem> {
    Err(Problem::NotWatched(Obstacle::WatchesUsedUp))
}

#[test]
fn sockets_that_were_there_before_the_start_are_found() {
    let mut t = Timeline::scanned(&[
        ("a.sock", socket(1)),
        ("b", socket(2)),
        ("note.txt", Kind::Other),
    ]);
    t.expect(&["found /p/a.sock #1", "found /p/b #2"]);
    t.expect_rest();
}

#[test]
fn a_socket_that_appears_is_looked_at_and_found_and_is_lost_when_it_vanishes() {
    let mut t = Timeline::scanned(&[]);
    t.appeared(1, "a");
    t.expect(&["look at /p/a"]);
    t.look("/p/a", socket(1));
    t.expect(&["found /p/a #1"]);
    t.vanished(1, "a");
    t.expect(&["lost /p/a"]);
    t.vanished(1, "a");
    t.expect_silence();
}

#[test]
fn the_same_identity_seen_twice_changes_nothing() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.appeared(1, "a");
    t.expect(&["look at /p/a"]);
    t.look("/p/a", socket(1));
    t.expect_silence();
}

#[test]
fn another_identity_under_a_known_path_is_found_again() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.appeared(1, "a"); // A rename on top of it tells of no removal.
    t.look("/p/a", socket(2));
    t.expect(&["look at /p/a", "found /p/a #2"]);
}

#[test]
fn what_is_no_socket_is_ignored_and_takes_the_place_of_one() {
    let mut t = Timeline::scanned(&[("file", Kind::Other), ("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.look("/p/other-file", Kind::Other);
    t.expect_silence();
    t.look("/p/a", Kind::Other);
    t.expect(&["lost /p/a"]);
    t.look("/p/file", socket(2));
    t.expect(&["found /p/file #2"]);
    t.look("/p/file", Kind::Directory);
    t.expect(&["lost /p/file", "scan /p/file"]);
}

#[test]
fn names_with_a_dot_are_ignored_at_the_start_and_later() {
    let mut t = Timeline::scanned(&[(".hidden", socket(1)), (".dir", Kind::Directory)]);
    t.appeared(1, ".later");
    t.dir_appeared(1, ".later-dir");
    t.vanished(1, ".hidden");
    t.expect_silence();
}

#[test]
fn a_directory_at_any_depth_gets_its_own_watch() {
    let mut t = Timeline::scanned(&[("sub", Kind::Directory)]);
    t.expect(&["scan /p/sub"]);
    t.scan_ok("/p/sub", 2, &[("deeper", Kind::Directory)]);
    t.expect(&["scan /p/sub/deeper"]);
    t.scan_ok("/p/sub/deeper", 3, &[]);
    t.appeared(3, "a");
    t.look("/p/sub/deeper/a", socket(1));
    t.expect(&["look at /p/sub/deeper/a", "found /p/sub/deeper/a #1"]);
    t.dir_appeared(2, "new");
    t.expect(&["scan /p/sub/new"]);
}

#[test]
fn a_directory_that_goes_takes_its_sockets_and_watches_along() {
    let mut t = Timeline::scanned(&[("sub", Kind::Directory)]);
    t.scan_ok(
        "/p/sub",
        2,
        &[("a", socket(1)), ("deeper", Kind::Directory)],
    );
    t.scan_ok("/p/sub/deeper", 3, &[("b", socket(2))]);
    t.expect(&[
        "scan /p/sub",
        "found /p/sub/a #1",
        "scan /p/sub/deeper",
        "found /p/sub/deeper/b #2",
    ]);
    t.vanished(1, "sub");
    t.expect(&[
        "lost /p/sub/a",
        "lost /p/sub/deeper/b",
        "unwatch 2",
        "unwatch 3",
    ]);
    t.event(Event::Moved { watch: WatchId(2) });
    t.event(Event::Unwatched { watch: WatchId(2) });
    t.appeared(3, "late");
    t.expect_silence();
}

#[test]
fn a_directory_moved_within_the_tree_takes_its_sockets_to_the_new_path() {
    let mut t = Timeline::scanned(&[("old", Kind::Directory)]);
    t.scan_ok("/p/old", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/old", "found /p/old/a #1"]);
    t.vanished(1, "old");
    t.dir_appeared(1, "new");
    t.event(Event::Moved { watch: WatchId(2) });
    t.expect(&["lost /p/old/a", "unwatch 2", "scan /p/new"]);
    t.scan_ok("/p/new", 3, &[("a", socket(1))]);
    t.expect(&["found /p/new/a #1"]);
}

#[test]
fn a_directory_seen_at_its_new_path_before_its_move_is_reported_keeps_its_watch() {
    let mut t = Timeline::scanned(&[("old", Kind::Directory)]);
    t.scan_ok(
        "/p/old",
        2,
        &[("a", socket(1)), ("deeper", Kind::Directory)],
    );
    t.scan_ok("/p/old/deeper", 3, &[]);
    t.expect(&["scan /p/old", "found /p/old/a #1", "scan /p/old/deeper"]);

    t.event(Event::Overflowed);
    t.expect(&["scan root /p", "scan /p/old", "scan /p/old/deeper"]);
    t.scan_ok(
        "/p",
        1,
        &[("old", Kind::Directory), ("new", Kind::Directory)],
    );
    t.expect(&["scan /p/new"]);
    t.scan_ok(
        "/p/new",
        2,
        &[("a", socket(1)), ("deeper", Kind::Directory)],
    );
    t.expect(&[
        "lost /p/old/a",
        "unwatch 3",
        "found /p/new/a #1",
        "scan /p/new/deeper",
    ]);

    t.vanished(1, "old");
    t.expect_silence();
    t.event(Event::Moved { watch: WatchId(2) });
    t.expect(&["scan /p/new"]);
    t.scan_ok(
        "/p/new",
        2,
        &[("a", socket(1)), ("deeper", Kind::Directory)],
    );
    t.expect_silence();
}

#[test]
fn after_an_overflow_everything_is_scanned_and_compared() {
    let mut t = Timeline::scanned(&[
        ("stays", socket(1)),
        ("goes", socket(2)),
        ("changes", socket(3)),
        ("sub", Kind::Directory),
    ]);
    t.scan_ok("/p/sub", 2, &[("below", socket(4))]);
    while t.watch.poll_output().is_some() {}

    t.event(Event::Overflowed);
    t.expect(&["scan root /p", "scan /p/sub"]);
    t.scan_ok(
        "/p",
        1,
        &[
            ("stays", socket(1)),
            ("changes", socket(5)),
            ("comes", socket(6)),
            ("sub", Kind::Directory),
        ],
    );
    t.expect(&["lost /p/goes", "found /p/changes #5", "found /p/comes #6"]);
    t.scan_ok("/p/sub", 2, &[]);
    t.expect(&["lost /p/sub/below"]);
}

#[test]
fn a_directory_that_was_replaced_while_events_were_lost_gets_a_new_watch() {
    let mut t = Timeline::scanned(&[("sub", Kind::Directory)]);
    t.scan_ok("/p/sub", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/sub", "found /p/sub/a #1"]);
    t.scan_ok("/p/sub", 3, &[("a", socket(2))]);
    t.expect(&["unwatch 2", "found /p/sub/a #2"]);
    t.event(Event::Unwatched { watch: WatchId(2) });
    t.expect_silence();
}

#[test]
fn a_lost_root_is_reported_created_again_on_the_tick_and_scanned() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.event(Event::Unwatched { watch: WatchId(1) });
    t.expect(&["scan root /p"]);
    t.scan_missing("/p");
    t.expect(&["lost /p/a", "/p: it is not there"]);

    t.tick();
    assert_eq!(t.now, Time::ZERO + config::WATCH_RETRY);
    t.expect(&["create and scan /p"]);
    t.scan_ok("/p", 2, &[("a", socket(2))]);
    t.expect(&["found /p/a #2", "/p: recovered"]);
    t.expect_rest();
}

#[test]
fn a_root_that_was_renamed_away_is_no_longer_watched_under_its_new_name() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.event(Event::Moved { watch: WatchId(1) });
    t.expect(&["scan root /p"]);
    t.scan_missing("/p");
    t.expect(&["lost /p/a", "unwatch 1", "/p: it is not there"]);
}

#[test]
fn a_root_that_cannot_be_created_again_is_reported_once_and_tried_on_every_tick() {
    let mut t = Timeline::scanned(&[]);
    t.event(Event::Unwatched { watch: WatchId(1) });
    t.scan_missing("/p");
    t.expect(&["scan root /p", "/p: it is not there"]);
    let denied = || Problem::NotCreated(Obstacle::Denied);
    t.tick();
    t.scan("/p", Err(denied()), Err(denied()));
    t.expect(&[
        "create and scan /p",
        "/p: it cannot be created: permission denied",
    ]);
    for _ in 0..3 {
        t.tick();
        t.scan("/p", Err(denied()), Err(denied()));
        t.expect(&["create and scan /p"]);
    }
}

#[test]
fn a_directory_that_cannot_be_watched_is_reported_and_scanned_on_the_tick_and_the_rest_goes_on() {
    let mut t = Timeline::scanned(&[("bad", Kind::Directory), ("good", Kind::Directory)]);
    t.expect(&["scan /p/bad", "scan /p/good"]);
    t.scan("/p/bad", not_watched(), Ok(listing(&[("a", socket(1))])));
    t.expect(&[
        "found /p/bad/a #1",
        "/p/bad: it cannot be watched and is scanned every 1s: no inotify watches are left",
    ]);
    t.scan_ok("/p/good", 2, &[("b", socket(2))]);
    t.expect(&["found /p/good/b #2"]);

    t.tick();
    t.expect(&["scan /p/bad"]);
    t.scan("/p/bad", not_watched(), Ok(listing(&[("c", socket(3))])));
    t.expect(&["lost /p/bad/a", "found /p/bad/c #3"]);
    t.tick();
    t.scan_ok("/p/bad", 3, &[("c", socket(3))]);
    t.expect(&["scan /p/bad", "/p/bad: recovered"]);
    t.expect_rest();
}

#[test]
fn without_inotify_everything_is_scanned_on_the_tick_and_that_is_said_once() {
    let no_inotify = || Err(Problem::NotWatched(Obstacle::InstancesUsedUp));
    let root = || Ok(listing(&[("a", socket(1)), ("sub", Kind::Directory)]));
    let mut t = Timeline::new();
    t.scan("/p", no_inotify(), root());
    t.scan("/p/sub", no_inotify(), Ok(listing(&[("b", socket(2))])));
    t.expect(&[
        "create and scan /p",
        "found /p/a #1",
        "scan /p/sub",
        "/p: it cannot be watched and is scanned every 1s: no inotify instances are left",
        "found /p/sub/b #2",
    ]);
    t.tick();
    t.expect(&["create and scan /p", "scan /p/sub"]);
    t.scan("/p", no_inotify(), root());
    t.scan("/p/sub", no_inotify(), Ok(listing(&[("c", socket(3))])));
    t.expect(&["lost /p/sub/b", "found /p/sub/c #3"]);

    t.tick();
    t.scan("/p", Ok(WatchId(1)), root());
    t.scan_ok("/p/sub", 2, &[("c", socket(3))]);
    t.expect(&["create and scan /p", "scan /p/sub", "/p: recovered"]);
    t.expect_rest();
}

#[test]
fn what_nobody_tells_is_found_by_the_resync() {
    let mut t = Timeline::new();
    assert_eq!(t.watch.poll_timeout(), None, "nothing was scanned");
    t.expect(&["create and scan /p"]);
    t.scan_ok("/p", 1, &[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    for (watch, inode) in [(2, 2), (3, 3)] {
        t.tick();
        t.expect(&["scan root /p"]);
        // Another file system was mounted on top.
        t.scan_ok("/p", watch, &[("a", socket(inode))]);
        t.expect(&[
            &format!("unwatch {}", watch - 1),
            &format!("found /p/a #{inode}"),
        ]);
    }
    assert_eq!(t.now, Time::ZERO + 2 * config::RESYNC_INTERVAL);
}

#[test]
fn a_directory_that_cannot_be_read_for_a_while_keeps_its_plugins() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.event(Event::Overflowed);
    t.expect(&["found /p/a #1", "scan root /p"]);
    let unreadable = Err(Problem::NotRead(Obstacle::DescriptorsUsedUp));
    t.scan("/p", Ok(WatchId(1)), unreadable);
    t.expect(&["/p: it cannot be read: no file descriptors are left"]);
    t.tick();
    t.scan_ok("/p", 1, &[("a", socket(1))]);
    t.expect(&["create and scan /p", "/p: recovered"]);
}

#[test]
fn a_file_in_the_place_of_a_root_is_reported_until_it_makes_way() {
    let mut t = Timeline::new();
    t.scan(
        "/p",
        Err(Problem::NotADirectory),
        Err(Problem::NotADirectory),
    );
    t.expect(&["create and scan /p", "/p: it is not a directory"]);
    t.tick();
    t.scan_ok("/p", 1, &[]);
    t.expect(&["create and scan /p", "/p: recovered"]);
}

#[test]
fn a_sub_directory_that_is_gone_when_it_is_scanned_is_forgotten_without_a_word() {
    let mut t = Timeline::scanned(&[("sub", Kind::Directory)]);
    t.scan_missing("/p/sub");
    t.expect(&["scan /p/sub"]);
    t.expect_rest();
    t.dir_appeared(1, "sub");
    t.expect(&["scan /p/sub"]);
}

#[test]
fn an_answer_about_a_directory_that_was_given_up_meanwhile_leaves_no_watch_behind() {
    let mut t = Timeline::scanned(&[("sub", Kind::Directory)]);
    t.vanished(1, "sub");
    t.scan_ok("/p/sub", 2, &[("a", socket(1))]);
    t.look("/p/sub/a", socket(1));
    t.expect(&["scan /p/sub", "unwatch 2"]);
}

#[test]
fn several_roots_are_independent_and_one_inside_another_is_covered_by_it() {
    let mut t = Timeline::on(&["/q", "/p", "/p", "/p/below", "/p/.hidden/root"]);
    t.expect(&[
        "create and scan /p",
        "create and scan /p/.hidden/root",
        "create and scan /q",
    ]);
    t.scan_ok("/p", 1, &[("a", socket(1))]);
    t.scan_missing("/q");
    t.expect(&["found /p/a #1", "/q: it is not there"]);
}

#[test]
fn a_root_beside_another_is_not_covered_by_it_however_it_is_written() {
    let mut t = Timeline::on(&["/p", "/p/../q"]);
    t.expect(&["create and scan /p", "create and scan /p/../q"]);
}

#[test]
fn the_same_directory_under_a_second_path_is_watched_once() {
    let mut t = Timeline::on(&["/p", "/q"]);
    t.scan_ok("/p", 1, &[("a", socket(1))]);
    t.scan_ok("/q", 1, &[("a", socket(1))]);
    t.expect(&[
        "create and scan /p",
        "create and scan /q",
        "found /p/a #1",
        "/q: it is watched as /p already",
    ]);
    t.expect_rest();
}

#[test]
fn a_directory_that_is_mounted_inside_itself_ends_the_descent() {
    let mut t = Timeline::scanned(&[("sub", Kind::Directory)]);
    t.scan_ok("/p/sub", 2, &[("loop", Kind::Directory)]);
    t.scan_ok("/p/sub/loop", 2, &[("loop", Kind::Directory)]);
    t.expect(&[
        "scan /p/sub",
        "scan /p/sub/loop",
        "/p/sub/loop: it is watched as /p/sub already",
    ]);
}

#[test]
fn directories_below_the_depth_limit_are_reported_and_ignored() {
    let mut t = Timeline::scanned(&[("d", Kind::Directory)]);
    let mut dir = String::from("/p");
    for depth in 1..=config::MAX_TREE_DEPTH {
        dir.push_str("/d");
        t.expect(&[&format!("scan {dir}")]);
        t.scan_ok(
            &dir,
            i32::try_from(depth + 1).unwrap(),
            &[("d", Kind::Directory)],
        );
    }
    t.expect(&[&format!(
        "{dir}: it holds directories more than 16 levels deep, which are ignored"
    )]);
    t.expect_rest(); // Waiting would not help.
}

#[test]
fn sockets_above_the_limit_are_reported_and_found_once_there_is_room() {
    let names: Vec<String> = (0..config::MAX_SOCKETS)
        .map(|n| format!("{n:06}"))
        .collect();
    let entries: Vec<(&str, Kind)> = names
        .iter()
        .map(|name| (name.as_str(), socket(1)))
        .collect();
    let mut t = Timeline::scanned(&entries);
    while t.watch.poll_output().is_some() {}

    t.look("/p/more", socket(2));
    t.look("/p/still-more", socket(3));
    t.expect(&["/p: there are more than 16384 plugin sockets; the rest is ignored"]);
    t.vanished(1, "000000");
    t.tick();
    t.expect(&["lost /p/000000", "create and scan /p"]);
    let rest: Vec<_> = entries[1..]
        .iter()
        .copied()
        .chain([("more", socket(2))])
        .collect();
    t.scan_ok("/p", 1, &rest);
    t.expect(&["found /p/more #2", "/p: recovered"]);
}

#[test]
fn names_missing_from_an_incomplete_listing_are_not_taken_for_gone() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    let mut part = listing(&[("b", socket(2))]);
    part.complete = false;
    t.scan("/p", Ok(WatchId(1)), Ok(part));
    t.expect(&[
        "found /p/b #2",
        "/p: it holds more than 65536 names; the rest is ignored",
    ]);
}

#[test]
fn calling_the_timeout_early_is_harmless() {
    let mut t = Timeline::new();
    t.watch.handle_timeout(t.now);
    t.scan_missing("/p");
    t.watch.handle_timeout(t.now);
    t.expect(&["create and scan /p", "/p: it is not there"]);
}

//! Tests of the watch as timelines: inputs, and exactly the outputs that follow them.

mod exchange;
mod limits;
mod model;
mod paths;
mod rescans;
mod restart;
mod roots;
mod scans;
mod trouble;

use super::*;

/// A watch, and a clock. The test provides all answers of the file system.
struct Timeline {
    watch: Watch,
    now: Time,
}

impl Timeline {
    /// Creates a watch on `/p` whose first request is still pending.
    fn new() -> Self {
        Self::on(&["/p"])
    }

    fn on(roots: &[&str]) -> Self {
        Self {
            watch: Watch::new(roots.iter().map(PathBuf::from)),
            now: Time::ZERO,
        }
    }

    /// Creates a watch on `/p` that was scanned with watch 1 and held `entries`.
    fn scanned(entries: &[(&str, EntryKind)]) -> Self {
        let mut timeline = Self::new();
        timeline.expect(&["create and scan /p"]);
        timeline.answer_scan("/p", Ok(WatchId(1)), Ok(listing(entries)));
        timeline
    }

    fn answer_scan(
        &mut self,
        dir: &str,
        watch: Result<WatchId, Problem>,
        entries: Result<Listing, Problem>,
    ) {
        self.handle_input(Input::Scanned {
            dir: Path::new(dir).into(),
            watch,
            entries,
        });
    }

    /// Answers a scan: the directory is watched and listed.
    fn answer_scan_ok(&mut self, dir: &str, watch: i32, entries: &[(&str, EntryKind)]) {
        self.answer_scan(dir, Ok(WatchId(watch)), Ok(listing(entries)));
    }

    fn answer_scan_missing(&mut self, dir: &str) {
        self.answer_scan(dir, Err(Problem::Missing), Err(Problem::Missing));
    }

    fn answer_examination(&mut self, path: &str, kind: EntryKind) {
        self.handle_input(Input::Examined {
            path: Path::new(path).into(),
            kind,
        });
    }

    /// Answers an examination: no socket or directory is at that path.
    fn answer_examination_gone(&mut self, path: &str) {
        self.answer_examination(path, EntryKind::Other);
    }

    fn report_appeared(&mut self, watch: i32, name: &str) {
        self.handle_event(Event::Appeared {
            watch: WatchId(watch),
            name: name.into(),
            is_directory: false,
        });
    }

    fn report_dir_appeared(&mut self, watch: i32, name: &str) {
        self.handle_event(Event::Appeared {
            watch: WatchId(watch),
            name: name.into(),
            is_directory: true,
        });
    }

    fn report_vanished(&mut self, watch: i32, name: &str) {
        self.handle_event(Event::Vanished {
            watch: WatchId(watch),
            name: name.into(),
        });
    }

    fn handle_event(&mut self, event: Event) {
        self.handle_input(Input::Event(event));
    }

    fn handle_input(&mut self, input: Input) {
        self.watch.handle_input(input, self.now);
    }

    /// Advances the time until a directory may be scanned without a pause.
    fn skip_scan_pause(&mut self) {
        self.now += 8 * config::SCAN_PAUSES.first;
    }

    /// Advances the time to the next deadline and handles it.
    fn tick(&mut self) {
        self.now = self.watch.poll_timeout().expect("a deadline is armed");
        self.watch.handle_timeout(self.now);
    }

    /// Checks that exactly these outputs of the watch are pending.
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

    /// Checks that nothing is left to do until the next resync.
    #[track_caller]
    fn expect_idle(&self) {
        let next = self.watch.poll_timeout().expect("the resync is armed");
        assert!(next > self.now + config::SYSTEM_RETRY, "{next:?}");
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
        Output::Examine { path } => format!("examine {}", path.display()),
        Output::Unwatch { watch } => format!("unwatch {}", watch.0),
        Output::Found { path, identity, .. } => {
            format!("found {} #{}", path.display(), identity.inode)
        }
        Output::Lost { path } => format!("lost {}", path.display()),
        Output::Report(Report::Trouble { dir, problem }) => format!("{}: {problem}", dir.display()),
        Output::Report(Report::Recovered { dir }) => format!("{}: recovered", dir.display()),
    }
}

/// Returns a socket with that inode number.
fn socket(inode: u64) -> EntryKind {
    EntryKind::Socket(Identity {
        device: 1,
        inode,
        btime: 0,
    })
}

/// Returns a symbolic link to the socket with that inode number.
fn link(inode: u64) -> EntryKind {
    match socket(inode) {
        EntryKind::Socket(identity) => EntryKind::Link(identity),
        other => other,
    }
}

fn listing(entries: &[(&str, EntryKind)]) -> Listing {
    let entry = |&(name, kind): &(&str, EntryKind)| Entry {
        name: name.into(),
        kind,
    };
    Listing {
        entries: entries.iter().map(entry).collect(),
        is_cut: false,
        unreported: None,
    }
}

fn not_watched() -> Result<WatchId, Problem> {
    Err(Problem::NotWatched(Cause::WatchesUsedUp))
}

#[test]
fn sockets_that_existed_before_the_start_are_found() {
    let mut t = Timeline::scanned(&[
        ("a.sock", socket(1)),
        ("b", socket(2)),
        ("note.txt", EntryKind::Other),
    ]);
    t.expect(&["found /p/a.sock #1", "found /p/b #2"]);
    t.expect_idle();
}

#[test]
fn a_socket_is_found_when_created_and_lost_when_removed() {
    let mut t = Timeline::scanned(&[]);
    t.report_appeared(1, "a");
    t.expect(&["examine /p/a"]);
    t.answer_examination("/p/a", socket(1));
    t.expect(&["found /p/a #1"]);
    t.report_vanished(1, "a");
    t.expect(&["examine /p/a"]);
    t.answer_examination_gone("/p/a");
    t.expect(&["lost /p/a"]);
    t.report_vanished(1, "a");
    t.expect_silence();
}

#[test]
fn the_same_identity_seen_twice_changes_nothing() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.report_appeared(1, "a");
    t.expect(&["examine /p/a"]);
    t.answer_examination("/p/a", socket(1));
    t.expect_silence();
}

#[test]
fn another_identity_at_a_known_path_is_found_again() {
    let mut t = Timeline::scanned(&[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    // inotify does not report the removal of a file that a rename replaces.
    t.report_appeared(1, "a");
    t.answer_examination("/p/a", socket(2));
    t.expect(&["examine /p/a", "found /p/a #2"]);
}

#[test]
fn other_files_are_ignored_and_may_replace_a_socket() {
    let mut t = Timeline::scanned(&[("file", EntryKind::Other), ("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    t.answer_examination("/p/other-file", EntryKind::Other);
    t.expect_silence();
    t.answer_examination("/p/a", EntryKind::Other);
    t.expect(&["lost /p/a"]);
    t.answer_examination("/p/file", socket(2));
    t.expect(&["found /p/file #2"]);
    t.answer_examination("/p/file", EntryKind::Directory);
    t.expect(&["lost /p/file", "scan /p/file"]);
}

#[test]
fn names_with_a_dot_are_ignored_at_the_start_and_later() {
    let mut t = Timeline::scanned(&[(".hidden", socket(1)), (".dir", EntryKind::Directory)]);
    t.report_appeared(1, ".later");
    t.report_dir_appeared(1, ".later-dir");
    t.report_vanished(1, ".hidden");
    t.expect_silence();
}

#[test]
fn a_directory_at_any_depth_gets_its_own_watch() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.expect(&["scan /p/sub"]);
    t.answer_scan_ok("/p/sub", 2, &[("deeper", EntryKind::Directory)]);
    t.expect(&["scan /p/sub/deeper"]);
    t.answer_scan_ok("/p/sub/deeper", 3, &[]);
    t.report_appeared(3, "a");
    t.answer_examination("/p/sub/deeper/a", socket(1));
    t.expect(&["examine /p/sub/deeper/a", "found /p/sub/deeper/a #1"]);
    t.report_dir_appeared(2, "new");
    t.expect(&["scan /p/sub/new"]);
}

#[test]
fn sockets_and_watches_are_removed_with_their_directory() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.answer_scan_ok(
        "/p/sub",
        2,
        &[("a", socket(1)), ("deeper", EntryKind::Directory)],
    );
    t.answer_scan_ok("/p/sub/deeper", 3, &[("b", socket(2))]);
    t.expect(&[
        "scan /p/sub",
        "found /p/sub/a #1",
        "scan /p/sub/deeper",
        "found /p/sub/deeper/b #2",
    ]);
    t.report_vanished(1, "sub");
    t.expect(&["examine /p/sub"]);
    t.answer_examination_gone("/p/sub");
    t.expect(&[
        "lost /p/sub/a",
        "lost /p/sub/deeper/b",
        "unwatch 2",
        "unwatch 3",
    ]);
    t.handle_event(Event::Moved { watch: WatchId(2) });
    t.handle_event(Event::Unwatched { watch: WatchId(2) });
    t.report_appeared(3, "late");
    t.expect_silence();
}

#[test]
fn sockets_are_found_again_in_a_directory_that_moved() {
    let mut t = Timeline::scanned(&[("old", EntryKind::Directory)]);
    t.answer_scan_ok("/p/old", 2, &[("a", socket(1))]);
    t.expect(&["scan /p/old", "found /p/old/a #1"]);
    t.skip_scan_pause();
    t.report_vanished(1, "old");
    t.report_dir_appeared(1, "new");
    t.handle_event(Event::Moved { watch: WatchId(2) });
    t.expect(&["examine /p/old", "scan /p/new", "scan /p/old"]);
    t.answer_examination_gone("/p/old");
    t.expect(&["lost /p/old/a", "unwatch 2"]);
    t.answer_scan_ok("/p/new", 3, &[("a", socket(1))]);
    t.expect(&["found /p/new/a #1"]);
}

#[test]
fn a_directory_seen_before_its_move_is_reported_is_scanned() {
    let mut t = Timeline::scanned(&[("old", EntryKind::Directory)]);
    t.answer_scan_ok(
        "/p/old",
        2,
        &[("a", socket(1)), ("deeper", EntryKind::Directory)],
    );
    t.answer_scan_ok("/p/old/deeper", 3, &[]);
    t.expect(&["scan /p/old", "found /p/old/a #1", "scan /p/old/deeper"]);

    t.skip_scan_pause();
    t.handle_event(Event::Overflowed);
    t.expect(&["scan root /p", "scan /p/old", "scan /p/old/deeper"]);
    t.answer_scan_ok(
        "/p/old",
        2,
        &[("a", socket(1)), ("deeper", EntryKind::Directory)],
    );
    t.skip_scan_pause();
    t.answer_scan_ok(
        "/p",
        1,
        &[("old", EntryKind::Directory), ("new", EntryKind::Directory)],
    );
    t.expect(&["scan /p/new"]);
    t.answer_scan_ok(
        "/p/new",
        2,
        &[("a", socket(1)), ("deeper", EntryKind::Directory)],
    );
    t.expect(&["/p/new: it is already watched as /p/old"]);

    t.report_vanished(1, "old");
    t.handle_event(Event::Moved { watch: WatchId(2) });
    t.expect(&["examine /p/old", "scan /p/old"]);
    t.answer_examination_gone("/p/old");
    t.expect(&["lost /p/old/a", "unwatch 2", "unwatch 3"]);
    t.tick();
    t.expect(&["scan /p/new"]);
    t.answer_scan_ok(
        "/p/new",
        4,
        &[("a", socket(1)), ("deeper", EntryKind::Directory)],
    );
    t.expect(&[
        "found /p/new/a #1",
        "scan /p/new/deeper",
        "/p/new: recovered",
    ]);
}

#[test]
fn a_mount_at_a_root_causes_a_scan_of_its_whole_tree() {
    let mut timeline = Timeline::on(&["/p", "/q"]);
    timeline.expect(&["create and scan /p", "create and scan /q"]);
    timeline.answer_scan_ok("/p", 1, &[("sub", EntryKind::Directory)]);
    timeline.answer_scan_ok("/q", 2, &[]);
    timeline.expect(&["scan /p/sub"]);
    timeline.answer_scan_ok("/p/sub", 3, &[]);
    timeline.skip_scan_pause();
    timeline.handle_input(Input::Remounted { dir: "/p".into() });
    timeline.expect(&["scan root /p", "scan /p/sub"]);
}

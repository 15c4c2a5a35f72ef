//! Rescans on request, the end of the first scan, and the states of directories.

use super::*;

impl Timeline {
    /// Returns the result of the last rescan: its number, and the numbers of directories, of found
    /// and of lost paths.
    fn take_rescan_result(&mut self) -> Option<(u64, usize, usize, usize)> {
        let result = self.watch.take_rescanned()?;
        let Rescanned {
            number,
            directories,
            found,
            lost,
        } = result;
        Some((number, directories, found, lost))
    }

    /// Begins the requested round, once its pause is over.
    fn begin_requested_round(&mut self) {
        self.skip_scan_pause();
        self.watch.handle_timeout(self.now);
    }

    /// Returns the directories as they are shown to an operator.
    fn directories(&self) -> Vec<String> {
        let shown = self.watch.directories().map(|it| {
            let problem = it.problem.map(|problem| format!(": {problem}"));
            let problem = problem.unwrap_or_default();
            format!("{} {}{problem}", it.path.display(), it.state.name())
        });
        shown.collect()
    }
}

#[test]
fn the_first_scan_is_over_when_every_directory_was_read() {
    let mut t = Timeline::on(&["/p", "/q"]);
    t.expect(&["create and scan /p", "create and scan /q"]);
    t.answer_scan_ok("/p", 1, &[("sub", EntryKind::Directory)]);
    t.expect(&["scan /p/sub"]);
    t.answer_scan("/q", not_watched(), Err(Problem::NotRead(Cause::Denied)));
    t.expect(&["/q: it cannot be read: permission denied"]);
    assert!(!t.watch.is_scanned());
    t.answer_scan_ok("/p/sub", 2, &[("a", socket(1))]);
    assert!(!t.watch.is_scanned(), "an output is pending");
    t.expect(&["found /p/sub/a #1"]);
    assert!(t.watch.is_scanned());
    assert_eq!(t.take_rescan_result(), None, "it was not requested");
}

#[test]
fn a_rescan_reads_every_directory() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory), ("a", socket(1))]);
    t.expect(&["scan /p/sub", "found /p/a #1"]);
    t.answer_scan_ok("/p/sub", 2, &[("b", socket(2))]);
    t.expect(&["found /p/sub/b #2"]);
    t.skip_scan_pause();
    assert_eq!(t.watch.request_rescan(), 1);
    t.begin_requested_round();
    t.expect(&["scan root /p", "scan /p/sub"]);
    t.answer_scan_ok(
        "/p",
        1,
        &[
            ("sub", EntryKind::Directory),
            ("a", socket(1)),
            ("new", EntryKind::Directory),
        ],
    );
    t.answer_scan_ok("/p/sub", 2, &[("c", socket(3))]);
    t.expect(&["scan /p/new", "found /p/sub/c #3", "examine /p/sub/b"]);
    assert_eq!(t.take_rescan_result(), None);
    t.answer_scan_ok("/p/new", 3, &[("d", socket(4))]);
    t.answer_examination_gone("/p/sub/b");
    assert_eq!(t.take_rescan_result(), None);
    t.expect(&["found /p/new/d #4", "lost /p/sub/b"]);
    assert_eq!(t.take_rescan_result(), Some((1, 3, 2, 1)));
    assert_eq!(t.take_rescan_result(), None);
    t.expect_idle();
}

#[test]
fn a_rescan_that_has_begun_does_not_count_for_a_later_request() {
    let mut t = Timeline::scanned(&[]);
    t.expect_silence();
    t.skip_scan_pause();
    assert_eq!(t.watch.request_rescan(), 1);
    t.begin_requested_round();
    t.expect(&["scan root /p"]);
    assert_eq!((t.watch.request_rescan(), t.watch.request_rescan()), (2, 2));
    t.answer_scan_ok("/p", 1, &[("a", socket(1))]);
    t.expect(&["found /p/a #1"]);
    assert_eq!(t.take_rescan_result(), Some((1, 1, 1, 0)));
    assert_eq!(t.watch.request_rescan(), 2, "not begun yet");
    t.begin_requested_round();
    t.expect(&["scan root /p"]);
    t.answer_scan_ok("/p", 1, &[("a", socket(1))]);
    t.expect_silence();
    assert_eq!(t.take_rescan_result(), Some((2, 1, 0, 0)));
    t.expect_idle();
}

#[test]
fn a_rescan_does_not_wait_for_missing_or_ever_new_directories() {
    let mut t = Timeline::scanned(&[("sub", EntryKind::Directory)]);
    t.expect(&["scan /p/sub"]);
    t.answer_scan_ok("/p/sub", 2, &[]);
    t.expect_silence();
    t.skip_scan_pause();
    t.watch.request_rescan();
    t.begin_requested_round();
    t.expect(&["scan root /p", "scan /p/sub"]);
    t.report_vanished(1, "sub");
    t.expect(&["examine /p/sub"]);
    t.answer_examination_gone("/p/sub");
    t.answer_scan_missing("/p/sub");
    t.answer_scan_missing("/p");
    t.expect(&["unwatch 2", "unwatch 1", "/p: it does not exist"]);
    assert_eq!(t.take_rescan_result(), Some((1, 2, 0, 0)));

    let mut t = Timeline::scanned(&[]);
    t.expect_silence();
    t.skip_scan_pause();
    t.watch.request_rescan();
    t.begin_requested_round();
    t.expect(&["scan root /p"]);
    t.answer_scan_ok("/p", 1, &[]);
    let mut count = 0;
    while t.take_rescan_result().is_none() {
        // The next directory appears before this one is read.
        t.report_dir_appeared(1, &format!("d{}", count + 1));
        t.answer_scan_ok(&format!("/p/d{count}"), 2, &[]);
        t.report_vanished(1, &format!("d{count}"));
        t.answer_examination_gone(&format!("/p/d{count}"));
        while t.watch.poll_output().is_some() {}
        count += 1;
        assert!(count <= 100);
    }
    assert!(count > 10, "{count}");
}

#[test]
fn a_rescan_without_directories_ends_at_once() {
    let mut t = Timeline::on(&[]);
    t.expect_silence();
    assert!(t.watch.is_scanned());
    assert_eq!(t.watch.request_rescan(), 1);
    t.begin_requested_round();
    t.expect_silence();
    assert_eq!(t.take_rescan_result(), Some((1, 0, 0, 0)));
}

#[test]
fn the_state_of_a_directory_is_shown_with_the_reason() {
    let mut t = Timeline::on(&["/q", "/p"]);
    assert_eq!(t.directories(), ["/q Lost", "/p Lost"]);
    t.answer_scan("/q", not_watched(), Ok(listing(&[])));
    t.answer_scan_ok(
        "/p",
        1,
        &[
            ("bad", EntryKind::Directory),
            ("good", EntryKind::Directory),
        ],
    );
    t.answer_scan(
        "/p/bad",
        not_watched(),
        Err(Problem::NotRead(Cause::Denied)),
    );
    t.answer_scan_ok("/p/good", 2, &[]);
    let [q, p, bad] = &t.directories()[..] else {
        panic!("{:?}", t.directories());
    };
    assert!(q.starts_with("/q Polled: it cannot be watched"), "{q}");
    assert_eq!(p, "/p Watched");
    assert_eq!(bad, "/p/bad Lost: it cannot be read: permission denied");
    t.answer_scan_missing("/p");
    assert!(
        t.directories()
            .contains(&"/p Lost: it does not exist".to_owned())
    );
}

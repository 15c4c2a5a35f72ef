//! Sockets to which several paths lead.

use super::*;

#[test]
fn a_second_path_is_ignored_and_found_when_the_first_one_goes() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("sub", EntryKind::Directory)]);
    t.answer_scan_ok("/p/sub", 2, &[("b", socket(1)), ("c", link(1))]);
    t.expect(&["found /p/a #1", "scan /p/sub"]);
    t.skip_scan_pause();
    t.answer_examination_gone("/p/a");
    t.expect(&["lost /p/a", "scan /p/sub"]);
    t.answer_scan_ok("/p/sub", 2, &[("b", socket(1))]);
    t.expect(&["found /p/sub/b #1"]);
    t.expect_idle();
}

#[test]
fn the_directory_of_a_second_path_is_scanned() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", link(1))]);
    t.expect(&["found /p/a #1"]);
    t.skip_scan_pause();
    t.answer_examination("/p/a", socket(2));
    t.expect(&["scan root /p", "found /p/a #2"]);
    t.answer_scan_ok("/p", 1, &[("a", socket(2)), ("b", link(2))]);
    t.expect_silence();
}

#[test]
fn a_socket_is_known_by_its_own_path_rather_than_a_link() {
    let mut t = Timeline::scanned(&[("a", link(1)), ("b", link(1)), ("c", socket(1))]);
    t.expect(&["found /p/a #1", "lost /p/a", "found /p/c #1"]);
    t.skip_scan_pause();
    t.answer_examination_gone("/p/c");
    t.expect(&["lost /p/c", "scan root /p"]);
}

#[test]
fn a_known_path_that_leads_to_another_known_socket_is_lost() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", socket(2))]);
    t.expect(&["found /p/a #1", "found /p/b #2"]);
    t.skip_scan_pause();
    t.answer_examination("/p/b", socket(1));
    t.expect(&["lost /p/b"]);
    t.answer_examination_gone("/p/a");
    t.expect(&["lost /p/a", "scan root /p"]);
    t.answer_scan_ok("/p", 1, &[("b", socket(1))]);
    t.expect(&["found /p/b #1"]);
}

//! Sockets to which several paths lead.

use super::*;

#[test]
fn a_second_path_is_ignored_and_found_when_the_first_one_goes() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("sub", EntryKind::Directory)]);
    t.scan_ok("/p/sub", 2, &[("b", socket(1)), ("c", link(1))]);
    t.expect(&["found /p/a #1", "scan /p/sub"]);
    t.examine_gone("/p/a");
    t.expect(&["lost /p/a", "examine /p/sub/b", "examine /p/sub/c"]);
    t.examine("/p/sub/b", socket(1));
    t.examine_gone("/p/sub/c");
    t.expect(&["found /p/sub/b #1"]);
    t.expect_rest();
}

#[test]
fn a_second_path_is_examined_when_the_socket_is_replaced() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", link(1))]);
    t.expect(&["found /p/a #1"]);
    t.examine("/p/a", socket(2));
    t.expect(&["found /p/a #2", "examine /p/b"]);
    t.examine("/p/b", link(2));
    t.expect_silence();
    t.examine("/p/a", socket(3));
    t.expect(&["found /p/a #3", "examine /p/b"]);
}

#[test]
fn a_socket_is_known_by_its_own_path_rather_than_by_a_symbolic_link() {
    let mut t = Timeline::scanned(&[("a", link(1)), ("b", link(1)), ("c", socket(1))]);
    t.expect(&[
        "found /p/a #1",
        "lost /p/a",
        "examine /p/b",
        "examine /p/a",
        "found /p/c #1",
    ]);
    t.examine("/p/b", link(1));
    t.examine("/p/a", link(1));
    t.expect_silence();
}

#[test]
fn a_known_path_that_leads_to_another_known_socket_is_lost() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", socket(2))]);
    t.expect(&["found /p/a #1", "found /p/b #2"]);
    t.examine("/p/b", socket(1));
    t.expect(&["lost /p/b"]);
    t.examine_gone("/p/a");
    t.expect(&["lost /p/a", "examine /p/b"]);
    t.examine("/p/b", socket(1));
    t.expect(&["found /p/b #1"]);
}

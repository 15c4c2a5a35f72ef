//! Symbolic links, which are examined when a socket is lost or replaced.

use super::*;

const MANY: usize = 40;

impl Timeline {
    /// Discards all pending outputs. Returns the number of examinations among them.
    fn examinations(&mut self) -> usize {
        let outputs = std::iter::from_fn(|| self.watch.poll_output());
        let is_examination = |it: &Output| matches!(it, Output::Examine { .. });
        outputs.filter(is_examination).count()
    }
}

/// Creates a watch on `/p`, which holds a socket and many links to other sockets.
fn many_links() -> Timeline {
    let names: Vec<_> = (0..MANY).map(|n| format!("l{n:02}")).collect();
    let links = names
        .iter()
        .zip(2..)
        .map(|(name, n)| (name.as_str(), link(n)));
    let entries: Vec<_> = links.chain([("a", socket(1))]).collect();
    let mut t = Timeline::scanned(&entries);
    assert_eq!(t.examinations(), 0);
    t
}

#[test]
fn a_link_is_examined_when_another_socket_is_lost_or_replaced() {
    let mut t = Timeline::scanned(&[("a", socket(1)), ("b", link(2))]);
    t.expect(&["found /p/a #1", "found /p/b #2"]);
    t.expect_rest();
    t.examine("/p/a", socket(3));
    t.expect(&["found /p/a #3"]);
    t.tick();
    assert_eq!(t.now, Time::ZERO, "at once");
    t.expect(&["examine /p/b"]);
    t.examine("/p/b", link(2));
    t.expect_rest();

    t.examine_gone("/p/a");
    t.expect(&["lost /p/a"]);
    t.tick();
    assert_eq!(t.now, Time::ZERO + config::LINK_PAUSE);
    t.expect(&["examine /p/b"]);
    t.examine_gone("/p/b");
    t.expect(&["lost /p/b"]);
    t.expect_rest();
}

#[test]
fn a_link_that_another_link_leads_to_is_lost_with_it() {
    let mut t = Timeline::scanned(&[("a", link(1)), ("b", link(1))]);
    t.expect(&["found /p/a #1", "alias /p/b #1"]);
    t.examine_gone("/p/b");
    t.expect(&["lost /p/b"]);
    t.tick();
    t.expect(&["examine /p/a"]);
}

#[test]
fn without_links_nothing_is_examined() {
    let mut t = Timeline::scanned(&[("a", link(1)), ("b", socket(2)), ("c", socket(3))]);
    t.examine("/p/a", socket(4));
    t.examine_gone("/p/b");
    assert_eq!(t.examinations(), 0);
    t.expect_rest();
}

#[test]
fn of_many_links_a_few_are_examined_at_a_time_and_all_of_them_once_for_each_loss() {
    let mut t = many_links();
    t.examine_gone("/p/a");
    let mut examined = Vec::new();
    for _ in 0..3 {
        let next = t.watch.poll_timeout().expect("links are left");
        assert!(next <= t.now + config::LINK_PAUSE);
        t.tick();
        examined.push(t.examinations());
    }
    assert_eq!(examined, [config::MAX_LINKS, config::MAX_LINKS, 8]);
    t.expect_rest();
}

#[test]
fn sockets_that_are_lost_all_the_time_have_a_few_links_examined_in_each_pause() {
    let mut t = many_links();
    let mut examined = 0;
    let milliseconds = 200;
    for n in 0..milliseconds {
        t.now = Time::from_millis(n);
        t.examine("/p/a", socket(100 + n));
        t.watch.handle_timeout(t.now);
        examined += t.examinations();
    }
    let pauses = usize::try_from(milliseconds / 20).unwrap();
    assert!(
        (MANY..=pauses * config::MAX_LINKS).contains(&examined),
        "{examined}"
    );
}

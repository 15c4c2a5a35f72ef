//! Plugins of unknown types, and of types with a handler of their own.

use plugind::config::{BACKOFF, UnknownTypes};

use crate::handlers::node::Node;
use crate::script::Script;

const REG: &str = "/r/toaster-reg.sock";

fn with_toaster(types: &[&str], unknown: UnknownTypes) -> Node {
    let mut node = Node::with(types, unknown);
    node.world.appear(REG, Script::good("Toaster", "t.example"));
    node
}

#[test]
fn a_type_of_one_s_own_is_registered_and_known() {
    let mut node = with_toaster(&["Toaster"], UnknownTypes::Reject);
    assert_eq!(node.notified(REG), Ok(()));
    assert_eq!(node.world.counts(), (1, 1));
    node.world.vanish(REG);
    assert_eq!(node.world.counts(), (0, 0));
}

#[test]
fn an_unknown_type_is_rejected_in_kubelet_s_words() {
    let node = with_toaster(&["CSIPlugin"], UnknownTypes::Reject);
    let words = "no handler registered for plugin type: Toaster at socket /r/toaster-reg.sock";
    assert_eq!(node.notified(REG), Err(words));
    assert_eq!(node.world.counts(), (1, 0));
}

#[test]
fn an_unknown_type_is_registered_where_all_are_accepted() {
    let node = with_toaster(&["CSIPlugin"], UnknownTypes::Accept);
    assert_eq!(node.notified(REG), Ok(()));
    assert_eq!(node.world.counts(), (1, 1));
}

#[test]
fn an_unknown_type_that_is_ignored_is_never_told_anything() {
    let mut node = with_toaster(&["CSIPlugin"], UnknownTypes::Ignore);
    node.world.advance(3 * BACKOFF.cap);
    assert_eq!(node.notified(REG), Err("not notified"));
    assert_eq!(node.world.counts(), (1, 0));
    assert_eq!(node.world.open_to(REG), 0);
    let mut events = node.world.events.iter();
    let refused = events
        .find(|it| it.reason() == "ValidationFailed")
        .expect("it is reported");
    assert_eq!(refused.level(), log::Level::Info, "the user wants that");
    node.has_time_for_others();
}

#[test]
fn the_type_is_looked_up_before_the_name_is_checked() {
    let invalid = || Script::good("Toaster", "bad\nname");
    let mut node = Node::with(&["CSIPlugin"], UnknownTypes::Ignore);
    node.world.appear(REG, invalid());
    assert_eq!(node.notified(REG), Err("not notified"));

    let mut node = Node::with(&["CSIPlugin"], UnknownTypes::Reject);
    node.world.appear(REG, invalid());
    let words = "no handler registered for plugin type: Toaster at socket /r/toaster-reg.sock";
    assert_eq!(node.notified(REG), Err(words));

    let mut node = Node::with(&["CSIPlugin"], UnknownTypes::Accept);
    node.world.appear(REG, invalid());
    let words = "plugin validation failed with err: plugin name contains a control character";
    assert_eq!(node.notified(REG), Err(words));
}

#[test]
fn a_type_that_no_handler_can_have_is_not_kept() {
    let mut node = Node::with(&["CSIPlugin"], UnknownTypes::Ignore);
    node.world
        .appear(REG, Script::good(&"T".repeat(60_000), "long"));
    let words = "plugin validation failed with err: plugin type is too long";
    assert_eq!(node.notified(REG), Err(words));
}

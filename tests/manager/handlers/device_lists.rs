//! Lists of device plugins that follow each other soon.

use plugind::config::{LIST_INTERVAL, MAX_DEVICES};

use crate::handlers::device::{GPU, RESOURCE, listing, with_plugin};
use crate::handlers::node::{Node, seconds};
use crate::script::device_list;

/// Returns a list of so many healthy devices, in steps of `stride`.
fn list(devices: usize, stride: usize, prefix: &str) -> Vec<u8> {
    device_list((0..devices).map(|n| format!("{prefix}-{:05}", n * stride % devices)))
}

/// Returns a node with a plugin that lists one device, `a`.
fn node() -> Node {
    with_plugin(listing(list(1, 1, "a")))
}

/// Returns the number of healthy devices of the resource, and the first one.
fn devices(node: &Node) -> Option<(usize, String)> {
    let plugin = node.knows.device_plugins.get(RESOURCE)?;
    let first = plugin.devices.iter().next()?;
    Some((plugin.count_healthy(), first.id.to_string()))
}

#[track_caller]
fn assert_devices(node: &Node, count: usize, first: &str) {
    assert_eq!(devices(node), Some((count, first.to_owned())));
}

#[test]
fn the_longest_list_is_applied_at_once() {
    let mut node = node();
    node.world.advance(LIST_INTERVAL);
    node.world.push(GPU, &list(9_000, 7_919, "x"));
    assert_devices(&node, 9_000, "x-00000");
    let mut node = with_plugin(listing(list(MAX_DEVICES, 7_919, "x")));
    node.has_time_for_others();
    assert_devices(&node, MAX_DEVICES, "x-00000");
}

#[test]
fn of_lists_that_follow_soon_the_newest_is_applied() {
    let mut node = node();
    for prefix in ["x", "y", "z"] {
        node.world.push(GPU, &list(2, 1, prefix));
    }
    assert_devices(&node, 1, "a-00000");
    node.world.advance(LIST_INTERVAL);
    assert_devices(&node, 2, "z-00000");
}

#[test]
fn a_plugin_that_never_pauses_has_lists_applied_all_the_same() {
    let mut node = node();
    let mut applied = 0;
    let mut last = devices(&node);
    for at in 0..100 {
        node.world.push(GPU, &list(2 + at, 1, "x"));
        node.world.advance(LIST_INTERVAL / 10);
        let now = devices(&node);
        applied += usize::from(now != last);
        last = now;
    }
    assert!((5..=11).contains(&applied), "{applied}");
}

#[test]
fn the_end_of_the_stream_drops_the_list_that_waits() {
    let mut node = node();
    node.world.push(GPU, &list(2, 1, "x"));
    node.world.end_streams(GPU, 0);
    node.world.advance(LIST_INTERVAL);
    assert_devices(&node, 0, "a-00000");
    node.world.advance(seconds(1));
    assert_devices(&node, 1, "a-00000");
}

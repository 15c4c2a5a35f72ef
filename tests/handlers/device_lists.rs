//! Long lists of device plugins, which are applied over several turns.

use std::time::Duration;

use plugind::config::DEVICE_GRACE;
use plugind::proto::v1beta1::{Device, ListAndWatchResponse};
use prost::Message as _;

use crate::device::{GPU, REG, RESOURCE, lists, registrar, with_plugin};
use crate::node::{Node, seconds};
use crate::script::Answer;

/// Returns a long list in steps of `stride`.
fn long(stride: usize, prefix: &str) -> Vec<u8> {
    let devices = (0..MANY).map(|n| Device {
        id: format!("{prefix}-{:05}", n * stride % MANY),
        health: "Healthy".into(),
        topology: None,
    });
    let devices = devices.collect();
    ListAndWatchResponse { devices }.encode_to_vec()
}

/// Returns a list of one device.
fn short(id: &str) -> Vec<u8> {
    let devices = vec![Device {
        id: id.into(),
        ..Device::default()
    }];
    ListAndWatchResponse { devices }.encode_to_vec()
}

/// Returns a node with a plugin that lists the device `a`.
fn node() -> Node {
    with_plugin(lists(Answer::Stream(vec![short("a")])))
}

/// Returns the number of devices of the resource, the first one and the healthy ones.
fn devices(node: &Node) -> Option<(usize, String, usize)> {
    let plugin = node.knows.device_plugins.get(RESOURCE)?;
    let first = plugin.devices.iter().next().map(|it| it.id.to_owned());
    Some((
        plugin.devices.len(),
        first.unwrap_or_default(),
        plugin.healthy(),
    ))
}

#[track_caller]
fn assert_devices(node: &Node, count: usize, first: &str, healthy: usize) {
    assert_eq!(devices(node), Some((count, first.to_owned(), healthy)));
}

/// Takes one turn. Returns whether a deadline was due then.
fn turn(node: &mut Node) -> bool {
    let next = node.world.manager.poll_timeout();
    let is_due = next.is_some_and(|(at, _)| at <= node.world.now + TURN);
    node.world.now += TURN;
    node.world.manager.handle_timeout(node.world.now);
    node.world.run();
    is_due
}

/// Takes turns until none is due at once. Returns their number.
fn turns(node: &mut Node) -> usize {
    let mut turns = 0;
    while turn(node) {
        turns += 1;
    }
    turns
}

#[test]
fn a_long_list_in_another_order_is_applied_over_several_turns_and_others_register_meanwhile() {
    let mut node = node();
    node.world.push(GPU, &long(1, "x"));
    assert_devices(&node, 1, "a", 0);
    let count = turns(&mut node);
    assert!((2..100).contains(&count), "{count} turns");
    assert_devices(&node, MANY, "x-00000", MANY);
    let events = node.world.events.len();

    node.world.push(GPU, &long(7919, "x"));
    for _ in 0..2 {
        assert!(turn(&mut node));
        node.has_time_for_others();
        assert_devices(&node, MANY, "x-00000", MANY);
    }
    turns(&mut node);
    assert!(node.world.events.len() > events);
    assert_devices(&node, MANY, "x-00000", MANY);
    node.world.push(GPU, &short("b"));
    assert_devices(&node, 1, "b", 0);
}

#[test]
fn a_short_list_and_a_long_one_that_is_the_same_are_applied_at_once() {
    let mut node = node();
    node.world.push(GPU, &long(1, "x"));
    turns(&mut node);
    node.world.push(GPU, &long(1, "x"));
    assert!(!turn(&mut node));
    node.world.push(GPU, &short("b"));
    assert_devices(&node, 1, "b", 0);
}

#[test]
fn the_list_in_work_is_finished_and_only_the_newest_one_follows() {
    let mut node = node();
    node.world.push(GPU, &long(1, "x"));
    for prefix in ["y", "z"] {
        node.world.push(GPU, &long(7919, prefix));
    }
    let mut seen = Vec::new();
    while turn(&mut node) {
        let first = devices(&node).expect("it is registered").1;
        if seen.last() != Some(&first) {
            seen.push(first);
        }
    }
    assert_eq!(seen, ["a", "x-00000", "z-00000"]);
    assert_devices(&node, MANY, "z-00000", MANY);
}

#[test]
fn a_plugin_that_never_pauses_has_lists_applied_all_the_same() {
    let mut node = node();
    let mut applied = 0;
    let (lists, mut last) = ([long(1, "x"), long(7919, "y")], "a".to_owned());
    for at in 0..200 {
        node.world.push(GPU, &lists[at % 2]);
        turn(&mut node);
        let first = devices(&node).expect("it is registered").1;
        applied += usize::from(first != last);
        last = first;
    }
    assert!(applied >= 1, "{applied}");
}

#[test]
fn the_end_of_the_stream_drops_the_list_in_work_and_the_one_that_waits() {
    let mut node = node();
    node.world.push(GPU, &long(1, "x"));
    turn(&mut node);
    node.world.push(GPU, &long(1, "y"));
    node.world.end_streams(GPU, 0);
    assert_eq!(turns(&mut node), 0);
    assert_devices(&node, 1, "a", 0);
    node.world.advance(seconds(1));
    node.world.push(GPU, &long(1, "x"));
    turns(&mut node);
    assert_devices(&node, MANY, "x-00000", MANY);
}

#[test]
fn a_list_that_is_rejected_in_work_ends_the_stream_and_drops_the_next_one() {
    let mut node = node();
    node.world.push(GPU, &[long(1, "x"), vec![0x0a]].concat());
    turn(&mut node);
    node.world.push(GPU, &short("b"));
    turns(&mut node);
    assert_devices(&node, 1, "a", 0);
    assert_eq!(node.world.open_to(GPU), 0);
}

#[test]
fn deregistration_drops_the_list_in_work() {
    let mut node = node();
    node.world.push(GPU, &long(1, "x"));
    turn(&mut node);
    node.world.vanish(REG);
    assert_eq!((devices(&node), turns(&mut node)), (None, 0));
    node.world.advance(2 * DEVICE_GRACE);
    assert_eq!(devices(&node), None);
}

#[test]
fn a_list_in_work_at_the_end_of_the_grace_period_replaces_what_is_forgotten() {
    let mut node = node();
    node.world.plugin(GPU).services.insert(
        plugind::proto::v1beta1::device_plugin::LIST_AND_WATCH,
        Answer::Stream(Vec::new()),
    );
    node.world.end_streams(GPU, 0);
    let soon = Duration::from_nanos(10);
    node.world.advance(DEVICE_GRACE.saturating_sub(soon));
    assert_devices(&node, 1, "a", 0);
    node.world.push(GPU, &long(1, "x"));
    assert_devices(&node, 1, "a", 0);
    turns(&mut node);
    assert_devices(&node, MANY, "x-00000", MANY);
    node.world.advance(2 * DEVICE_GRACE);
    assert_devices(&node, MANY, "x-00000", MANY);
}

#[test]
fn one_turn_works_on_one_plugin_s_list_and_the_plugins_take_turns() {
    let alone = {
        let mut node = node();
        node.world.push(GPU, &long(1, "x"));
        turns(&mut node)
    };
    let mut node = node();
    let mut other = registrar("/p/other.sock");
    other.info.name = "example.com/other".into();
    node.world
        .create("/p/other.sock", lists(Answer::Stream(vec![long(1, "x")])));
    node.world.push(GPU, &long(1, "x"));
    node.world.appear("/r/other-gpu-reg.sock", other);
    let both = turns(&mut node);
    assert!(
        (2 * alone - 1..=2 * alone + 2).contains(&both),
        "{alone} {both}"
    );
    assert_devices(&node, MANY, "x-00000", MANY);
    let other = node.knows.device_plugins.get("example.com/other");
    assert_eq!(other.expect("a plugin").healthy(), MANY);
}

/// The number of devices of a long list, which fits in the window of the stream.
const MANY: usize = 9_000;

/// The time of one turn.
const TURN: Duration = Duration::from_nanos(5);

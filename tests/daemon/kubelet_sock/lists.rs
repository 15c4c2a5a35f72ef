//! The lists of devices that plugins send.

use std::time::{Duration, Instant};

use plugind::config::{MAX_DEVICES, MAX_REPLY};

use crate::kubelet_sock::node::Node;
use crate::kubelet_sock::plugin::{DevicePlugin, list};
use crate::support::timed::assert_faster;

/// Registers a plugin that sends this list, and waits for a line of the log about it.
#[track_caller]
fn listed(node: &mut Node, message: Vec<u8>, expected: &str) -> DevicePlugin {
    let plugin = DevicePlugin::serve_list(&node.path("gpu.sock"), message);
    assert_eq!(node.register("gpu.sock", "example.com/gpu"), Ok(()));
    node.daemon
        .until_logged(&format!("example.com/gpu: {expected}"));
    plugin
}

#[test]
fn a_list_is_accepted_whatever_it_repeats_or_leaves_out() {
    for (message, expected) in [
        (list([]), "received a device list devices=0 healthy=0"),
        (
            list([("a", "Healthy"), ("a", "Unhealthy"), ("b", "Healthy")]),
            "received a device list devices=2 healthy=1",
        ),
        (
            list([("a", ""), ("b", "healthy"), ("", "Healthy")]),
            "received a device list devices=3 healthy=1",
        ),
    ] {
        let mut node = Node::start();
        let _plugin = listed(&mut node, message, expected);
        assert_eq!(node.registered().len(), 1);
    }
}

#[test]
fn as_many_devices_as_fit_are_listed_and_more_are_not() {
    let ids: Vec<_> = (0..=MAX_DEVICES).map(|n| format!("device-{n}")).collect();
    let devices = || ids.iter().map(|id| (&**id, "Healthy"));
    let mut node = Node::start();
    let expected = format!("received a device list devices={MAX_DEVICES} healthy={MAX_DEVICES}");
    let plugin = listed(&mut node, list(devices().take(MAX_DEVICES)), &expected);
    // They stay as they are while nothing happens, and another plugin is not delayed.
    let other = DevicePlugin::serve(&node.path("other.sock"));
    let start = Instant::now();
    assert_eq!(node.register("other.sock", "example.com/other"), Ok(()));
    assert_faster(start.elapsed(), Duration::from_secs(3));
    drop((plugin, other));

    let mut node = Node::start();
    let plugin = DevicePlugin::serve_list(&node.path("gpu.sock"), list(devices()));
    assert_eq!(node.register("gpu.sock", "example.com/gpu"), Ok(()));
    let line = node.daemon.until_logged("example.com/gpu: ");
    assert!(!line.contains("received a device list"), "{line}");
    drop(plugin);
}

#[test]
fn a_message_of_four_mebibytes_is_accepted() {
    let shell = list([("", "Healthy")]).len();
    let fitting = "x".repeat(MAX_REPLY - shell - 8);
    let message = list([(&*fitting, "Healthy")]);
    assert_eq!(message.len(), MAX_REPLY);
    let mut node = Node::start();
    let _plugin = listed(
        &mut node,
        message,
        "received a device list devices=1 healthy=1",
    );

    let mut node = Node::start();
    let long = list([(&*format!("{fitting}x"), "Healthy")]);
    let octets = MAX_REPLY + 1;
    let _plugin = listed(
        &mut node,
        long,
        &format!(
            "rejected its device list; what it listed before stays in force; make it list fewer devices: the list is too large \
                  octets={octets} limit={MAX_REPLY}"
        ),
    );
}

//! How a plugin that has announced itself is shown, and what it costs while nothing happens.

use std::fs;
use std::time::Duration;

use crate::kubelet_sock::node::Node;
use crate::support::client::Client;
use crate::support::until::until;

#[test]
fn a_plugin_is_shown_in_lists_links_and_metrics() {
    let mut node = Node::serving();
    let plugin = node.simulate_legacy("example.com/gpu");
    node.daemon.until_logged("received a device list devices=2");
    let socket = plugin.socket().display().to_string();
    assert_eq!(node.registered(), [("example.com/gpu".to_owned(), socket)]);

    let link = until("the link by name", || {
        let links = fs::read_dir(node.dir.path().join("run/by-name/DevicePlugin")).ok()?;
        links.map(|link| link.unwrap().path()).next()
    });
    assert_eq!(fs::read_link(&link).unwrap(), plugin.socket());

    let metrics = node.metrics();
    let labels = [("type", "DevicePlugin")];
    assert_eq!(metrics.sum("plugind_plugins", &labels), 1);

    plugin.kill();
    plugin.until_ended();
    node.daemon.until_logged(" is down");
    node.until_listed(|items| items[0]["state"] == "Down");
}

#[test]
fn nothing_happens_while_a_plugin_is_registered() {
    let mut node = Node::serving();
    let mut watch = Client::connect(&node.socket);
    watch.request("GET", "/v1/watch");
    assert_eq!(watch.head().0, 200);
    let plugin = node.simulate_legacy("example.com/gpu");
    plugin.until_said("example.com/gpu: registered");
    node.daemon.until_logged("received a device list devices=2");
    let wakeups = node.daemon.until_at_rest();
    assert!(node.daemon.is_silent_for(Duration::from_secs(2)));
    assert_eq!(node.daemon.wakeups() - wakeups, 0);
    drop(plugin);
}

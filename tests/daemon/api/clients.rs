//! Many clients, clients that do not read, and clients that are connected when the daemon stops.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::api::node::Node;
use crate::support::client::Client;
use crate::support::plugin::Plugin;
use crate::support::process::Process;

#[test]
fn lists_events_and_metrics_are_answered_once_per_connection() {
    let node = Node::start();
    let plugin = node.serve("a.sock", "a");
    assert!(plugin.until_notified().plugin_registered);
    node.until_listed(|items| items.iter().any(|it| it["state"] == "Registered"));
    let list = node.get("/v1/plugins");
    assert_eq!(list["items"][0]["name"], "a");
    assert_eq!(list["items"][0]["pid"], std::process::id());
    let status = node.get("/v1/status");
    assert_eq!(status["instance"], list["instance"]);
    assert_eq!(status["directories"][0]["state"], "Watched");
    assert_eq!(status["plugins"]["Registered"], 1);
    let events = node.ask("GET", "/v1/events").body;
    assert!(events.contains("\"reason\":\"Registered\""), "{events}");
    let metrics = node.ask("GET", "/metrics").body;
    for line in [
        "plugind_plugins{type=\"CSIPlugin\",state=\"Registered\"} 1",
        "plugind_limit_hits_total{limit=\"clients\"} 0",
        "process_open_fds ",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert_eq!(node.ask("GET", "/livez").body, "ok\n");
    assert_eq!(node.ask("GET", "/readyz").body, "ok\n");
    // What follows the first request is ignored.
    let mut client = Client::connect(&node.socket);
    client.send(&"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3));
    let (status, head) = client.head();
    assert!(
        status == 404 && head.contains("Connection: close\n"),
        "{head}"
    );
    assert_eq!(
        client.line().as_deref(),
        Some("{\"error\":\"no such path\"}")
    );
    assert!(client.is_closed());
}

#[test]
fn a_watch_gets_every_change_and_its_end_when_the_daemon_stops() {
    let node = Node::start();
    let mut watch = Client::connect(&node.socket);
    watch.request("GET", "/v1/watch");
    let mut events = Client::connect(&node.socket);
    events.request("GET", "/v1/events?follow=1");
    let mut idle = Client::connect(&node.socket);
    assert_eq!((watch.head().0, events.head().0), (200, 200));
    let plugin = node.serve("a.sock", "a");
    assert!(plugin.until_notified().plugin_registered);
    let mut seen = String::new();
    while !seen.contains("\"state\":\"Registered\"") {
        seen.push_str(&watch.line().expect("the watch goes on"));
    }
    assert!(
        seen.contains("\"BOOKMARK\"") && seen.contains("\"ADDED\""),
        "{seen}"
    );
    let mut reasons = String::new();
    while !reasons.contains("\"reason\":\"Registered\"") {
        reasons.push_str(&events.line().expect("the events go on"));
    }
    let Node { daemon, .. } = node;
    let (status, took) = daemon.end_with(Signal::SIGTERM);
    assert!(
        status.success() && took < Duration::from_secs(1),
        "{took:?}"
    );
    while watch.line().is_some() {}
    while events.line().is_some() {}
    assert!(watch.is_closed() && events.is_closed() && idle.is_closed());
}

#[test]
fn what_a_plugin_reports_is_escaped_once() {
    let mut node = Node::start();
    let _plugin = Plugin::serve_type(&node.registry("a.sock"), "T\u{1b}[2J\\", "a");
    let refused = r#"no handler for plugin type "T\u{1b}[2J\\""#;
    node.daemon.until_logged(refused);
    let socket = node.registry("a.sock");
    let socket = socket.to_str().unwrap();
    for line in [&["events"][..], &["list", "-owide"], &["describe", socket]] {
        let shown = Process::ask(&node.socket, line).out;
        assert!(shown.contains(refused), "{line:?}: {shown}");
        assert!(!shown.contains('\u{1b}'), "{line:?}: {shown}");
    }
}

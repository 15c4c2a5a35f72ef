//! What clients may change: retry, rescan, the log filter, and plugins that are down.

use std::fs;
use std::time::{Duration, Instant};

use plugind::config::BACKOFF;
use serde_json::Value;

use crate::api::node::Node;
use crate::support::client::Client;
use crate::support::plugin::Plugin;
use crate::support::simulated::Simulated;
use crate::support::timed::assert_faster;

#[test]
fn a_plugin_that_was_refused_is_tried_again_at_once() {
    let mut node = Node::start();
    let _plugin = Plugin::serve_type(&node.registry("a.sock"), "Toaster", "a");
    // The pause after the third attempt is four times the first of BACKOFF.
    let attempts = |items: &[Value]| items.first().and_then(|it| it["attempts"].as_u64());
    let is_refused = |items: &[Value]| items.first().is_some_and(|it| it["state"] == "Rejected");
    node.until_listed(|items| attempts(items) >= Some(3) && is_refused(items));
    let start = Instant::now();
    let missing = node.ask("POST", "/v1/retry?socket=/no/such");
    assert_eq!(missing.status, 404, "{missing:?}");
    let answer = node.ask("POST", "/v1/retry?type=Toaster&name=a").json();
    assert_eq!(answer["retried"], 1);
    node.until_listed(|items| attempts(items) >= Some(4));
    assert_faster(start.elapsed(), 3 * BACKOFF.first);
    for target in ["socket=/no/such", "type=Toaster name=a"] {
        let line = format!("retry requested through the API {target} pid=");
        node.daemon.until_logged(&line);
    }
}

#[test]
fn a_rescan_answers_when_every_directory_was_read() {
    let node = Node::start();
    let plugin = node.serve("a.sock", "a");
    assert!(plugin.until_notified().plugin_registered);
    fs::create_dir_all(node.registry("sub/deeper")).unwrap();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&node.socket)).collect();
    for client in &mut clients {
        client.request("POST", "/v1/rescan");
    }
    for client in &mut clients {
        let answer = client.response();
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        assert_eq!(answer["directories"], 3, "{answer}");
        assert_eq!(
            (answer["found"].as_u64(), answer["lost"].as_u64()),
            (Some(0), Some(0))
        );
    }
}

#[test]
fn the_log_filter_is_changed_until_the_next_change_of_it() {
    let mut node = Node::start();
    assert!(node.daemon.seen_with(" DEBUG ").is_empty());
    let answer = node.ask("POST", "/v1/log?filter=debug");
    assert_eq!(answer.json()["filter"], "debug");
    let _plugin = node.serve("a.sock", "a");
    node.daemon.until_logged(" DEBUG ");
    node.daemon.until_logged("registered CSIPlugin a");
    let bad = node.ask("POST", "/v1/log?filter=debgu");
    assert_eq!(bad.status, 400, "{bad:?}");
    assert!(bad.json()["error"].as_str().unwrap().contains("debgu"));
    assert_eq!(node.ask("POST", "/v1/log?filter=warn").status, 200);
    let line = "log filter requested through the API filter=warn pid=";
    node.daemon.until_logged(line);
    let other = node.serve("b.sock", "b");
    assert!(other.until_notified().plugin_registered);
    assert!(node.daemon.is_silent_for(Duration::from_millis(300)));
    let initial = node.ask("POST", "/v1/log?filter=");
    assert_eq!(initial.json()["filter"], "");
    let another = node.serve("c.sock", "c");
    assert!(another.until_notified().plugin_registered);
    node.daemon.until_logged("registered CSIPlugin c");
}

#[test]
fn a_plugin_that_is_down_is_forgotten_and_no_other() {
    let mut node = Node::start();
    let registry = node.dir.path().join("registry");
    let plugin = Simulated::start(&registry, "CSIPlugin", "a", &[]);
    let target = "/v1/forget?type=CSIPlugin&name=a";
    node.until_listed(|items| items.iter().any(|it| it["state"] == "Registered"));
    assert_eq!(node.ask("POST", target).status, 409);
    let other = node.ask("POST", "/v1/forget?type=CSIPlugin&name=x");
    assert_eq!(other.status, 404);
    plugin.kill();
    node.until_listed(|items| items.iter().any(|it| it["state"] == "Down"));
    assert_eq!(node.ask("POST", target).json()["forgotten"], 1);
    node.daemon.until_logged("deregistered CSIPlugin a");
}

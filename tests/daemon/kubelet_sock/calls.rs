//! Several calls on one connection, and calls that are over before they are answered.

use std::time::{Duration, Instant};

use plugind::config::DIAL_TIMEOUT;
use plugind::grpc::{CallId, Code};
use plugind::http2::Endpoint as _;
use plugind::proto::v1beta1::registration;

use crate::device_plugins::scripted::Scripted;
use crate::kubelet_sock::node::{Node, rejection, request};
use crate::support::caller::{Caller, PATIENCE};
use crate::support::client::ask;
use crate::support::until::until;

/// Begins to register a plugin with this socket and a resource of the same name.
fn begin(caller: &mut Caller, endpoint: &str, timeout: Duration) -> CallId {
    let request = request(endpoint, &format!("example.com/{endpoint}"));
    caller.begin(registration::REGISTER, &request, 1024, timeout)
}

#[test]
fn a_call_that_waits_delays_no_other_on_its_connection() {
    let node = Node::start();
    let mut caller = Caller::connect(&node.kubelet());
    let waiting = begin(&mut caller, "missing", PATIENCE);
    for name in ["a", "b"] {
        let _plugin = Scripted::listing(&node.path(name), &["device"]);
        let call = begin(&mut caller, name, PATIENCE);
        assert_eq!(caller.end(call), Ok(vec![]));
    }
    assert!(!caller.has_ended(waiting), "it was answered first");
}

#[test]
fn a_call_that_is_over_registers_no_plugin_later() {
    let node = Node::start();
    let mut expiring = Caller::connect(&node.kubelet());
    let call = begin(&mut expiring, "expired", Duration::from_secs(1));
    let error = expiring.end(call).unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error:?}");
    let mut leaving = Caller::connect(&node.kubelet());
    begin(&mut leaving, "left", PATIENCE);
    leaving.run_until(|caller| caller.client.transmit().is_empty());
    until("both are known", || {
        let announced = node.metrics();
        let announced = announced.sum("plugind_events_total", &[("reason", "Announced")]);
        (announced == 2).then_some(())
    });
    let start = Instant::now();
    drop(leaving);
    until("both are forgotten", || {
        let list = ask(&node.api(), "GET", "/v1/plugins").json();
        list["items"].as_array()?.is_empty().then_some(())
    });
    assert!(
        start.elapsed() < DIAL_TIMEOUT / 2,
        "not before their time is over"
    );
    let plugins = ["expired", "left"].map(|name| Scripted::listing(&node.path(name), &["device"]));
    // This call has as much time as they had, and begins after them.
    let reason = rejection(node.register("missing", "example.com/missing"));
    assert!(reason.contains("context deadline exceeded"), "{reason}");
    assert_eq!(node.registered(), []);
    for plugin in plugins {
        assert_eq!(plugin.calls(), [""; 0]);
    }
}

//! The end of the daemon, and its next start.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::kubelet_sock::node::Node;
use crate::kubelet_sock::plugin::DevicePlugin;
use crate::support::simulated::Simulated;
use crate::support::timed::assert_faster;
use crate::support::until::until;

#[test]
fn a_daemon_that_stops_removes_kubelet_sock() {
    let mut node = Node::start();
    let plugin = DevicePlugin::serve(&node.path("gpu.sock"));
    assert_eq!(node.register("gpu.sock", "example.com/gpu"), Ok(()));
    node.until_registered("example.com/gpu");
    let (kubelet, socket) = (node.kubelet(), node.path("gpu.sock"));
    let Node { dir, daemon } = node;
    let (status, time) = daemon.end_with(Signal::SIGTERM);
    assert!(
        status.success() && time < Duration::from_secs(5),
        "{status}"
    );
    assert!(!kubelet.exists() && socket.exists());
    drop((plugin, dir));
}

#[test]
fn a_daemon_that_stops_does_not_wait_for_registrations() {
    let node = Node::start();
    let kubelet = node.kubelet();
    let mut callers = Vec::new();
    for n in 0..8 {
        let kubelet = kubelet.clone();
        let (file, name) = (format!("missing-{n}"), format!("example.com/missing-{n}"));
        callers.push(std::thread::spawn(move || {
            crate::kubelet_sock::node::register(&kubelet, &file, &name)
        }));
    }
    until("the plugins are being registered", || {
        let announced = [("reason", "Announced")];
        let calling = node.metrics().sum("plugind_events_total", &announced);
        (calling == 8).then_some(())
    });
    let Node { dir, daemon } = node;
    let (status, time) = daemon.end_with(Signal::SIGTERM);
    assert!(status.success(), "{status}");
    assert_faster(time, Duration::from_secs(3));
    assert!(!kubelet.exists());
    for caller in callers {
        assert!(caller.join().unwrap().is_err());
    }
    drop(dir);
}

#[test]
fn a_plugin_that_comes_back_after_a_restart_is_not_deregistered() {
    let state = tempfile::tempdir().unwrap();
    let option = format!("--state-file={}", state.path().join("state").display());
    let mut node = Node::start_with(&[&option]);
    let plugins = node.plugins();
    let plugin = Simulated::start(&plugins, "DevicePlugin", "example.com/gpu", &["--legacy"]);
    node.until_registered("example.com/gpu");
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        until("it is saved", || {
            let saved = fs::read_to_string(state.path().join("state")).ok()?;
            saved.contains("example.com/gpu").then_some(())
        });
        let Node { dir, daemon } = node;
        daemon.end_with(signal);
        node = Node::start_in(dir, &[&option]);
        let lines = node
            .daemon
            .lines_until("example.com/gpu: received a device list");
        let is_about = |words| lines.iter().any(|line: &String| line.contains(words));
        assert!(!is_about("deregister"), "{lines:#?}");
        plugin.until_said("kubelet.sock was created, registering again");
        plugin.until_said("example.com/gpu: registered");
        assert_eq!(node.registered().len(), 1);
    }
}

#[test]
fn a_plugin_that_has_not_come_back_yet_is_kept_and_shown() {
    let state = tempfile::tempdir().unwrap();
    let option = format!("--state-file={}", state.path().join("state").display());
    let mut node = Node::start_with(&[&option]);
    let plugin = DevicePlugin::serve(&node.path("gpu.sock"));
    assert_eq!(node.register("gpu.sock", "example.com/gpu"), Ok(()));
    node.until_registered("example.com/gpu");
    let Node { dir, daemon } = node;
    daemon.end_with(Signal::SIGTERM);
    drop(plugin);
    let mut node = Node::start_in(dir, &[&option]);
    assert!(!node.path("gpu.sock").exists());
    let list = crate::support::client::ask(&node.api(), "GET", "/v1/plugins").json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["items"][0]["name"], "example.com/gpu");

    // Its successor has another endpoint.
    let _plugin = DevicePlugin::serve(&node.path("newer.sock"));
    assert_eq!(node.register("newer.sock", "example.com/gpu"), Ok(()));
    node.until_registered("example.com/gpu");
    node.daemon
        .until_logged(": deregistered DevicePlugin example.com/gpu");
    let endpoint = node.path("newer.sock").display().to_string();
    until("only the newer one is left", || {
        (node.registered() == [("example.com/gpu".to_owned(), endpoint.clone())]).then_some(())
    });
}

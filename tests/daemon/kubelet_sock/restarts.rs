//! The end of the daemon, and its next start.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::kubelet_sock::node::Node;
use crate::support::kubelet::{register, request};
use crate::support::timed::assert_faster;
use crate::support::until::until;

#[test]
fn a_daemon_that_stops_does_not_wait_for_registrations() {
    let node = Node::serving();
    let kubelet = node.kubelet();
    let mut callers = Vec::new();
    for n in 0..8 {
        let kubelet = kubelet.clone();
        let (file, name) = (format!("missing-{n}"), format!("example.com/missing-{n}"));
        callers.push(std::thread::spawn(move || {
            register(&kubelet, &request(&file, &name))
        }));
    }
    until("the plugins are being registered", || {
        let announced = [("reason", "Announced")];
        let calling = node.metrics().sum("plugind_events_total", &announced);
        (calling == 8).then_some(())
    });
    let Node { dir, daemon, .. } = node;
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
    let mut node = Node::serving_with(&[&option]);
    let plugin = node.simulate_legacy("example.com/gpu");
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        until("it is saved", || {
            let saved = fs::read_to_string(state.path().join("state")).ok()?;
            saved.contains("example.com/gpu").then_some(())
        });
        let Node { dir, daemon, .. } = node;
        daemon.end_with(signal);
        node = Node::serving_in(dir, &[&option]);
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

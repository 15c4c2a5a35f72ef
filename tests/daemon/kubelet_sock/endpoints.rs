//! What a plugin may name as its endpoint, its version and its resource.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::device_plugins::scripted::Scripted;
use crate::kubelet_sock::node::{Node, rejection};
use crate::support::bind::bind;
use crate::support::kubelet::{register, request};
use crate::support::timed::assert_faster;

#[test]
fn an_endpoint_that_cannot_be_used_is_refused() {
    let node = Node::serving();
    let outside = node.dir.path().join("outside.sock");
    let _outside = UnixListener::bind(&outside).unwrap();
    fs::write(node.path("file"), "").unwrap();
    fs::create_dir(node.path("directory")).unwrap();
    drop(bind(&node.path("dead.sock")));
    symlink("../outside.sock", node.path("out")).unwrap();
    symlink(&outside, node.path("absolute")).unwrap();
    symlink("nothing", node.path("dangling")).unwrap();
    let shown = |name| node.path(name).display().to_string();
    let dialing = |name, why: &str| {
        let path = shown(name);
        format!(
            "connection error: desc = \"transport: Error while dialing: dial unix {path}: {why}\""
        )
    };
    let expired = || "context deadline exceeded".to_owned();
    let refused = "connect: connection refused";
    let leads_out = "a symbolic link leads out of the directory";
    let rows = [
        ("missing.sock", expired()),
        ("dead.sock", expired()),
        ("dangling", expired()),
        ("file", dialing("file", refused)),
        ("directory", dialing("directory", refused)),
        ("out", dialing("out", leads_out)),
        ("absolute", dialing("absolute", leads_out)),
    ];
    let kubelet = node.kubelet();
    thread::scope(|scope| {
        for (endpoint, why) in rows {
            let kubelet = &kubelet;
            scope.spawn(move || {
                let start = Instant::now();
                let name = format!("example.com/{endpoint}");
                let result = register(kubelet, &request(endpoint, &name));
                let reason = format!("Unknown: failed to dial device plugin: {why}");
                assert_eq!(rejection(result), reason);
                assert_faster(start.elapsed(), Duration::from_secs(11));
            });
        }
    });
    assert!(node.registered().is_empty());
}

#[test]
fn a_link_to_a_socket_in_the_directory_is_an_endpoint() {
    let node = Node::serving();
    let plugin = Scripted::listing(&node.path("gpu.sock"), &["device"]);
    symlink("gpu.sock", node.path("link.sock")).unwrap();
    symlink(node.path("gpu.sock"), node.path("absolute.sock")).unwrap();
    for endpoint in ["link.sock", "absolute.sock", "./gpu.sock", "./link.sock"] {
        assert_eq!(
            node.register(endpoint, "example.com/gpu"),
            Ok(()),
            "{endpoint}"
        );
    }
    drop(plugin);
}

#[test]
fn a_long_request_is_refused_in_few_words() {
    let mut node = Node::serving();
    let texts = ["\u{1}".repeat(16_000), "ü".repeat(8_000)];
    for text in texts {
        for (endpoint, name) in [(&*text, "example.com/gpu"), ("gpu.sock", &*text)] {
            let reason = rejection(node.register(endpoint, name));
            assert!(reason.len() < 4096, "{}", reason.len());
            let line = node.daemon.until_logged(": rejected a device plugin: ");
            assert!(line.len() < 4096, "{}", line.len());
            assert!(line.contains(" pid="), "{line}");
        }
    }
    let reason = rejection(node.register(&"x".repeat(17_000), "example.com/gpu"));
    assert!(reason.starts_with("ResourceExhausted: "), "{reason}");
}

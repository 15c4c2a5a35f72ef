//! Inotify at its limits.

use std::fs::{self, File};
use std::time::Duration;

use crate::support::inside::{is_inside, test_of, within};
use crate::support::node::Node;
use crate::support::plugin::Plugin;
use crate::support::skip::skip;
use crate::support::watches;

/// Runs a test with limits of its own, which can only be lower than those outside.
fn limited<F: FnOnce()>(prepare: &str, body: F) {
    if is_inside(test_of::<F>()) || watches::are_enough_or_skip() {
        within(prepare, body);
    }
}

/// Returns whether the loop will examine something again within the tick.
pub(crate) fn is_scanning(node: &Node) -> bool {
    let next = node.plugins.poll_timeout();
    next.is_some_and(|next| next <= Duration::from_secs(1))
}

#[test]
fn without_an_inotify_instance_plugins_come_on_the_tick() {
    limited(&format!("echo 0 > {MAX_INSTANCES}"), || {
        let mut node = Node::start();
        assert!(is_scanning(&node));
        fs::create_dir(node.path("sub")).unwrap();
        let plugin = node.register("sub/reg.sock", "slow");
        plugin.stop();
        node.until_handler_is_told("deregister slow");
        assert!(is_scanning(&node));

        fs::write(MAX_INSTANCES, "16").unwrap();
        node.until_quiet();
        let _plugin = node.register("sub/reg.sock", "fast");
        node.until_quiet();
    });
}

#[test]
fn a_directory_without_a_watch_is_scanned_on_the_tick() {
    // Three watches: the root, the directory above it, and one below it.
    limited(&format!("echo 3 > {MAX_WATCHES}"), || {
        let mut node = Node::start();
        fs::create_dir(node.path("first")).unwrap();
        let watched = node.register("first/reg.sock", "watched");
        node.until_quiet();

        fs::create_dir(node.path("second")).unwrap();
        let scanned = node.register("second/reg.sock", "scanned");
        assert!(is_scanning(&node));
        scanned.stop();
        node.until_handler_is_told("deregister scanned");
        watched.stop();
        node.until_handler_is_told("deregister watched");

        fs::write(MAX_WATCHES, "16").unwrap();
        node.until_quiet();
    });
}

/// The queue is filled up to its limit; the limit is not lowered, because it applies to the whole
/// machine.
#[test]
fn what_happens_while_the_queue_overflows_is_found_by_a_scan() {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > MOST_EVENTS {
        return skip("filling the queue of inotify would take long");
    }
    if !watches::are_enough_or_skip() {
        return;
    }
    let mut node = Node::start();
    fs::create_dir(node.path("sub")).unwrap();
    let stays = Plugin::serve(&node.path("stays.sock"), "stays");
    let goes = Plugin::serve(&node.path("sub/goes.sock"), "goes");
    node.until_registered(&stays);
    node.until_registered(&goes);
    // No operation may run out of time while the queue is filled.
    node.until_quiet();

    let noise = node.path("noise");
    for _ in 0..=limit / 2 {
        File::create(&noise).unwrap();
        fs::remove_file(&noise).unwrap();
    }
    goes.stop();
    let comes = Plugin::serve(&node.path("sub/comes.sock"), "comes");
    node.record.take();
    let mut notified = node.until_handler_is_told("register comes");
    if !notified.contains(&"deregister goes".to_owned()) {
        notified.extend(node.until_handler_is_told("deregister goes"));
    }
    notified.sort();
    assert_eq!(
        notified,
        ["deregister goes", "register comes", "validate comes"]
    );
    node.until_registered(&comes);
    assert_eq!(stays.try_notified(), None, "it was not called again");
}

/// The limit on inotify instances per user of this namespace.
const MAX_INSTANCES: &str = "/proc/sys/user/max_inotify_instances";

/// The limit on inotify watches per user of this namespace.
const MAX_WATCHES: &str = "/proc/sys/user/max_inotify_watches";

/// The longest queue that this test fills, which takes a second.
const MOST_EVENTS: usize = 200_000;

//! Thousands of names at once: links to a dead socket, and links to another file.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::support::bind::bind;
use crate::support::node::Node;
use crate::support::plugin::Plugin;

#[test]
fn thousands_of_links_to_a_dead_socket_delay_no_plugin() {
    let mut node = Node::start();
    fs::create_dir(node.path("crowd")).unwrap();
    let dead = node.path("crowd/dead.sock");
    drop(bind(&dead));
    for n in 0..17_000 {
        fs::hard_link(&dead, node.path(&format!("crowd/{n}"))).unwrap();
    }
    let beside = node.register("beside.sock", "beside");
    let _within = node.register("crowd/within.sock", "within");
    let Node { dir, plugins, .. } = node;
    drop(plugins);
    let mut node = Node::start_on(dir);
    node.until_registered(&beside);
}

#[test]
fn a_storm_of_new_names_is_spread_over_turns() {
    let mut node = Node::start();
    node.until_quiet();
    for n in 0..NAMES {
        symlink("/dev/null", node.path(&n.to_string())).unwrap();
    }
    let honest = Plugin::serve(&node.path("honest.sock"), "honest");
    let mut turns = 0;
    let notified = node.until("the plugin is told", |node| {
        turns += 1;
        node.plugins.turn(Some(Duration::ZERO)).unwrap();
        honest.try_notified()
    });
    assert!(notified.plugin_registered);
    assert!(turns > NAMES / MOST_NAMES, "{turns} turns");
}

/// The number of names that appear at once: fewer than the events that inotify queues.
const NAMES: usize = 10_000;

/// More names than one turn examines.
const MOST_NAMES: usize = 512;

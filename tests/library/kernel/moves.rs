//! Sockets and directories that are moved in, out and within.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::bind::bind;
use crate::support::node::{Node, watching};
use crate::support::plugin::Plugin;

#[test]
fn a_socket_that_is_moved_in_counts() {
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("reg.sock");
    let mut node = Node::start();
    let plugin = Plugin::serve(&outside, "mover");
    fs::rename(&outside, node.path("reg.sock")).unwrap();
    node.until_registered(&plugin);
    node.until_handler_is_told("register mover");
    fs::rename(node.path("reg.sock"), &outside).unwrap();
    node.until_asked("deregister mover");
    node.until_desired(0);
}

#[test]
fn a_socket_that_is_renamed_is_registered_under_its_new_path() {
    let mut node = Node::start();
    let plugin = node.register("old.sock", "mover");
    node.until_handler_is_told("register mover");
    fs::rename(node.path("old.sock"), node.path("new.sock")).unwrap();
    node.until_registered(&plugin);
    node.until("the old path is given up", |node| {
        let new = node.path("new.sock");
        (node.registered() == 1 && node.is_registered(&new)).then_some(())
    });
}

#[test]
fn a_directory_that_is_moved_in_brings_its_plugins() {
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("driver");
    fs::create_dir_all(outside.join("deeper")).unwrap();
    let above = Plugin::serve(&outside.join("reg.sock"), "above");
    let below = Plugin::serve(&outside.join("deeper/reg.sock"), "below");
    let mut node = Node::start();
    let within = node.path("driver");
    fs::rename(&outside, &within).unwrap();
    node.until_registered(&above);
    node.until_registered(&below);
    fs::rename(&within, &outside).unwrap();
    node.until_desired(0);
    node.until("both are deregistered", |node| {
        (node.registered() == 0).then_some(())
    });

    // Changes in the moved directory do not matter now; those at its old place do.
    let stranger = Plugin::serve(&outside.join("deeper/stranger.sock"), "stranger");
    fs::create_dir(&within).unwrap();
    let _new = node.register(within.join("reg.sock"), "new");
    assert_eq!(stranger.try_notified(), None);
    node.until_desired(1);
}

#[test]
fn a_link_that_leads_to_another_socket_is_noticed() {
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("reg.sock");
    let mut node = Node::start();
    symlink(&target, node.path("link.sock")).unwrap();
    let bound = bind(&target);
    fs::rename(node.path("link.sock"), node.path("again.sock")).unwrap();
    node.until_desired(1);
    // The link itself does not change, so the kernel reports nothing.
    drop(bound);
    fs::remove_file(&target).unwrap();
    let _plugin = node.register(&target, "linked");
}

#[test]
fn a_root_that_is_a_symbolic_link_is_resolved() {
    let real = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    symlink(real.path(), &link).unwrap();
    let mut node = Node::start_with(dir, &watching(&link));
    let plugin = node.register(real.path().join("reg.sock"), "linked");
    assert!(node.is_registered(&link.join("reg.sock")));
    plugin.stop();
    node.until_handler_is_told("deregister linked");
}

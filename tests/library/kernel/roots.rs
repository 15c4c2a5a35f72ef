//! Roots that are lost: removed, renamed, unmounted, covered.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::kernel::limits::is_scanning;
use crate::kernel::mounts::node_below;
use crate::support::node::{Node, watching};
use crate::support::plugin::Plugin;

#[test]
fn a_root_that_is_renamed_away_is_lost() {
    let (mut node, root) = node_below(|_| ());
    let _plugin = node.register(root.join("reg.sock"), "before");
    let away = node.path("away");
    fs::rename(&root, &away).unwrap();
    node.until_handler_is_told("deregister before");
    let stranger = Plugin::serve(&away.join("stranger.sock"), "stranger");
    node.until("the directory is there again", |_| {
        root.exists().then_some(())
    });
    let _plugin = node.register(root.join("reg.sock"), "after");
    assert_eq!(stranger.try_notified(), None);
}

#[test]
fn a_root_without_reports_is_scanned_on_the_tick() {
    let unused = tempfile::tempdir().unwrap();
    let config = watching(Path::new("/proc/sys/kernel/random"));
    let node = Node::start_with(unused, &config);
    assert!(is_scanning(&node));
}

#[test]
fn a_root_whose_link_is_pointed_elsewhere_shows_that() {
    let above = tempfile::tempdir().unwrap();
    let at = |name: &str| above.path().join(name);
    fs::create_dir(at("first")).unwrap();
    fs::create_dir(at("second")).unwrap();
    symlink(at("first"), at("root")).unwrap();
    symlink(at("second"), at("next")).unwrap();
    let old = Plugin::serve(&at("first/reg.sock"), "old");
    let new = Plugin::serve(&at("second/reg.sock"), "new");
    let (root, next) = (at("root"), at("next"));
    let config = watching(&root);
    let mut node = Node::start_with(above, &config);
    node.until_registered(&old);
    fs::rename(next, root).unwrap();
    node.until_registered(&new);
    node.until("the old one is deregistered", |node| {
        (node.registered() == 1).then_some(())
    });
}

//! Mounts that appear and disappear above a root, at it and below it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::inside::{cover, uncover, within};
use crate::support::node::{Node, watching};

/// Returns a node whose root, prepared by `prepare`, lies in a directory of its own.
pub(crate) fn node_below(prepare: impl FnOnce(&Path)) -> (Node, PathBuf) {
    let above = tempfile::tempdir().unwrap();
    let root = above.path().join("node/registry");
    fs::create_dir_all(&root).unwrap();
    prepare(&root);
    let config = watching(&root);
    (Node::start_with(above, &config), root)
}

#[test]
fn a_root_that_is_unmounted_lazily_shows_the_plugins_below() {
    within("true", || {
        let (mut node, root) = node_below(cover);
        let _covering = node.register(root.join("reg.sock"), "covering");
        uncover(&root);
        node.until_handler_is_told("deregister covering");
        let _plugin = node.register(root.join("reg.sock"), "below");
    });
}

#[test]
fn a_root_under_a_new_mount_is_created_in_it() {
    within("true", || {
        let (mut node, root) = node_below(|_| ());
        let plugin = node.register(root.join("reg.sock"), "hidden");
        let above = root.parent().unwrap();
        cover(above);
        node.until_handler_is_told("deregister hidden");
        node.until("the root is created", |_| root.exists().then_some(()));
        uncover(above);
        node.until_registered(&plugin);
    });
}

#[test]
fn a_directory_that_is_mounted_over_shows_the_plugins() {
    within("true", || {
        for below in ["", "sub"] {
            let (mut node, root) = node_below(|root| fs::create_dir(root.join("sub")).unwrap());
            let dir = root.join(below);
            let _covered = node.register(dir.join("reg.sock"), "covered");
            cover(&dir);
            node.until_handler_is_told("deregister covered");
            let _plugin = node.register(dir.join("reg.sock"), "above");
        }
    });
}

#[test]
fn mounts_elsewhere_wake_the_loop_at_most_twice_a_second() {
    within("mount -t tmpfs none /mnt", || {
        let (mut node, _) = node_below(|_| ());
        node.until_quiet();
        let start = Instant::now();
        let (mut turns, mut mounted) = (0_u32, 0_u32);
        while start.elapsed() < Duration::from_millis(2500) {
            cover(Path::new("/mnt"));
            uncover(Path::new("/mnt"));
            mounted += 2;
            let next = node.plugins.poll_timeout();
            let is_due = next.is_some_and(|next| next.is_zero());
            if is_due || node.is_readable() {
                node.plugins.turn(Some(Duration::ZERO)).unwrap();
                turns += 1;
            }
        }
        // Up to two turns, for an event and for a read: at once, and after each second.
        let most = 2 * (1 + u32::try_from(start.elapsed().as_secs()).unwrap());
        assert!(
            (2..=most).contains(&turns) && turns < mounted,
            "{turns} turns for {mounted} mounts"
        );
    });
}

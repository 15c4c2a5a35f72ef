//! File systems that are mounted on the directory, and not there any more.

use std::fs;

use crate::kubelet_sock::directory::{register, until_listening};
use crate::kubelet_sock::node::Node;
use crate::support::inside::{cover, uncover, within};

#[test]
fn a_directory_that_is_mounted_over_has_a_kubelet_sock() {
    within("true", || {
        let mut node = Node::serving();
        let _below = register(&mut node, "below");
        cover(&node.plugins());
        until_listening(&node.kubelet());
        let _above = register(&mut node, "above");
        uncover(&node.plugins());
        until_listening(&node.kubelet());
        let _again = register(&mut node, "again");
    });
}

#[test]
fn a_directory_above_that_is_mounted_over_is_created() {
    within("true", || {
        let mut node = Node::serving();
        // The registry, too: a plugin there is not what this is about.
        cover(node.dir.path());
        until_listening(&node.kubelet());
        fs::create_dir_all(node.dir.path().join("run")).unwrap();
        let _plugin = register(&mut node, "gpu");
    });
}

//! File systems that are mounted on the directory, and not there any more.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::kubelet_sock::directory::{register, until_listening};
use crate::kubelet_sock::node::Node;
use crate::support::inside::inside;

/// Runs `mount` or `umount`.
fn run(program: &str, options: &[&str], dir: &Path) {
    let status = Command::new(program).args(options).arg(dir).status();
    assert!(status.unwrap().success());
}

/// Mounts an empty file system on `dir`.
fn cover(dir: &Path) {
    run("mount", &["-t", "tmpfs", "none"], dir);
}

#[test]
fn a_directory_that_is_mounted_over_has_a_kubelet_sock() {
    let name = "kubelet_sock::mounts::a_directory_that_is_mounted_over_has_a_kubelet_sock";
    inside(name, "true", || {
        let mut node = Node::serving();
        let _below = register(&mut node, "below");
        cover(&node.plugins());
        until_listening(&node.kubelet());
        let _above = register(&mut node, "above");
        run("umount", &["--lazy"], &node.plugins());
        until_listening(&node.kubelet());
        let _again = register(&mut node, "again");
    });
}

#[test]
fn a_directory_above_that_is_mounted_over_is_created() {
    let name = "kubelet_sock::mounts::a_directory_above_that_is_mounted_over_is_created";
    inside(name, "true", || {
        let mut node = Node::serving();
        // The registry, too: a plugin there is not what this is about.
        cover(node.dir.path());
        until_listening(&node.kubelet());
        fs::create_dir_all(node.dir.path().join("run")).unwrap();
        let _plugin = register(&mut node, "gpu");
    });
}

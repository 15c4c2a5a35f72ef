//! Names that are exchanged in one step: `renameat2(RENAME_EXCHANGE)`.

use std::fs;
use std::path::Path;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::support::node::Node;
use crate::support::plugin::Plugin;
use crate::support::watches;

/// Exchanges the two paths.
fn exchange(a: &Path, b: &Path) {
    renameat2(AT_FDCWD, a, AT_FDCWD, b, RenameFlags::RENAME_EXCHANGE).unwrap();
}

/// Takes turns until exactly these paths, relative to the watched directory, are registered.
#[track_caller]
fn until_registered_at(node: &mut Node, paths: &[&str]) {
    let paths: Vec<_> = paths.iter().map(|path| node.path(path)).collect();
    node.until("the plugins are registered under their new paths", |node| {
        let are_registered = paths.iter().all(|path| node.is_registered(path));
        (are_registered && node.registered() == paths.len()).then_some(())
    });
}

#[test]
fn two_directories_that_change_places_take_their_plugins_along() {
    if !watches::are_enough_or_skip() {
        return;
    }
    let mut node = Node::start();
    fs::create_dir_all(node.path("a/deeper")).unwrap();
    fs::create_dir(node.path("b")).unwrap();
    let plugins = [
        Plugin::serve(&node.path("a/x.sock"), "x"),
        Plugin::serve(&node.path("a/deeper/y.sock"), "y"),
        Plugin::serve(&node.path("b/z.sock"), "z"),
    ];
    for plugin in &plugins {
        node.until_registered(plugin);
    }
    for round in 1..=6 {
        exchange(&node.path("a"), &node.path("b"));
        let (of_xy, of_z) = if round % 2 == 0 {
            ("a", "b")
        } else {
            ("b", "a")
        };
        let paths = [
            format!("{of_xy}/x.sock"),
            format!("{of_xy}/deeper/y.sock"),
            format!("{of_z}/z.sock"),
        ];
        until_registered_at(&mut node, &paths.each_ref().map(String::as_str));
        for plugin in &plugins {
            node.until_registered(plugin);
        }
    }
    // Both are still watched.
    let new = ["a", "b"].map(|dir| Plugin::serve(&node.path(dir).join("new.sock"), dir));
    for plugin in &new {
        node.until_registered(plugin);
    }
    node.until_quiet();
}

#[test]
fn two_sockets_that_change_places_are_registered_again() {
    let mut node = Node::start();
    let a = Plugin::serve(&node.path("a.sock"), "a");
    let b = Plugin::serve(&node.path("b.sock"), "b");
    node.until_registered(&a);
    node.until_registered(&b);
    exchange(&node.path("a.sock"), &node.path("b.sock"));
    node.until_registered(&a);
    node.until_registered(&b);
    until_registered_at(&mut node, &["a.sock", "b.sock"]);
    let name = |path: &str| {
        let socket = node.plugins.manager().socket(&node.path(path)).unwrap();
        socket.registered().unwrap().plugin.name.clone()
    };
    assert_eq!(["a.sock", "b.sock"].map(name), ["b", "a"]);

    // The socket is exchanged with a file: afterwards the plugin is at the other path.
    fs::write(node.path("file"), "").unwrap();
    exchange(&node.path("a.sock"), &node.path("file"));
    until_registered_at(&mut node, &["b.sock", "file"]);
    node.until_registered(&b);
}

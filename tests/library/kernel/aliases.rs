//! Hard links and symbolic links to a plugin's socket.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::node::{Node, describe};
use crate::support::plugin::Plugin;

type Link = fn(&Path, &Path) -> std::io::Result<()>;

/// The two ways to make another name for a socket.
const LINKS: [(&str, Link); 2] = [
    ("hard", |socket, link| fs::hard_link(socket, link)),
    ("symbolic", |socket, link| symlink(socket, link)),
];

impl Node {
    /// Takes turns until all earlier changes in the directories have been seen: a plugin that
    /// appears after them is registered.
    #[track_caller]
    fn until_all_is_seen(&mut self, name: &str) {
        let marker = Plugin::serve(&self.path(name), name);
        self.until_registered(&marker);
        marker.stop();
        self.until(name, |node| {
            (!node.is_registered(&node.path(name))).then_some(())
        });
    }

    /// Returns what the handler was told about the plugin with this name.
    fn notified_of(&self, name: &str) -> Vec<String> {
        let notified = self.record.take();
        let notified = notified.iter().map(describe);
        notified
            .filter(|it| it.ends_with(&format!(" {name}")))
            .collect()
    }
}

#[test]
fn a_link_to_a_registered_plugin_s_socket_is_not_another_plugin() {
    for (how, link) in LINKS {
        let mut node = Node::start();
        let socket = node.path("disk.sock");
        let plugin = Plugin::serve(&socket, "disk");
        node.until_registered(&plugin);
        fs::create_dir(node.path("neighbour")).unwrap();
        for name in ["a", "neighbour/a", "zzz"] {
            link(&socket, &node.path(name)).unwrap();
        }
        node.until_all_is_seen("marker-1");
        assert_eq!(plugin.try_notified(), None, "{how}");
        for name in ["a", "neighbour/a", "zzz"] {
            fs::remove_file(node.path(name)).unwrap();
        }
        node.until_all_is_seen("marker-2");
        assert_eq!(plugin.try_notified(), None, "{how}");
        assert_eq!(node.notified_of("disk"), ["validate disk", "register disk"]);
        plugin.stop();
        node.until_desired(0);
        node.until_handler_is_told("deregister disk");
    }
}

#[test]
fn links_from_before_the_start_are_not_other_plugins() {
    for (how, link) in LINKS {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("disk.sock");
        let plugin = Plugin::serve(&socket, "disk");
        fs::create_dir(dir.path().join("a")).unwrap();
        for name in ["0", "a/0", "zzz"] {
            link(&socket, &dir.path().join(name)).unwrap();
        }
        let mut node = Node::start_on(dir);
        node.until_registered(&plugin);
        node.until_all_is_seen("marker");
        assert_eq!(plugin.try_notified(), None, "{how}");
        assert_eq!(node.notified_of("disk"), ["validate disk", "register disk"]);
        assert_eq!(node.registered(), 1, "{how}");
    }
}

#[test]
fn a_socket_that_is_linked_and_unlinked_was_renamed() {
    let mut node = Node::start();
    let socket = node.path("disk.sock");
    let plugin = Plugin::serve(&socket, "disk");
    node.until_registered(&plugin);
    node.until_handler_is_told("register disk");
    fs::hard_link(&socket, node.path("other.sock")).unwrap();
    fs::remove_file(&socket).unwrap();
    node.until_registered(&plugin);
    let notified = node.until_handler_is_told("register disk");
    assert_eq!(
        notified,
        ["deregister disk", "validate disk", "register disk"]
    );
    assert!(node.is_registered(&node.path("other.sock")) && node.registered() == 1);
    plugin.leave();
}

#[test]
fn a_plugin_that_restarts_is_registered() {
    for (how, link) in LINKS {
        let mut node = Node::start();
        let socket = node.path("disk.sock");
        fs::create_dir(node.path("neighbour")).unwrap();
        for generation in 0..5 {
            let plugin = Plugin::serve(&socket, "disk");
            node.until_registered(&plugin);
            let name = node.path(&format!("neighbour/{generation}"));
            link(&socket, &name).unwrap();
            node.until_all_is_seen(&format!("marker-{generation}"));
            assert_eq!(plugin.try_notified(), None, "{how}");
            plugin.stop();
        }
        node.until("the last one is deregistered", |node| {
            (how == "hard" || node.registered() == 0).then_some(())
        });
    }
}

#[test]
fn a_link_to_a_socket_outside_is_the_plugin_s_only_name() {
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("disk.sock");
    let plugin = Plugin::serve(&outside, "disk");
    let mut node = Node::start();
    symlink(&outside, node.path("disk-reg.sock")).unwrap();
    node.until_registered(&plugin);
    assert!(node.is_registered(&node.path("disk-reg.sock")));
    plugin.stop();
}

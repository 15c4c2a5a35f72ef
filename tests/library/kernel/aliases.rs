//! Hard links and symbolic links to a plugin's socket.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::node::Node;
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
        let mut notified = self.record.take();
        notified.retain(|it| it.ends_with(&format!(" {name}")));
        notified
    }
}

#[test]
fn a_link_to_a_registered_plugin_s_socket_is_not_another_plugin() {
    for (how, link) in LINKS {
        let mut node = Node::start();
        let socket = node.path("disk.sock");
        let plugin = node.register(&socket, "disk");
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
fn a_socket_that_is_linked_and_unlinked_was_renamed() {
    let mut node = Node::start();
    let socket = node.path("disk.sock");
    let plugin = node.register(&socket, "disk");
    node.until_handler_is_told("register disk");
    fs::hard_link(&socket, node.path("other.sock")).unwrap();
    fs::remove_file(&socket).unwrap();
    node.until_registered(&plugin);
    node.until_asked("deregister disk, validate disk, register disk");
    assert!(node.is_registered(&node.path("other.sock")) && node.registered() == 1);
    plugin.leave();
}

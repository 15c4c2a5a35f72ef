//! A mount namespace in which something is missing that is there nearly everywhere.

use crate::inside::inside;
use crate::node::Node;
use crate::plugin::Plugin;

#[test]
fn a_plugin_is_registered_where_proc_is_not_mounted() {
    let name = "bare::a_plugin_is_registered_where_proc_is_not_mounted";
    inside(name, "mount -t tmpfs none /proc", || {
        let mut node = Node::start();
        let plugin = Plugin::serve(&node.path("reg.sock"), "bare");
        node.until_registered(&plugin);
    });
}

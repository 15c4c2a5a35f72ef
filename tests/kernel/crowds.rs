//! More sockets than there are places for.

use std::fs;

use crate::node::Node;
use crate::plugin::{Plugin, bind};

#[test]
fn thousands_of_links_to_a_dead_socket_keep_no_plugin_away_not_even_at_a_restart() {
    let mut node = Node::start();
    fs::create_dir(node.path("crowd")).unwrap();
    let dead = node.path("crowd/dead.sock");
    drop(bind(&dead));
    for n in 0..17_000 {
        fs::hard_link(&dead, node.path(&format!("crowd/{n}"))).unwrap();
    }
    let beside = Plugin::serve(&node.path("beside.sock"), "beside");
    node.until_registered(&beside);
    let within = Plugin::serve(&node.path("crowd/within.sock"), "within");
    node.until_registered(&within);
    let Node { dir, plugins, .. } = node;
    drop(plugins);
    let mut node = Node::start_on(dir);
    node.until_registered(&beside);
    node.until_registered(&within);
}

//! Plugins that take over a name from a plugin of another user.

use crate::handlers::log;
use crate::handlers::node::Node;
use crate::script::Script;

const OLD: &str = "/r/old-reg.sock";
const NEW: &str = "/r/new-reg.sock";

/// Returns a DRA driver that runs as this user.
fn driver(name: &str, uid: u32) -> Script {
    let mut script = Script::good("DRAPlugin", name);
    script.info.supported_versions = vec!["v1.DRAPlugin".to_owned()];
    Script { uid, ..script }
}

/// Returns the warnings when this plugin registers at `socket` while one of user 0 is registered at
/// [`OLD`].
fn warnings(socket: &str, plugin: Script) -> Vec<String> {
    log::collect();
    let mut node = Node::new();
    node.world.appear(OLD, driver("nic", 0));
    node.world.appear(socket, plugin);
    assert_eq!(node.notified(socket), Ok(()));
    log::take()
}

#[test]
fn a_plugin_of_another_user_with_the_same_name_is_a_warning() {
    for socket in [NEW, OLD] {
        let line = format!(
            "{socket}: DRAPlugin nic takes the place of a plugin of another user; \
             uid=1000 previous-uid=0 previous-socket=/r/old-reg.sock"
        );
        assert_eq!(warnings(socket, driver("nic", 1000)), [line]);
    }
}

#[test]
fn a_rolling_update_and_another_name_are_worth_no_warning() {
    for socket in [NEW, OLD] {
        for plugin in [driver("nic", 0), driver("disk", 1000)] {
            assert_eq!(warnings(socket, plugin), [""; 0]);
        }
    }
}

//! Plugins that take over a name from a plugin of another user.

use std::path::Path;

use plugind::config::{Distrust, Mode, Trust, TrustMode};
use plugind::manager::PluginEvent;

use crate::handlers::node::Node;
use crate::script::Script;

const OLD: &str = "/r/old-reg.sock";
const NEW: &str = "/r/new-reg.sock";

/// Returns a DRA driver that runs as this user.
fn driver(name: &str, uid: u32) -> Script {
    let script = Script::good("DRAPlugin", name).with_uid(uid);
    script.with_versions(&["v1.DRAPlugin"])
}

/// Returns a node in which user 1000 is trusted.
fn node(mode: TrustMode) -> Node {
    let mut node = Node::new();
    node.world.manager.set_trust(Trust {
        mode,
        uids: vec![1000],
        ..Trust::default()
    });
    node.world.appear(OLD, driver("nic", 0));
    assert_eq!(node.notified(OLD), Ok(()));
    node
}

#[test]
fn a_plugin_of_another_user_with_the_same_name_is_a_warning() {
    for socket in [NEW, OLD] {
        for (name, uid) in [("nic", 1000), ("nic", 0), ("disk", 1000)] {
            let mut node = node(TrustMode::Warn);
            node.world.appear(socket, driver(name, uid));
            assert_eq!(node.notified(socket), Ok(()));
            let line = format!(
                "{socket}: DRAPlugin nic takes the place of a plugin of another user; \
                 uid=1000 previous_uid=0 previous_socket=/r/old-reg.sock"
            );
            let is_other = (name, uid) == ("nic", 1000);
            let expected: Vec<_> = is_other.then_some(line).into_iter().collect();
            assert_eq!(node.world.warnings(), expected, "{name} {uid}");
        }
    }
}

#[test]
fn a_name_of_another_user_is_refused_until_it_is_free() {
    let mut node = node(TrustMode::Strict);
    node.world.appear(NEW, driver("nic", 1000));
    let refused = node.notified(NEW).unwrap_err();
    let words = "user 0 has a plugin with the same name; allowed once that plugin is deregistered";
    assert!(refused.contains(words), "{refused}");
    node.world.vanish(OLD);
    assert_eq!(node.notified(NEW), Ok(()));
    node.world.appear(OLD, driver("nic", 0));
    assert_eq!(node.notified(OLD), Ok(()), "root takes what it wants");
}

#[test]
fn an_endpoint_of_another_user_is_refused_in_strict_mode_only() {
    let thief = |uid| driver("other", uid).at(OLD);
    let mut strict = node(TrustMode::Strict);
    strict.world.appear(NEW, thief(1000));
    let refused = strict.notified(NEW).unwrap_err();
    let words = "user 0 has a plugin with the same endpoint";
    assert!(refused.contains(words), "{refused}");
    let mut warned = node(TrustMode::Warn);
    warned.world.appear(NEW, thief(1000));
    assert_eq!(warned.notified(NEW), Ok(()));
    let records = warned.world.manager.records();
    let record = records.get(Path::new(NEW)).unwrap();
    assert!(record.distrust[0].to_string().contains(words));
    let mut own = node(TrustMode::Strict);
    own.world.appear(NEW, thief(0));
    assert_eq!(own.notified(NEW), Ok(()));
}

#[test]
fn a_directory_of_others_is_refused_in_strict_mode_only() {
    for (mode, is_refused) in [(TrustMode::Warn, false), (TrustMode::Strict, true)] {
        let mut node = node(mode);
        let dirs = vec![("/r".into(), Distrust::Directory("open".into()))];
        let now = node.world.now;
        let manager = &mut node.world.manager;
        manager.set_distrusted_directories(dirs.clone(), now);
        manager.set_distrusted_directories(dirs, now);
        node.world.run();
        let warning = "other users can change a directory: open";
        assert_eq!(node.world.warnings(), [warning]);
        node.world.appear(NEW, driver("disk", 0));
        assert_eq!(node.notified(NEW).is_err(), is_refused);
        let manager = &mut node.world.manager;
        manager.set_distrusted_directories(Vec::new(), now);
        node.world.appear(NEW, driver("disk", 0));
        assert_eq!(node.notified(NEW), Ok(()));
    }
}

#[test]
fn a_dry_run_reports_distrust_as_an_event_about_security() {
    let mut world = node(TrustMode::Strict).world;
    world.manager.set_mode(Mode::Observe);
    let dirs = vec![("/r".into(), Distrust::Directory("open".into()))];
    world.manager.set_distrusted_directories(dirs, world.now);
    world.appear(NEW, driver("disk", 0));
    let mut events = world.events.iter();
    let refused = events.find(|it| it.reason() == "WouldRefuse");
    assert!(refused.is_some_and(PluginEvent::is_security), "{refused:?}");
}

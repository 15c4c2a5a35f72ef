//! Directories that are added and removed at run time.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use plugind::config::Config;
use plugind::daemon::{PluginManager, SetupError, SocketProblem};
use plugind::handler::HandlerTable;
use plugind::watch::Problem;

use crate::support::inside::{cover, uncover, within};
use crate::support::node::{Node, watching};
use crate::support::plugin::Plugin;

/// Returns a node on the directory `first` in a directory of its own, with a run directory in it.
fn node() -> Node {
    let above = tempfile::tempdir().unwrap();
    let config = Config {
        run_dir: Some(above.path().join("run")),
        state_file: Some(above.path().join("state")),
        ..watching(&above.path().join("first"))
    };
    Node::start_with(above, &config)
}

/// Tries to start another plugin manager on a directory.
fn start_another(node: &Node, dir: &Path) -> Result<PluginManager, SetupError> {
    let config = Config {
        run_dir: Some(node.path("run")),
        ..watching(dir)
    };
    PluginManager::new(&config, HandlerTable::new())
}

/// Returns whether the loop has something to do.
fn is_ready(node: &Node) -> bool {
    node.is_readable() || node.plugins.poll_timeout() == Some(Duration::ZERO)
}

#[test]
fn a_directory_is_added_and_removed_with_its_plugins() {
    let mut node = node();
    let _stays = node.register("first/reg.sock", "stays");
    let second = node.path("apart/second");
    for name in ["once", "again"] {
        assert!(node.plugins.add_directory(&second).unwrap());
        assert!(!node.plugins.add_directory(&second).unwrap());
        fs::create_dir_all(second.join("sub")).unwrap();
        let plugin = node.register(second.join("sub/reg.sock"), name);
        node.until("its registration is over", |node| {
            node.plugins.manager().is_idle().then_some(())
        });
        node.record.take();

        assert!(node.plugins.remove_directory(&second));
        assert!(!node.plugins.remove_directory(&second));
        node.until_asked(&format!("deregister {name}"));
        node.until_quiet();
        node.until("nothing is left to do", |node| {
            (!is_ready(node)).then_some(())
        });
        // Neither the directory nor the one above it is watched by now.
        File::create(second.join("sub/file")).unwrap();
        File::create(second.join(name)).unwrap();
        File::create(node.path("apart").join(name)).unwrap();
        assert!(!is_ready(&node));
        File::create(node.path("first").join(name)).unwrap();
        assert!(is_ready(&node));
        plugin.stop();
    }
    assert_eq!(node.plugins.directories(), [node.path("first")]);
    assert!(node.is_registered(&node.path("first/reg.sock")));
    node.plugins.save();
    let state = fs::read_to_string(node.path("state")).unwrap();
    let is_current = state.contains("stays") && !state.contains("again");
    assert!(is_current, "{state}");
    let mode = fs::metadata(&second).unwrap().permissions().mode();
    assert_eq!(mode & 0o007, 0, "{mode:o}");
}

#[test]
fn the_lock_of_a_directory_is_taken_and_released() {
    let mut node = node();
    let second = node.path("second");
    let theirs = start_another(&node, &second).unwrap();
    let Err(SetupError::Taken { dir, holder, .. }) = node.plugins.add_directory(&second) else {
        panic!("two plugin managers use one directory");
    };
    assert_eq!((dir, holder), (second.clone(), Some(std::process::id())));
    assert_eq!(node.plugins.directories(), [node.path("first")]);
    drop(theirs);

    let plugin = Plugin::serve(&second.join("reg.sock"), "mine");
    assert!(node.plugins.add_directory(&second).unwrap());
    assert!(start_another(&node, &second).is_err());
    node.until_registered(&plugin);
    node.plugins.remove_directory(&second);
    assert!(start_another(&node, &second).is_ok());
    node.until_quiet();
    assert_eq!(node.registered(), 0);
    assert!(start_another(&node, &node.path("first")).is_err());
    assert!(node.plugins.add_directory(&second).unwrap());
    node.until_registered(&plugin);
}

#[test]
fn a_directory_that_cannot_be_used_is_not_added() {
    let mut node = node();
    let file = node.path("file");
    File::create(&file).unwrap();
    let sub = node.path("first/sub");
    fs::create_dir(&sub).unwrap();
    symlink(node.path("first"), node.path("link")).unwrap();
    let plugin = node.register(sub.join("reg.sock"), "known");
    let [locks, link] = ["run/locks", "link"].map(|name| node.path(name));
    let locks = || fs::read_dir(&locks).unwrap().count();
    let before = locks();
    // A link to the directory itself is the same directory; one on the way to it is refused.
    assert!(!node.plugins.add_directory(&link).unwrap());
    for bad in [file.clone(), file.join("below"), link.join("sub")] {
        let Err(SetupError::Directory { dir, problem }) = node.plugins.add_directory(&bad) else {
            panic!("{bad:?} was added");
        };
        assert_eq!(*dir, *bad);
        let is_nested = problem == Problem::Nested(node.path("first").into());
        assert_eq!(is_nested, bad.ends_with("sub"));
        assert_eq!(locks(), before);
    }
    assert_eq!(node.plugins.directories(), [node.path("first")]);
    node.until_quiet();
    plugin.stop();
    node.until_handler_is_told("deregister known");
}

#[test]
fn a_directory_inside_another_one_is_refused() {
    let mut node = node();
    let first = node.path("first");
    let inner = first.join("inner");
    let link = first.join("link");
    fs::create_dir(node.path("apart")).unwrap();
    symlink(node.path("apart"), &link).unwrap();
    let is_nested = |refused| {
        let problem = Problem::Nested(first.as_path().into());
        matches!(refused, Err(SetupError::Directory { problem: it, .. }) if it == problem)
    };
    for added in [&inner, &link, &node.dir.path().to_owned()] {
        assert!(is_nested(node.plugins.add_directory(added).map(drop)));
        let mut config = watching(&first);
        config.plugins_dirs.push(added.clone());
        assert!(is_nested(
            PluginManager::new(&config, HandlerTable::new()).map(drop)
        ));
    }
    assert_eq!(node.plugins.directories(), [first]);
}

#[test]
fn a_removed_directory_that_is_created_again_can_be_added_again() {
    let mut node = node();
    let second = node.path("second");
    node.plugins.add_directory(&second).unwrap();
    let _plugin = node.register(second.join("reg.sock"), "before");
    node.plugins.remove_directory(&second);
    fs::remove_dir_all(&second).unwrap();
    // It is added again before the plugin is deregistered.
    node.plugins.add_directory(&second).unwrap();
    let _plugin = node.register(second.join("reg.sock"), "after");
    node.until("the first one is deregistered", |node| {
        (node.registered() == 1).then_some(())
    });
    assert!(start_another(&node, &second).is_err());
    fs::remove_dir_all(&second).unwrap();
    node.until_handler_is_told("deregister after");
    node.until("it is created again", |_| second.exists().then_some(()));
}

#[test]
fn a_directory_on_a_mount_is_added_and_its_mounts_are_followed() {
    within("mount -t tmpfs none /mnt", || {
        let mut node = node();
        let second = Path::new("/mnt/second");
        node.plugins.add_directory(second).unwrap();
        let covered = node.register(second.join("reg.sock"), "covered");
        cover(second);
        node.until_handler_is_told("deregister covered");
        let over = node.register(second.join("reg.sock"), "over");
        node.plugins.remove_directory(second);
        node.until_handler_is_told("deregister over");
        node.until_quiet();
        over.leave();
        uncover(second);
        node.plugins.add_directory(second).unwrap();
        node.until_registered(&covered);
    });
}

#[test]
fn a_directory_that_overlaps_device_plugins_is_not_added() {
    let above = tempfile::tempdir().unwrap();
    let config = Config {
        run_dir: Some(above.path().join("run")),
        device_plugins_dir: Some(above.path().join("node/device-plugins")),
        ..watching(&above.path().join("first"))
    };
    let mut node = Node::start_with(above, &config);
    for name in ["node", "node/device-plugins", "node/device-plugins/new"] {
        let error = node.plugins.add_directory(&node.path(name)).unwrap_err();
        let SetupError::DevicePlugins { problem, .. } = error else {
            panic!("{error}");
        };
        assert!(matches!(problem, SocketProblem::Overlaps(_)), "{problem:?}");
    }
    let beside = node.path("node/registry");
    assert!(node.plugins.add_directory(&beside).unwrap());
    assert_eq!(node.plugins.directories().len(), 2);
}

//! The links to the endpoints of registered plugins, by type and name.

use std::collections::BTreeMap;
use std::fs::{self};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plugind::config::{Config, Mode, PathMap, READY_GRACE};
use plugind::daemon::PluginManager;
use plugind::handler::HandlerTable;

use crate::support::node::{Node, watching};
use crate::support::plugin::Plugin;

/// Returns the configuration of a plugin manager with links, in a directory for both.
fn with_links(above: &Path) -> Config {
    Config {
        run_dir: Some(above.join("run")),
        links_by_name: true,
        ..watching(&above.join("registry"))
    }
}

fn node() -> Node {
    let above = tempfile::tempdir().unwrap();
    let config = with_links(above.path());
    Node::start_with(above, &config)
}

fn serve(node: &Node, socket: &str, name: &str) -> Plugin {
    Plugin::serve(&node.path("registry").join(socket), name)
}

/// Returns the links below a run directory, and the paths that they lead to.
fn links(run_dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut links = BTreeMap::new();
    let types = fs::read_dir(run_dir.join("by-name")).into_iter().flatten();
    for entry in types.map(Result::unwrap) {
        let names = fs::read_dir(entry.path()).into_iter().flatten();
        for link in names.map(Result::unwrap) {
            let name = link.path();
            let name = name.strip_prefix(run_dir.join("by-name")).unwrap();
            let target = fs::read_link(link.path()).unwrap_or_default();
            links.insert(name.to_str().unwrap().to_owned(), target);
        }
    }
    links
}

/// Takes turns until these are the links: names of plugins and of the sockets that they lead to.
#[track_caller]
fn until_linked(node: &mut Node, expected: &[(&str, &str)]) {
    let registry = node.path("registry");
    let expected = expected.iter().map(|(name, socket)| {
        let link = format!("CSIPlugin/{name}.sock");
        (link, registry.join(socket))
    });
    let expected: BTreeMap<_, _> = expected.collect();
    let run_dir = node.path("run");
    node.until(&format!("{expected:?}"), |_| {
        (links(&run_dir) == expected).then_some(())
    });
}

#[test]
fn a_link_leads_to_the_newest_plugin_of_a_name() {
    let mut node = node();
    let old = serve(&node, "old.sock", "example.com/a");
    until_linked(&mut node, &[("example.com%2Fa", "old.sock")]);
    let new = serve(&node, "new.sock", "example.com/a");
    until_linked(&mut node, &[("example.com%2Fa", "new.sock")]);
    let other = serve(&node, "other.sock", "b");
    let both = [("example.com%2Fa", "new.sock"), ("b", "other.sock")];
    until_linked(&mut node, &both);
    new.stop();
    until_linked(&mut node, &[("example.com%2Fa", "old.sock"), both[1]]);
    old.stop();
    other.stop();
    until_linked(&mut node, &[]);
    node.until_quiet();
    let left = fs::read_dir(node.path("run/by-name")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn after_a_restart_links_of_removed_plugins_are_removed() {
    let above = tempfile::tempdir().unwrap();
    let config = with_links(above.path());
    let run_dir = above.path().join("run");
    let mut node = Node::start_with(above, &config);
    let (stays, goes) = (serve(&node, "a.sock", "a"), serve(&node, "b.sock", "b"));
    until_linked(&mut node, &[("a", "a.sock"), ("b", "b.sock")]);
    let Node { dir, plugins, .. } = node;
    drop(plugins);
    goes.stop();
    assert_eq!(links(&run_dir).len(), 2, "an orderly end leaves them");

    let by_name = run_dir.join("by-name");
    symlink("/nowhere", by_name.join("CSIPlugin/.new")).unwrap();
    fs::create_dir(by_name.join("EmptyType")).unwrap();
    fs::write(by_name.join("CSIPlugin/precious.sock"), "data").unwrap();
    fs::write(by_name.join("file"), "data").unwrap();
    let start = Instant::now();
    let mut node = Node::start_with(dir, &config);
    let link = by_name.join("CSIPlugin/a.sock");
    node.until("the link is removed", |_| {
        assert!(fs::symlink_metadata(&link).is_ok());
        let is_there = fs::symlink_metadata(by_name.join("CSIPlugin/b.sock")).is_ok();
        (!is_there).then_some(())
    });
    assert!(start.elapsed() + BUSY > READY_GRACE);
    node.until_quiet();
    assert!(!by_name.join("CSIPlugin/.new").is_symlink() && !by_name.join("EmptyType").exists());
    let foreign = fs::read_to_string(by_name.join("CSIPlugin/precious.sock"));
    assert_eq!(foreign.unwrap(), "data");
    assert!(by_name.join("file").exists());
    drop(stays);
}

#[test]
fn a_link_leads_where_the_endpoint_is_dialed() {
    let above = tempfile::tempdir().unwrap();
    let mut path_map = PathMap::default();
    path_map.add("/its/own", above.path().join("registry"));
    let config = Config {
        path_map,
        ..with_links(above.path())
    };
    let mut node = Node::start_with(above, &config);
    let socket = node.path("registry/a.sock");
    let _plugin = Plugin::serve_elsewhere(&socket, "a", Path::new("/its/own/a.sock"));
    until_linked(&mut node, &[("a", "a.sock")]);
    let socket = node.path("registry/b.sock");
    let _abstract = Plugin::serve_elsewhere(&socket, "b", Path::new("@b"));
    let long = "n".repeat(251);
    let _long = serve(&node, "c.sock", &long);
    node.until("all are registered", |node| {
        (node.registered() == 3).then_some(())
    });
    until_linked(&mut node, &[("a", "a.sock")]);
}

#[test]
fn a_file_or_directory_in_the_place_of_a_link_is_left_alone() {
    let above = tempfile::tempdir().unwrap();
    let config = with_links(above.path());
    let by_name = above.path().join("run/by-name");
    let mut node = Node::start_with(above, &config);
    fs::create_dir_all(by_name.join("CSIPlugin/dir.sock")).unwrap();
    fs::write(by_name.join("CSIPlugin/file.sock"), "data").unwrap();
    fs::write(by_name.join("DevicePlugin"), "data").unwrap();
    let _plugins = ["dir", "file", "c"].map(|name| serve(&node, name, name));
    let link = by_name.join("CSIPlugin/c.sock");
    node.until("the other link is made", |_| {
        link.is_symlink().then_some(())
    });
    node.until_quiet();
    assert!(by_name.join("CSIPlugin/dir.sock").is_dir());
    assert!(by_name.join("CSIPlugin/file.sock").is_file());
    assert!(!by_name.join(".new").is_symlink());
}

#[test]
fn links_that_were_removed_with_their_directory_come_again() {
    let mut node = node();
    let _a = serve(&node, "a.sock", "a");
    until_linked(&mut node, &[("a", "a.sock")]);
    fs::remove_dir_all(node.path("run/by-name")).unwrap();
    let _b = serve(&node, "b.sock", "b");
    until_linked(&mut node, &[("a", "a.sock"), ("b", "b.sock")]);
    fs::remove_dir_all(node.path("run")).unwrap();
    let _c = serve(&node, "c.sock", "c");
    let all = [("a", "a.sock"), ("b", "b.sock"), ("c", "c.sock")];
    until_linked(&mut node, &all);
}

#[test]
fn one_process_keeps_the_links_of_a_run_directory() {
    let mut node = node();
    let _a = serve(&node, "a.sock", "a");
    until_linked(&mut node, &[("a", "a.sock")]);
    let start = |registry: &str, mode| {
        let config = Config {
            plugins_dirs: vec![node.path(registry)],
            mode,
            ..with_links(node.dir.path())
        };
        PluginManager::new(&config, HandlerTable::new()).unwrap()
    };
    let mut others = [
        start("other", Mode::Register),
        start("registry", Mode::Observe),
    ];
    let end = Instant::now() + READY_GRACE + BUSY;
    while Instant::now() < end {
        for other in &mut others {
            other.turn(Some(Duration::from_millis(10))).unwrap();
        }
    }
    assert_eq!(links(&node.path("run")).len(), 1);
}

/// The additional time that a busy machine may take.
const BUSY: Duration = Duration::from_millis(900);

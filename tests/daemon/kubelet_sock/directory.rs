//! A directory that is removed, replaced and moved while the daemon runs, and `kubelet.sock` in it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use plugind::config::REGISTRATION_RETRY;

use crate::device_plugins::scripted::Scripted;
use crate::kubelet_sock::node::Node;
use crate::support::kubelet::request;
use crate::support::timed::assert_faster;
use crate::support::until::until;

/// Waits until the daemon listens on `kubelet.sock`.
#[track_caller]
pub(crate) fn until_listening(kubelet: &Path) {
    until("kubelet.sock is listened on", || {
        UnixStream::connect(kubelet).ok()
    });
}

/// Registers a plugin in the directory as it is now.
#[track_caller]
pub(crate) fn register(node: &mut Node, name: &str) -> Scripted {
    until_listening(&node.kubelet());
    let plugin = Scripted::listing(&node.path(name), &["device"]);
    let resource = format!("example.com/{name}");
    assert_eq!(node.register(name, &resource), Ok(()));
    node.until_registered(&resource);
    plugin
}

#[test]
fn a_kubelet_sock_that_is_removed_is_created_again_at_once() {
    let mut node = Node::serving();
    let plugin = node.simulate_legacy("example.com/gpu");
    plugin.until_said("example.com/gpu: registered");
    fs::remove_file(node.kubelet()).unwrap();
    let start = Instant::now();
    node.daemon
        .until_logged("kubelet.sock was removed or replaced, creating it again");
    plugin.until_said("kubelet.sock was created, registering again");
    plugin.until_said("example.com/gpu: registered");
    assert_faster(start.elapsed(), Duration::from_secs(3));
    node.until_registered("example.com/gpu");
}

#[test]
fn a_directory_that_is_renamed_away_is_created_again() {
    let mut node = Node::serving();
    let _before = register(&mut node, "before");
    let away = node.dir.path().join("away");
    fs::rename(node.plugins(), &away).unwrap();
    until_listening(&node.kubelet());
    let mode = fs::metadata(node.plugins()).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o750);
    let _after = register(&mut node, "after");

    // And replaced by the other one in one step.
    let newer = fs::metadata(node.plugins()).unwrap().ino();
    let exchanged = nix::fcntl::renameat2(
        nix::fcntl::AT_FDCWD,
        &away,
        nix::fcntl::AT_FDCWD,
        &node.plugins(),
        nix::fcntl::RenameFlags::RENAME_EXCHANGE,
    );
    assert_eq!(exchanged, Ok(()));
    assert_ne!(fs::metadata(node.plugins()).unwrap().ino(), newer);
    let _again = register(&mut node, "again");
}

#[test]
fn a_directory_above_that_is_renamed_away_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("node/kubelet/device-plugins");
    let option = format!("--device-plugins-dir={}", plugins.display());
    let node = Node::serving_in(dir, &[&option]);
    let above = node.dir.path().join("node/kubelet");
    fs::rename(&above, node.dir.path().join("away")).unwrap();
    let kubelet = plugins.join("kubelet.sock");
    until_listening(&kubelet);
    let _plugin = Scripted::listing(&plugins.join("gpu"), &["device"]);
    assert_eq!(
        crate::support::kubelet::register(&kubelet, &request("gpu", "example.com/gpu")),
        Ok(())
    );
}

#[test]
fn a_kubelet_sock_that_is_always_removed_is_made_a_few_times() {
    let node = Node::serving();
    let before = node.turns();
    let start = Instant::now();
    for _ in 0..4 {
        until("kubelet.sock is there", || {
            fs::remove_file(node.kubelet()).ok()
        });
    }
    // It was created at once the first time only.
    assert!(start.elapsed() >= 2 * REGISTRATION_RETRY.first);
    let turns = node.turns() - before;
    assert!(turns < 200, "{turns} turns");
}

#[test]
fn another_process_that_listens_on_kubelet_sock_keeps_it() {
    let mut node = Node::serving();
    let taken = node.path("taken");
    let other = UnixListener::bind(&taken).unwrap();
    fs::rename(&taken, node.kubelet()).unwrap();
    let pid = std::process::id();
    node.daemon.until_logged(&format!(
        "cannot serve kubelet.sock, retrying: process {pid} listens on it"
    ));
    // It is left alone, and the log does not repeat what is known.
    let inode = fs::metadata(node.kubelet()).unwrap().ino();
    assert!(node.daemon.is_silent_for(Duration::from_millis(700)));
    assert_eq!(fs::metadata(node.kubelet()).unwrap().ino(), inode);
    drop(other);
    node.daemon
        .until_logged("device plugins can register again");
    until_listening(&node.kubelet());
    let _after = register(&mut node, "after");
}

#[test]
fn a_regular_file_in_the_place_of_kubelet_sock_is_left_alone() {
    let mut node = Node::serving();
    let file = node.path("file");
    fs::write(&file, "data").unwrap();
    fs::rename(&file, node.kubelet()).unwrap();
    node.daemon
        .until_logged("cannot serve kubelet.sock, retrying: it is not a socket");
    assert_eq!(fs::read(node.kubelet()).unwrap(), b"data");
    fs::remove_file(node.kubelet()).unwrap();
    node.daemon
        .until_logged("device plugins can register again");
    let _after = register(&mut node, "after");
}

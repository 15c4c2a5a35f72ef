//! What the daemon does in the directory when it starts, and when it refuses to start.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use nix::sys::socket::{Shutdown, shutdown};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use crate::device_plugins::scripted::Scripted;
use crate::kubelet_sock::node::{Node, line};
use crate::support::bind::bind;
use crate::support::daemon::Daemon;
use crate::support::kubelet::{register, request};
use crate::support::process::Process;
use crate::support::without::{Without, lacks};

/// Runs a daemon that cannot start, and returns what it prints.
#[track_caller]
fn run(dir: &Path, options: &[&str]) -> String {
    let ran = Process::run(Process::command().arg("run").args(line(dir, options)));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    ran.err
}

/// Runs a daemon that cannot start, and returns why it cannot serve device plugins.
#[track_caller]
fn refusal(dir: &Path, options: &[&str]) -> String {
    let said = run(dir, options);
    let last = said.lines().last().expect("a line about the error");
    let start = "plugind: cannot serve device plugins on kubelet.sock in ";
    let rest = last.strip_prefix(start);
    let (_, why) = rest.and_then(|it| it.split_once(": ")).expect(&said);
    why.to_owned()
}

/// Returns a directory, and the directory of device plugins in it.
fn prepared() -> (TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("device-plugins");
    fs::create_dir(&plugins).unwrap();
    (dir, plugins)
}

#[test]
fn what_others_may_do_depends_on_no_umask() {
    for mask in ["000", "077"] {
        let (dir, plugins) = prepared();
        let options = line(dir.path(), &[]);
        fs::remove_dir(dir.path().join("run")).unwrap();
        let mut command = Process::command_behind(&format!("umask {mask} &&"));
        let _daemon = Daemon::start_command(command.arg("run").args(options));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&plugins.join("kubelet.sock")), 0o600, "{mask}");
        assert_eq!(mode(&dir.path().join("run")), 0o755, "{mask}");
    }
}

#[test]
fn a_missing_directory_is_created() {
    for name in ["a/b/device-plugins".to_owned(), "long/".repeat(40)] {
        let dir = tempfile::tempdir().unwrap();
        let plugins = dir.path().join(name);
        let option = format!("--device-plugins-dir={}", plugins.display());
        let mut node = Node::serving_in(dir, &[&option]);
        let mode = fs::metadata(&plugins).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o750);
        // The test itself needs a path that is short enough.
        let short = tempfile::tempdir().unwrap();
        let link = short.path().join("d");
        symlink(&plugins, &link).unwrap();
        let _plugin = Scripted::listing(&link.join("gpu.sock"), &["device"]);
        let request = request("gpu.sock", "example.com/gpu");
        let registered = register(&link.join("kubelet.sock"), &request);
        assert_eq!(registered, Ok(()));
        node.until_registered("example.com/gpu");
        assert!(node.daemon.end_with(nix::sys::signal::SIGTERM).0.success());
        assert!(!plugins.join("kubelet.sock").exists());
    }
}

#[test]
fn a_kubelet_sock_in_use_prevents_the_start() {
    let (dir, plugins) = prepared();
    let kubelet = UnixListener::bind(plugins.join("kubelet.sock")).unwrap();
    let _plugin = UnixListener::bind(plugins.join("gpu.sock")).unwrap();
    let pid = std::process::id();
    assert_eq!(
        refusal(dir.path(), &[]),
        format!("process {pid} listens on it; stop that process first: it is probably a kubelet")
    );
    assert!(plugins.join("gpu.sock").exists());
    assert!(UnixStream::connect(plugins.join("kubelet.sock")).is_ok());
    // Processes that other tests start may still have the listener open.
    shutdown(kubelet.as_raw_fd(), Shutdown::Both).unwrap();
    let _node = Node::serving_in(dir, &[]);
    assert!(!plugins.join("gpu.sock").exists());
}

#[test]
fn a_kubelet_sock_that_is_not_a_socket_prevents_the_start() {
    for prepare in [
        |path: &Path| fs::write(path, "data").unwrap(),
        |path: &Path| fs::create_dir(path).unwrap(),
        |path: &Path| mkfifo(path, Mode::S_IRWXU).unwrap(),
        |path: &Path| symlink("/dev/null", path).unwrap(),
    ] {
        let (dir, plugins) = prepared();
        let _plugin = UnixListener::bind(plugins.join("gpu.sock")).unwrap();
        prepare(&plugins.join("kubelet.sock"));
        assert_eq!(refusal(dir.path(), &[]), "it is not a socket; remove it");
        assert!(plugins.join("gpu.sock").exists());
        assert!(fs::symlink_metadata(plugins.join("kubelet.sock")).is_ok());
    }
}

#[test]
fn a_directory_that_cannot_be_used_prevents_the_start() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("device-plugins"), "data").unwrap();
    let remedy = "; name a directory that can be written to";
    assert_eq!(
        refusal(dir.path(), &[]),
        format!("File exists (os error 17){remedy}")
    );
    if lacks(Without::Proc) {
        return;
    }
    // Nothing can be created there, not even by root.
    for dir_name in ["/proc/self/task", "/proc/missing"] {
        let option = format!("--device-plugins-dir={dir_name}");
        let why = refusal(dir.path(), &[&option]);
        assert!(why.ends_with(remedy), "{why}");
    }
}

#[test]
fn a_directory_that_overlaps_with_a_root_prevents_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let registry = dir.path().join("registry");
    fs::create_dir_all(registry.join("inside")).unwrap();
    symlink(&registry, dir.path().join("link")).unwrap();
    let shown = registry.display();
    let expected = format!(
        "it overlaps with the plugins directory {shown}; name another directory with \
         --device-plugins-dir"
    );
    for name in [
        "registry",
        "registry/inside",
        "registry/new",
        "link",
        "link/new",
        "",
    ] {
        let option = format!("--device-plugins-dir={}", dir.path().join(name).display());
        assert_eq!(refusal(dir.path(), &[&option]), expected, "{name:?}");
    }
    assert!(!registry.join("kubelet.sock").exists());
}

#[test]
fn two_daemons_cannot_have_one_directory() {
    let node = Node::serving();
    let other = tempfile::tempdir().unwrap();
    let kubelet = fs::metadata(node.kubelet()).unwrap().ino();
    // With one run directory, the lock tells; with another one, the socket.
    let plugins = format!("--device-plugins-dir={}", node.plugins().display());
    let registry = format!("--plugins-dir={}", other.path().join("other").display());
    let run_dir = format!("--run-dir={}", node.dir.path().join("run").display());
    let options = [&*plugins, &registry, &run_dir, "--socket=none"];
    let said = run(other.path(), &options);
    assert!(said.contains("device-plugins"), "{said}");
    let why = refusal(other.path(), &[&plugins]);
    assert!(why.contains(" listens on it"), "{why}");
    assert_eq!(fs::metadata(node.kubelet()).unwrap().ino(), kubelet);
}

#[test]
fn a_dry_run_does_not_listen_and_removes_nothing() {
    let (dir, plugins) = prepared();
    let _plugin = UnixListener::bind(plugins.join("gpu.sock")).unwrap();
    drop(bind(&plugins.join("kubelet.sock")));
    let node = Node::serving_in(dir, &["--observe"]);
    let said = node
        .daemon
        .seen_with("dry run: device plugins cannot register in ");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(plugins.join("gpu.sock").exists());
    let error = UnixStream::connect(plugins.join("kubelet.sock")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

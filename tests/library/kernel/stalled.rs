//! File systems that do not answer: FUSE mounts for which no process reads requests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, exit};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use plugind::config::{Config, HandlerConfig};
use plugind::daemon::handlers;

use crate::support::inside::{inside, test_of};
use crate::support::node::{Node, watching};
use crate::support::plugin::Plugin;
use crate::support::skip::fuse_can_be_opened_or_skip;
use crate::support::text::assert_has;

/// Returns a node with the built-in handlers, which call plugins at their endpoints.
fn node_that_asks_endpoints() -> Node {
    let dir = tempfile::tempdir().unwrap();
    let (table, _) = handlers(&HandlerConfig::default()).unwrap();
    let config = watching(dir.path());
    Node::start_handling(dir, &config, table)
}

/// Runs a test with an unresponsive mount on `/mnt` and a descriptor for another one.
#[track_caller]
fn stalled<F: FnOnce()>(body: F) {
    if !fuse_can_be_opened_or_skip() {
        return;
    }
    // The mount returns an error once the last descriptor of its connection is closed, so the
    // descriptor stays open in the test. The other descriptor is for a mount that the test makes.
    let prepare = format!("exec 3<>/dev/fuse 4<>/dev/fuse && {}", mount(3, "/mnt"));
    inside(test_of::<F>(), &prepare, || {
        // A system call that waits for such a mount returns only when the process ends.
        let (ended, end) = mpsc::channel::<()>();
        thread::spawn(move || {
            if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                exit(1);
            }
        });
        body();
        drop(ended);
    });
}

/// Returns the command that mounts the FUSE connection of a descriptor.
fn mount(descriptor: u8, dir: &str) -> String {
    let options = format!("fd={descriptor},rootmode=40000,user_id=0,group_id=0");
    format!("mount -i -t fuse -o {options} stalled {dir}")
}

/// Unmounts a directory without examining it.
fn unmount(dir: &Path) {
    run(&format!("umount -c -i -l {}", dir.to_str().unwrap()));
}

fn run(script: &str) {
    let status = Command::new("sh").args(["-c", script]).status();
    assert!(status.unwrap().success(), "{script}");
}

#[test]
fn a_link_to_a_mount_that_does_not_answer_is_ignored() {
    stalled(|| {
        let dir = tempfile::tempdir().unwrap();
        symlink("/mnt/a.sock", dir.path().join("before.sock")).unwrap();
        let mut node = Node::start_on(dir);
        let inner = tempfile::tempdir().unwrap();
        let own_root = Path::new("/proc/self/root");
        symlink("/mnt", inner.path().join("way")).unwrap();
        for (name, target) in [
            ("direct", Path::new("/mnt/a.sock")),
            ("mount", Path::new("/mnt")),
            ("up", Path::new("/tmp/../mnt/a.sock")),
            ("magic", &own_root.join("mnt/a.sock")),
            ("behind", &inner.path().join("way/a.sock")),
        ] {
            symlink(target, node.path(name)).unwrap();
        }
        // Links to file systems that answer are followed, whatever else is mounted.
        let elsewhere = inner.path().join("a.sock");
        let linked = Plugin::serve(&elsewhere, "linked");
        symlink(&elsewhere, node.path("linked.sock")).unwrap();
        node.until_registered(&linked);
        let _honest = node.register("honest.sock", "honest");
        node.until_desired(2);
    });
}

#[test]
fn an_endpoint_on_a_dead_mount_is_refused_with_that_reason() {
    stalled(|| {
        let mut node = node_that_asks_endpoints();
        symlink("/mnt", node.path("way")).unwrap();
        let magic = Path::new("/proc/self/root").join("mnt/csi.sock");
        let dead = "may not answer, so it is not dialed file_system=fuse";
        for (name, endpoint, reason) in [
            ("direct", Path::new("/mnt/csi.sock"), dead),
            ("link", &node.path("way/csi.sock"), dead),
            ("magic", &magic, "through a symbolic link on /proc"),
        ] {
            let socket = node.path(&format!("{name}.sock"));
            let plugin = Plugin::serve_elsewhere(&socket, name, endpoint);
            let notified = node.until_notified(&plugin);
            assert!(!notified.plugin_registered, "{name}");
            assert_has(&notified.error, reason);
        }
        let _honest = node.register("honest.sock", "honest");
    });
}

#[test]
fn a_sub_directory_on_a_dead_mount_is_not_looked_into() {
    stalled(|| {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("sub");
        fs::create_dir(&sub).unwrap();
        run(&mount(4, sub.to_str().unwrap()));
        let config = watching(dir.path());
        let mut node = Node::start_with(dir, &config);
        let _honest = node.register("honest.sock", "honest");
        unmount(&sub);
    });
}

/// Exchanges the directory `a` and a symbolic link to the mount.
fn exchange(dir: &Path) {
    let [a, away, link] = ["a", ".away", ".link"].map(|name| dir.join(name));
    symlink("/mnt", &link).unwrap();
    fs::rename(&a, &away).unwrap();
    fs::rename(&link, &a).unwrap();
}

#[test]
fn a_socket_whose_directory_turns_into_a_link_delays_nothing() {
    stalled(|| {
        let mut node = Node::start();
        fs::create_dir(node.path("a")).unwrap();
        let socket = node.path("a/s.sock");
        let _replaced = node.register(&socket, "replaced");
        node.until_quiet();
        fs::remove_file(&socket).unwrap();
        exchange(node.dir.path());
        let _honest = node.register("honest.sock", "honest");
        node.until_desired(1);
    });
}

#[test]
fn a_mount_that_does_not_answer_and_comes_later_is_noticed() {
    stalled(|| {
        let later = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config: Config = watching(dir.path());
        let mut node = Node::start_with(dir, &config);
        run(&mount(4, later.path().to_str().unwrap()));
        let seen = node.plugins.poll_timeout();
        node.plugins.turn(Some(Duration::ZERO)).unwrap();
        assert_ne!(node.plugins.poll_timeout(), seen, "the change is noticed");
        node.until_quiet();
        symlink(later.path().join("a.sock"), node.path("link.sock")).unwrap();
        let _honest = node.register("honest.sock", "honest");
        unmount(later.path());
    });
}

#[test]
fn an_endpoint_on_a_mount_that_died_just_now_delays_nothing() {
    stalled(|| {
        let young = tempfile::tempdir().unwrap();
        let mut node = node_that_asks_endpoints();
        let endpoint = young.path().join("csi.sock");
        let dead = Plugin::serve_elsewhere(&node.path("dead.sock"), "dead", &endpoint);
        // The node does not know the mount: it reads the table of mounts again after a second.
        run(&mount(4, young.path().to_str().unwrap()));
        let notified = node.until_notified(&dead);
        assert!(!notified.plugin_registered);
        assert_has(&notified.error, "may not answer");
        let _honest = node.register("honest.sock", "honest");
        unmount(young.path());
    });
}

#[test]
fn thousands_of_links_that_take_many_steps_make_no_turn_long() {
    stalled(|| {
        let mut node = Node::start();
        let crowd = node.path(".crowd");
        fs::create_dir(&crowd).unwrap();
        let deep = "d/".repeat(235);
        fs::create_dir_all(node.path(".deep").join(&deep)).unwrap();
        for n in 0..500 {
            let way = &deep[..if n % 2 == 0 { 100 } else { deep.len() }];
            symlink(format!("../.deep/{way}a.sock"), crowd.join(n.to_string())).unwrap();
        }
        node.until_quiet();
        fs::rename(&crowd, node.path("crowd")).unwrap();
        let within = Plugin::serve(&node.path("crowd/within.sock"), "within");
        let (mut longest, mut is_registered) = (Duration::ZERO, false);
        let is_busy = |node: &Node| {
            let next = node.plugins.poll_timeout();
            next.is_some_and(|next| next <= Duration::from_secs(60))
        };
        while !is_registered || is_busy(&node) {
            let before = processor_time();
            node.plugins.turn(Some(LOOK_AGAIN)).unwrap();
            longest = longest.max(processor_time().saturating_sub(before));
            let notified = within.try_notified();
            is_registered |= notified.is_some_and(|it| it.plugin_registered);
        }
        assert!(longest < LONG, "{longest:?}");
    });
}

/// Returns the processor time that this thread has used: on a busy machine, a turn may have to wait
/// for its processor.
fn processor_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    let used = usage.user_time() + usage.system_time();
    Duration::from_micros(u64::try_from(used.num_microseconds()).unwrap())
}

/// The longest wait in a turn: the plugin's thread notices its registration without an event.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The limit for a turn on any machine, many times what one takes.
const LONG: Duration = Duration::from_millis(100);

/// The limit for a test, many times what one takes.
const PATIENCE: Duration = Duration::from_secs(30);

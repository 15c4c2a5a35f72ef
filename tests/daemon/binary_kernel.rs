//! The built binary, for what only a real kernel can show: plugins that are killed, sockets that
//! are moved and replaced, a root that is removed. `tests/kernel` tests more of it with the
//! library.

use std::ffi::OsStr;
use std::fs;

use crate::support::daemon::Daemon;
use crate::support::inside::inside;
use crate::support::plugin::Plugin;
use crate::support::simulated::Simulated;
use crate::support::without::{Without, lacks, until_exists};

older_kernels! {
    without_so_peerpidfd: PeerPidfd [];
    without_birth_times: BirthTimes [];
    without_openat2: Openat2 [];
    without_pidfd_open: PidfdOpen [];
    without_statx: Statx [];
    where_a_filter_denies_what_it_does_not_know: Denied [];
    without_inotify: Inotify [];
    without_proc: Proc [
        "a_state_file_is_written_when_a_full_disk_has_room_again": "namespaces are made through /proc",
    ];
}

#[test]
fn a_plugin_that_is_killed_is_down_and_registered_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(dir.path());
    let plugin = Simulated::start(dir.path(), "CSIPlugin", "mortal", &[]);
    until_registered(&mut daemon, "mortal");
    plugin.kill();
    assert_eq!(plugin.until_ended().code(), None);
    let line = daemon.until_logged(" is down");
    assert!(line.contains("mortal"), "{line}");

    let again = Simulated::start(dir.path(), "CSIPlugin", "mortal", &[]);
    until_deregistered(&mut daemon, "mortal");
    until_registered(&mut daemon, "mortal");
    again.until_said("received NotifyRegistrationStatus: registered");
}

#[test]
fn a_socket_that_is_moved_in_is_registered() {
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("reg.sock");
    let dir = tempfile::tempdir().unwrap();
    let within = dir.path().join("reg.sock");
    let mut daemon = Daemon::start(dir.path());
    let plugin = Plugin::serve(&outside, "mover");
    for _ in 0..2 {
        fs::rename(&outside, &within).unwrap();
        until_registered(&mut daemon, "mover");
        assert!(plugin.until_notified().plugin_registered);
        fs::rename(&within, &outside).unwrap();
        until_deregistered(&mut daemon, "mover");
    }
}

#[test]
fn a_socket_that_is_replaced_is_deregistered() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("reg.sock");
    let mut daemon = Daemon::start(dir.path());
    let _old = Plugin::serve(&socket, "old");
    until_registered(&mut daemon, "old");
    let hidden = dir.path().join(".reg.sock");
    let new = Plugin::serve(&hidden, "new");
    fs::rename(&hidden, &socket).unwrap();
    until_deregistered(&mut daemon, "old");
    until_registered(&mut daemon, "new");
    assert!(new.until_notified().plugin_registered);
}

#[test]
fn a_state_file_is_written_when_a_full_disk_has_room_again() {
    let name = "binary_kernel::a_state_file_is_written_when_a_full_disk_has_room_again";
    inside(name, "mount -t tmpfs -o size=8k,mode=755 none /mnt", || {
        let dir = tempfile::tempdir().unwrap();
        let options = ["--state-file=/mnt/state", "--plugins-dir"].map(OsStr::new);
        let mut daemon = Daemon::start_with(&[&options[..], &[dir.path().as_os_str()]].concat());
        assert!(fs::write("/mnt/filler", [0; 16 * 1024]).is_err());
        let plugin = Plugin::serve(&dir.path().join("reg.sock"), "sample");
        assert!(plugin.until_notified().plugin_registered);
        daemon.until_logged(": cannot write the state file, retrying: ");
        fs::remove_file("/mnt/filler").unwrap();
        daemon.until_logged(": the state file can be written again");
        let saved = fs::read_to_string("/mnt/state").unwrap();
        assert!(saved.contains("\"sample\""), "{saved}");
    });
}

#[test]
fn a_root_that_is_removed_with_its_plugins_is_created() {
    let above = tempfile::tempdir().unwrap();
    let root = above.path().join("registry");
    let mut daemon = Daemon::start(&root);
    let _before = Plugin::serve(&root.join("reg.sock"), "before");
    until_registered(&mut daemon, "before");
    fs::remove_dir_all(&root).unwrap();
    until_deregistered(&mut daemon, "before");
    if lacks(Without::Inotify) {
        until_exists(&root);
    } else {
        daemon.until_logged("directory is being watched again");
    }
    let after = Plugin::serve(&root.join("reg.sock"), "after");
    until_registered(&mut daemon, "after");
    assert!(after.until_notified().plugin_registered);
}

#[track_caller]
fn until_registered(daemon: &mut Daemon, name: &str) {
    daemon.until_logged(&format!(": registered CSIPlugin {name}"));
}

#[track_caller]
fn until_deregistered(daemon: &mut Daemon, name: &str) {
    daemon.until_logged(&format!(": deregistered CSIPlugin {name}"));
}

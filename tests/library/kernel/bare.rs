//! Mount namespaces without something that nearly every system has.

use std::fs;
use std::path::Path;

use plugind::config::Config;

use crate::support::bind::bind;
use crate::support::inside::within;
use crate::support::node::{Node, watching};
use crate::support::plugin::{Plugin, set_times};

#[test]
fn a_plugin_is_registered_where_proc_is_not_mounted() {
    within("mount -t tmpfs none /proc", || {
        let mut node = Node::start();
        let _plugin = node.register("reg.sock", "bare");
    });
}

#[test]
fn a_state_file_is_not_used_where_the_boot_id_cannot_be_read() {
    within("mount -t tmpfs none /proc", || {
        let memory = tempfile::tempdir().unwrap();
        let file = memory.path().join("state.json");
        let dir = tempfile::tempdir().unwrap();
        let saved = format!(
            r#"{{"format":"plugind registered plugins 2","boot":"","plugins":[{{"socket":{:?},
            "device":1,"inode":1,"born":[1,1],"type":"CSIPlugin","name":"before",
            "endpoint":"/p","versions":[]}}]}}"#,
            dir.path().join("before.sock")
        );
        fs::write(&file, &saved).unwrap();
        let config = Config {
            state_file: Some(file.clone()),
            ..watching(dir.path())
        };
        let mut node = Node::start_with(dir, &config);
        let _plugin = node.register("reg.sock", "after");
        node.plugins.save();
        node.until_asked("validate after, register after");
        let kept = fs::read_to_string(file).unwrap();
        assert_eq!(kept, saved, "the state file is not changed");
    });
}

#[test]
fn a_socket_whose_times_change_is_registered() {
    // ramfs keeps no birth times, and neither does tmpfs before Linux 5.18.
    within("mount -t ramfs none /mnt", || {
        let dir = tempfile::tempdir_in("/mnt").unwrap();
        assert!(fs::metadata(dir.path()).unwrap().created().is_err());
        let mut node = Node::start_on(dir);
        let socket = node.path("reg.sock");
        let bound = bind(&socket);
        node.until_desired(1);
        set_times(&socket);
        let plugin = Plugin::listen_on(bound, &socket, "touched");
        node.until_registered(&plugin);
    });
}

#[test]
fn a_state_file_that_could_not_be_written_is_written() {
    within("mount -t tmpfs -o size=8k,mode=755 none /mnt", || {
        let file = Path::new("/mnt/state.json");
        let dir = tempfile::tempdir().unwrap();
        let config = Config {
            state_file: Some(file.to_owned()),
            ..watching(dir.path())
        };
        let mut node = Node::start_with(dir, &config);
        let filler = Path::new("/mnt/filler");
        let filled = fs::write(filler, [0; 16 * 1024]);
        assert!(filled.is_err(), "the disk is full");
        let _plugin = node.register("reg.sock", "sample");
        node.until("it is registered", |node| {
            node.plugins.manager().is_idle().then_some(())
        });
        node.plugins.save();
        assert!(!file.exists());
        fs::remove_file(filler).unwrap();
        node.until("it is written", |_| {
            let saved = fs::read_to_string(file).unwrap_or_default();
            saved.contains("\"sample\"").then_some(())
        });
    });
}

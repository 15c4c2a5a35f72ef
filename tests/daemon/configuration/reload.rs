//! Reloads: by signal, by the API and by the command.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use plugind::proto::pluginregistration::registration;
use serde_json::Value;

use super::Place;
use crate::support::daemon::Daemon;
use crate::support::plugin::{Flaw, Plugin};
use crate::support::process::{Process, Ran};
use crate::support::program::install;
use crate::support::simulated::Simulated;
use crate::support::skip::programs_can_be_trusted_or_skip;
use crate::support::until::until;

/// The lines of each configuration here.
const OWN: &str = "run-dir DIR/run\nsocket DIR/api.sock\n";

/// A daemon with a configuration file.
struct Node {
    place: Place,
    daemon: Daemon,
}

impl Node {
    /// Starts a daemon on the directory `a`, with these further lines.
    fn start(lines: &str, options: &[&str]) -> Self {
        let place = Place::with(&[OWN, lines].concat());
        let daemon = place.start(options);
        Self { place, daemon }
    }

    /// Runs a command that asks the daemon.
    fn ask(&self, arguments: &[&str]) -> Ran {
        Process::ask(&self.place.path("api.sock"), arguments)
    }

    /// Runs one that prints JSON.
    fn ask_json(&self, command: &str) -> Value {
        serde_json::from_str(&self.ask(&[command, "-o", "json"]).out).unwrap()
    }

    /// Writes another configuration, and has the daemon read it. Returns what it prints.
    #[track_caller]
    fn reload(&self, lines: &str) -> String {
        self.place.write(&[OWN, lines].concat());
        let ran = self.ask(&["reload"]);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""));
        ran.out
    }

    /// Has the daemon read an invalid configuration. Returns the problems that are printed.
    #[track_caller]
    fn reload_in_vain(&self, lines: &str) -> String {
        self.place.write(&[OWN, lines].concat());
        let ran = self.ask(&["reload"]);
        assert_eq!((ran.code, &*ran.out), (Some(78), ""), "{ran:?}");
        ran.err
    }

    /// Serves a plugin with the name of its socket.
    fn serve(&self, dir: &str, kind: &str, name: &str) -> Plugin {
        let socket = self.place.path(dir).join(name);
        Plugin::serve_type(&socket, kind, name)
    }

    /// Returns the records.
    fn records(&self) -> Vec<Value> {
        self.ask_json("list")["items"].as_array().unwrap().clone()
    }
}

/// Returns what a reload prints.
fn printed(changed: &str, needs_restart: &str) -> String {
    format!("changed:       {changed}\nneedsRestart:  {needs_restart}\n")
}

const NONE: &str = "<none>";

#[test]
fn a_reload_without_a_change_touches_nothing() {
    let mut node = Node::start("plugins-dir DIR/a\n", &[]);
    let plugin = node.serve("a", "CSIPlugin", "one");
    assert!(plugin.until_notified().plugin_registered);
    node.daemon.until_logged("registered CSIPlugin one");
    let before = node.records();
    let same = "plugins-dir=DIR/../DIR/a # the same\ntype DRAPlugin\ntype CSIPlugin";
    let same = same.replace("DIR/../", "");
    assert_eq!(node.reload(&same), printed("type", NONE));
    assert_eq!(node.reload(&same), printed(NONE, NONE));
    node.daemon.signal(Signal::SIGHUP);
    node.daemon
        .until_logged("received SIGHUP, reloading the configuration");
    node.daemon
        .until_logged("reloaded the configuration: nothing has changed");
    assert_eq!(node.records(), before);
    assert!(plugin.try_notified().is_none());
}

#[test]
fn directories_come_and_go_with_their_plugins() {
    let mut node = Node::start("plugins-dir DIR/a\nplugins-dir DIR/b\n", &[]);
    let (leaves, stays) = (
        node.serve("a", "CSIPlugin", "leaves"),
        node.serve("b", "CSIPlugin", "stays"),
    );
    for plugin in [&leaves, &stays] {
        assert!(plugin.until_notified().plugin_registered);
    }
    let lines = "plugins-dir DIR/b\nroot-dir DIR/c\n";
    assert_eq!(node.reload(lines), printed("plugins-dir", NONE));
    node.daemon.until_logged("deregistered CSIPlugin leaves");
    let comes = node.serve("c/plugins_registry", "CSIPlugin", "comes");
    assert!(comes.until_notified().plugin_registered);
    assert!(stays.try_notified().is_none());
    assert_eq!(node.reload(lines), printed(NONE, NONE));
    assert_eq!(node.records().len(), 2);
}

#[test]
fn a_directory_is_taken_out_while_its_plugins_register() {
    let mut node = Node::start("plugins-dir DIR/a\nplugins-dir DIR/b\n", &[]);
    let silent: Vec<_> = (0..20)
        .map(|n| {
            let socket = node.place.path("b").join(n.to_string());
            Plugin::serve_flawed(&socket, "sample", Flaw::Ignores(registration::GET_INFO))
        })
        .collect();
    silent[0].until_asked(registration::GET_INFO);
    assert_eq!(
        node.reload("plugins-dir DIR/a\n"),
        printed("plugins-dir", NONE)
    );
    let other = node.serve("a", "CSIPlugin", "other");
    assert!(other.until_notified().plugin_registered);
    node.daemon.until_logged("registered CSIPlugin other");
    assert_eq!(node.records().len(), 1);
}

#[test]
fn a_type_that_comes_is_registered() {
    let mut node = Node::start("plugins-dir DIR/a\n", &[]);
    let (csi, toaster) = (
        node.serve("a", "CSIPlugin", "csi"),
        node.serve("a", "Toaster", "toaster"),
    );
    assert!(csi.until_notified().plugin_registered);
    assert!(!toaster.until_notified().plugin_registered);
    let lines = "plugins-dir DIR/a\ntype Toaster\ntype CSIPlugin";
    assert_eq!(node.reload(lines), printed("type", NONE));
    assert!(toaster.until_notified().plugin_registered);
    node.daemon.until_logged("registered Toaster toaster");
    assert_eq!(
        node.reload("plugins-dir DIR/a\ntype CSIPlugin"),
        printed("type", NONE)
    );
    node.daemon.until_logged("deregistered Toaster toaster");
    assert!(!toaster.until_notified().plugin_registered);
    let lines = "plugins-dir DIR/a\ntype CSIPlugin\nunknown-types accept";
    assert_eq!(node.reload(lines), printed("unknown-types", NONE));
    assert!(toaster.until_notified().plugin_registered);
    assert!(csi.try_notified().is_none());
}

#[test]
fn only_plugins_whose_own_program_changes_are_registered_again() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    // A daemon in its sandbox runs no programs that a reload adds.
    let node = Node::start("plugins-dir DIR/a\n", &["--sandbox=off"]);
    for program in ["first", "second"] {
        let path = node.place.path(program);
        let log = node.place.text("log");
        install(
            &path,
            &format!("#!/bin/sh\necho {program} $1 $3 >> {log}\n"),
        );
    }
    let exec = |x: &str, y: &str| format!("plugins-dir DIR/a\nexec X=DIR/{x}\nexec Y=DIR/{y}\n");
    node.reload(&exec("first", "first"));
    let plugins = [node.serve("a", "X", "x"), node.serve("a", "Y", "y")];
    for plugin in &plugins {
        while !plugin.until_notified().plugin_registered {}
    }
    fs::write(node.place.path("log"), "").unwrap();
    assert_eq!(node.reload(&exec("first", "second")), printed("exec", NONE));
    assert!(plugins[1].until_notified().plugin_registered);
    assert!(plugins[0].try_notified().is_none());
    let log = fs::read_to_string(node.place.path("log")).unwrap();
    assert_eq!(log, "first del y\nsecond add y\n");
    assert_eq!(node.reload(&exec("first", "second")), printed(NONE, NONE));
    let untrusted = node.place.path("second");
    fs::set_permissions(&untrusted, Permissions::from_mode(0o777)).unwrap();
    let problem = node.reload_in_vain(&(exec("second", "first") + "plugins-dir DIR/b\n"));
    assert!(
        problem.contains("second is writable by its group or others"),
        "{problem}"
    );
    assert!(!node.place.path("b").exists());
}

#[test]
fn a_plugin_that_is_down_already_follows_the_new_policy() {
    let mut node = Node::start("plugins-dir DIR/a\n", &[]);
    let plugin = Simulated::start(&node.place.path("a"), "CSIPlugin", "a", &[]);
    node.daemon.until_logged("registered CSIPlugin a");
    plugin.kill();
    node.daemon.until_logged("it stays registered");
    let lines = "plugins-dir DIR/a\non-down deregister=1h\nmemory-budget 1Mi\nverbose";
    let changed = printed("on-down,memory-budget,verbose", NONE);
    assert_eq!(node.reload(lines), changed);
    assert_eq!(node.records()[0]["state"], "Down");
    let lines = lines.replace("deregister=1h", "keep");
    assert_eq!(node.reload(&lines), printed("on-down", NONE));
    let lines = "plugins-dir DIR/a\non-down deregister=1ms\nmemory-budget 1Mi\nverbose";
    assert_eq!(node.reload(lines), printed("on-down", NONE));
    node.daemon.until_logged("deregistered CSIPlugin a");
    node.serve("a", "CSIPlugin", "b");
    node.daemon.until_logged(" DEBUG ");
}

#[test]
fn a_plugin_that_failed_because_of_the_path_map_is_tried_again() {
    let node = Node::start("plugins-dir DIR/a\n", &[]);
    fs::create_dir(node.place.path("real")).unwrap();
    let _endpoint = Plugin::serve(&node.place.path("real/csi.sock"), "a");
    let socket = node.place.path("a/reg.sock");
    let plugin = Plugin::serve_elsewhere(&socket, "a", &node.place.path("moved/csi.sock"));
    assert!(!plugin.until_notified().plugin_registered);
    let lines = "plugins-dir DIR/a\nmap-path DIR/moved=DIR/real";
    assert_eq!(node.reload(lines), printed("map-path", NONE));
    while !plugin.until_notified().plugin_registered {}
    let link = node.place.path("run/by-name/CSIPlugin/a.sock");
    let found = until("the link by name", || fs::read_link(&link).ok());
    assert_eq!(found, node.place.path("real/csi.sock"));
}

#[test]
fn another_period_of_node_info_registers_drivers_again() {
    let node = Node::start("plugins-dir DIR/a\n", &[]);
    let driver = node.serve("a", "CSIPlugin", "csi");
    assert!(driver.until_notified().plugin_registered);
    let lines = "plugins-dir DIR/a\ncsi-node-info *=10s\n";
    assert_eq!(node.reload(lines), printed("csi-node-info", NONE));
    assert!(driver.until_notified().plugin_registered);
    assert_eq!(node.reload(lines), printed(NONE, NONE));
}

#[test]
fn what_needs_a_restart_is_named_until_the_restart() {
    let mut node = Node::start("plugins-dir DIR/a\n", &[]);
    let lines = "plugins-dir DIR/b\nstate-file DIR/state\nobserve\nsocket-group 0\n\
                 device-plugins-dir DIR/c\n";
    let keys = "device-plugins-dir,observe,state-file,socket-group";
    assert_eq!(node.reload(lines), printed("plugins-dir", keys));
    assert_eq!(node.reload(lines), printed(NONE, keys));
    let line = format!("changed=plugins-dir needs-restart={keys}");
    node.daemon.until_logged(&line);
    assert!(!node.place.path("c").exists());
}

#[test]
fn the_command_line_keeps_its_priority() {
    let place = Place::with("");
    let dir = place.text("a");
    let node = Node::start("", &["--plugins-dir", &dir, "--on-down=deregister"]);
    let lines = "plugins-dir DIR/b\non-down keep\nunknown-types ignore";
    assert_eq!(node.reload(lines), printed("unknown-types", NONE));
    assert!(!node.place.path("b").exists());
}

#[test]
fn a_configuration_that_is_not_valid_changes_nothing() {
    let mut node = Node::start("plugins-dir DIR/a\n", &[]);
    let plugin = node.serve("a", "CSIPlugin", "stays");
    assert!(plugin.until_notified().plugin_registered);
    let file = node.place.file();
    let problems = node.reload_in_vain("plugins-dir DIR/b\ntipe X\non-down x\n");
    let expected = format!(
        "plugind: {file}:4: unknown key tipe (did you mean type?)\n\
         plugind: {file}:5: invalid value \"x\" for on-down, \
         expected keep, deregister or deregister=DURATION such as deregister=30s\n",
        file = file.display()
    );
    assert_eq!(problems, expected);
    let line = "WARN  cannot reload the configuration, so the one before stays in force: ";
    node.daemon.until_logged(line);
    // The first directory can be added, and is given up with the second.
    fs::write(node.place.path("file"), "").unwrap();
    let problems = node.reload_in_vain("plugins-dir DIR/b\nplugins-dir DIR/file\ntype X\n");
    assert!(
        problems.contains("cannot use the plugins directory"),
        "{problems}"
    );
    fs::remove_file(&file).unwrap();
    let problems = node.ask(&["reload"]).err;
    assert!(problems.contains("No such file or directory"), "{problems}");
    node.daemon.signal(Signal::SIGHUP);
    node.daemon.until_logged("No such file or directory");

    assert!(plugin.try_notified().is_none());
    let status = node.ask_json("status");
    assert_eq!(
        status["directories"].as_array().unwrap().len(),
        1,
        "{status}"
    );
    let events = node.ask(&["events", "-o", "json"]);
    let count = |reason: &str| events.out.matches(reason).count();
    assert!(count("ConfigRejected") >= 3);
    assert_eq!(count("ConfigReloaded"), 0);
}

//! Tests of single turns, with a simulated plugin on the same thread.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;
use crate::config::{NOTIFY_TIMEOUT, PathMap, ROUND_PAUSE};
use crate::handler::AcceptHandler;
use crate::simulate::{self, Faults, Output, Plugin, Profile, Socket};

/// A plugin manager, and a simulated plugin in its directory.
struct Node {
    plugins: PluginManager,
    plugin: Plugin,
    listener: UnixListener,
    streams: BTreeMap<simulate::ConnectionId, UnixStream>,
    _dir: tempfile::TempDir,
}

impl Node {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let profile = Profile {
            kind: "Any".to_owned(),
            name: "sample".to_owned(),
            versions: vec!["1.0.0".to_owned()],
            socket: dir.path().join("reg.sock"),
            is_legacy: false,
            endpoint: None,
            toggle_health: None,
            cdi_devices: Vec::new(),
            faults: Faults::default(),
        };
        let listener = UnixListener::bind(&profile.socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut handlers = HandlerTable::new();
        handlers.add(["Any"], AcceptHandler);
        let config = Config {
            plugins_dirs: vec![dir.path().to_owned()],
            run_dir: Some(dir.path().join("run")),
            ..Config::default()
        };
        let plugins = PluginManager::new(&config, handlers).unwrap();
        Self {
            plugin: Plugin::new(&profile, Duration::ZERO, plugins.clock.now()),
            plugins,
            listener,
            streams: BTreeMap::new(),
            _dir: dir,
        }
    }

    /// Lets the plugin accept, receive and send all that it can. Returns whether it was notified
    /// meanwhile.
    fn run_plugin(&mut self) -> bool {
        let now = self.plugins.clock.now();
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            let conn = self.plugin.accept(Socket::Common, now);
            self.streams.insert(conn, stream);
        }
        for (conn, stream) in &mut self.streams {
            loop {
                let end = self.plugin.endpoint(*conn).unwrap();
                while !end.transmit().is_empty() {
                    let count = stream.write(end.transmit()).unwrap();
                    end.sent(count, now);
                }
                match stream.read(end.recv_buf()) {
                    Ok(0) => end.eof(now),
                    Ok(count) => end.received(count, now),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
                self.plugin.handle_io(now);
            }
        }
        let outputs = std::iter::from_fn(|| self.plugin.poll_output());
        let is_notified = |it: &str| it.starts_with("received NotifyRegistrationStatus");
        let notified = |it: &Output| matches!(it, Output::Report(text) if is_notified(text));
        outputs.filter(notified).count() > 0
    }
}

#[test]
fn a_reply_that_arrived_in_time_is_accepted_by_a_late_turn() {
    let mut node = Node::start();
    let end = node.plugins.clock.now() + Duration::from_secs(20);
    while !node.run_plugin() {
        assert!(node.plugins.clock.now() < end, "the plugin is not notified");
        node.plugins.turn(Some(Duration::from_millis(1))).unwrap();
    }
    // The process was stopped for longer than the plugin had for its reply.
    node.plugins.clock.advance(NOTIFY_TIMEOUT * 2);
    node.plugins.turn(Some(Duration::ZERO)).unwrap();
    assert_eq!(node.plugins.manager().registered().count(), 1);
    let mut reasons = Vec::new();
    while let Some(event) = node.plugins.poll_event() {
        if let Event::Plugin(event) = event {
            reasons.push(event.reason());
        }
    }
    assert_eq!(reasons, ["SocketFound", "Registered"]);
}

#[test]
fn the_descriptor_of_a_plugin_manager_is_that_of_its_poll() {
    let node = Node::start();
    let fd = node.plugins.as_raw_fd();
    assert_eq!(fd, node.plugins.as_fd().as_raw_fd());
    assert_eq!(fd, node.plugins.poll.as_raw_fd());
}

#[test]
fn a_rescan_ends_although_each_turn_ends_after_one_output() {
    let mut node = Node::start();
    let plugins = &mut node.plugins;
    plugins.clock.advance(ROUND_PAUSE);
    let now = plugins.clock.now();
    let number = plugins.watch.request_rescan();
    plugins.watch.handle_timeout(now);
    while plugins.watch.backlog() > 0 {
        plugins.drain_watch(Duration::ZERO, now);
    }
    let rescanned = plugins.watch.take_rescanned();
    assert_eq!(rescanned.map(|it| it.number), Some(number));
}

#[test]
fn an_added_directory_that_others_can_change_is_reported() {
    let mut node = Node::start();
    let added = tempfile::tempdir().unwrap();
    fs::set_permissions(added.path(), Permissions::from_mode(0o777)).unwrap();
    node.plugins.add_directory(added.path()).unwrap();
    node.plugins.turn(Some(Duration::ZERO)).unwrap();
    let mut messages = Vec::new();
    while let Some(event) = node.plugins.poll_event() {
        if let Event::Plugin(event) = event {
            messages.push(event.message().to_string());
        }
    }
    let dir = added.path().display().to_string();
    assert!(messages.iter().any(|it| it.contains(&dir)), "{messages:?}");
}

#[test]
fn a_new_path_map_keeps_the_directory_of_device_plugins_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let device_plugins = root.join("device-plugins");
    let config = Config {
        plugins_dirs: vec![root.join("plugins")],
        device_plugins_dir: Some(device_plugins.clone()),
        ..Config::default()
    };
    let mut plugins = PluginManager::new(&config, HandlerTable::new()).unwrap();
    let is_named =
        |plugins: &PluginManager| plugins.mounts.named_dirs().any(|it| it == device_plugins);
    assert!(is_named(&plugins));
    plugins.set_path_map(&PathMap::default());
    assert!(is_named(&plugins));
}

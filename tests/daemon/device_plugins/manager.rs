//! The managers of device plugins: the built binary, and kubelet's registration server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::device_plugins::peer::{RESOURCE, go_program};
use crate::support::client::ask;
use crate::support::daemon::Daemon;
use crate::support::process::Process;
use crate::support::until::until;

/// A manager of device plugins.
pub(crate) trait Manager {
    /// Returns the directory in which it listens on kubelet.sock.
    fn dir(&self) -> PathBuf;

    /// Waits until the devices of the plugin, by ID, and whether they are healthy, are these.
    fn until_devices(&mut self, devices: &[(&str, bool)]);

    /// Fails if the resource has more plugins than one, or if that one is not registered.
    fn check_one_plugin(&mut self);

    /// Waits until the only plugin of the resource is known to be down.
    fn until_down(&mut self);

    /// Ends, and starts anew.
    fn restart(&mut self);

    /// Fails if a plugin was deregistered between the last start and the next registration.
    fn check_none_was_deregistered(&mut self);
}

/// The built binary.
pub(crate) struct Plugind {
    dir: PathBuf,
    /// `None` only during a restart.
    daemon: Option<Daemon>,
}

impl Plugind {
    /// Starts a daemon with all its files in this directory.
    pub(crate) fn start(dir: &Path) -> Self {
        std::fs::create_dir(dir.join("run")).unwrap();
        let mut plugind = Self {
            dir: dir.to_owned(),
            daemon: None,
        };
        plugind.launch();
        plugind
    }

    fn launch(&mut self) {
        let options = [
            ("--plugins-dir", "registry"),
            ("--device-plugins-dir", "device-plugins"),
            ("--state-file", "state"),
            ("--socket", SOCKET),
        ];
        let options = options.map(|(option, file)| (option, self.dir.join(file)));
        self.daemon = Some(Daemon::start_strict(&self.dir, &options));
    }

    /// Returns the items of a list of the API.
    #[track_caller]
    fn list(&self, target: &str) -> Vec<Value> {
        let response = ask(&self.dir.join(SOCKET), "GET", target);
        assert_eq!(response.status, 200, "{response:?}");
        response.json()["items"].as_array().unwrap().clone()
    }

    /// Asks for a list until it satisfies the condition.
    #[track_caller]
    fn until(&self, what: &str, target: &str, is_so: impl Fn(&[Value]) -> bool) {
        until(what, || is_so(&self.list(target)).then_some(()));
    }
}

impl Manager for Plugind {
    fn dir(&self) -> PathBuf {
        self.dir.join("device-plugins")
    }

    #[track_caller]
    fn until_devices(&mut self, devices: &[(&str, bool)]) {
        self.until(&format!("{devices:?}"), "/v1/devices", |listed| {
            listed.iter().map(device).eq(devices.iter().copied())
        });
    }

    #[track_caller]
    fn check_one_plugin(&mut self) {
        let mut plugins = self.list("/v1/plugins");
        plugins.retain(|plugin| plugin["state"] != "Standby");
        assert_eq!(plugins.len(), 1, "{plugins:#?}");
        assert_eq!(plugins[0]["name"], RESOURCE, "{plugins:#?}");
        assert_eq!(plugins[0]["state"], "Registered", "{plugins:#?}");
    }

    #[track_caller]
    fn until_down(&mut self) {
        self.until(
            "a plugin that is down",
            "/v1/plugins",
            |plugins| matches!(plugins, [plugin] if plugin["state"] == "Down"),
        );
    }

    fn restart(&mut self) {
        let (status, _) = self.daemon.take().unwrap().end_with(Signal::SIGTERM);
        assert!(status.success(), "{status}");
        self.launch();
    }

    #[track_caller]
    fn check_none_was_deregistered(&mut self) {
        let daemon = self.daemon.as_mut().unwrap();
        let mut lines = daemon.seen_with("");
        lines.extend(daemon.lines_until(&format!(": registered DevicePlugin {RESOURCE}")));
        let deregistered = lines.iter().find(|line| line.contains("deregister"));
        assert_eq!(deregistered, None);
    }
}

/// Returns the ID of a listed device, and whether it is healthy.
fn device(listed: &Value) -> (&str, bool) {
    assert_eq!(listed["resource"], RESOURCE, "{listed:?}");
    let id = listed["id"].as_str().unwrap();
    (id, listed["health"] == "Healthy")
}

/// kubelet's registration server, which prints what happens.
pub(crate) struct Kubelet {
    dir: PathBuf,
    /// `None` only during a restart.
    process: Option<Process>,
    /// The devices of the last list.
    devices: Vec<(String, bool)>,
    has_disconnected: bool,
}

impl Kubelet {
    /// Returns whether `make full ONLY=parity` has built it.
    pub(crate) fn is_installed() -> bool {
        go_program(PROGRAM).is_some()
    }

    /// Starts a server in a directory of this one.
    pub(crate) fn start(dir: &Path) -> Self {
        let mut kubelet = Self {
            dir: dir.join("device-plugins"),
            process: None,
            devices: Vec::new(),
            has_disconnected: false,
        };
        kubelet.launch();
        kubelet
    }

    fn launch(&mut self) {
        let mut command = Command::new(go_program(PROGRAM).expect("it was found"));
        command.arg(&self.dir).stdin(Stdio::null());
        let process = Process::printing(command.stderr(Stdio::null()));
        process.until_line("listening ");
        self.process = Some(process);
    }

    /// Reads the next line.
    #[track_caller]
    fn advance(&mut self) {
        let line = self.process.as_ref().unwrap().until_line("");
        match *line.split(' ').collect::<Vec<_>>() {
            ["connected", RESOURCE, _socket] => {}
            ["disconnected", RESOURCE] => {
                self.has_disconnected = true;
                self.devices.iter_mut().for_each(|device| device.1 = false);
            }
            ["devices", RESOURCE, list] => {
                let devices = list.split(',').map(|device| {
                    let (id, health) = device.split_once('=').unwrap();
                    (id.to_owned(), health == "Healthy")
                });
                self.devices = devices.collect();
                self.devices.sort();
            }
            _ => panic!("unexpected line: {line}"),
        }
    }
}

impl Manager for Kubelet {
    fn dir(&self) -> PathBuf {
        self.dir.clone()
    }

    #[track_caller]
    fn until_devices(&mut self, devices: &[(&str, bool)]) {
        let is_so = |listed: &[(String, bool)]| {
            let listed = listed.iter().map(|(id, healthy)| (&**id, *healthy));
            listed.eq(devices.iter().copied())
        };
        while !is_so(&self.devices) {
            self.advance();
        }
    }

    /// Does nothing: kubelet has one plugin for each resource.
    fn check_one_plugin(&mut self) {}

    /// Does nothing: kubelet shows no state of a plugin.
    fn until_down(&mut self) {}

    fn restart(&mut self) {
        // It leaves kubelet.sock behind, as kubelet does.
        drop(self.process.take());
        self.devices.clear();
        self.has_disconnected = false;
        self.launch();
    }

    #[track_caller]
    fn check_none_was_deregistered(&mut self) {
        assert!(!self.has_disconnected);
    }
}

/// The socket of the API.
const SOCKET: &str = "run/plugind.sock";

const PROGRAM: &str = "device-manager";

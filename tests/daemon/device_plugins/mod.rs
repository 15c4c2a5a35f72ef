//! Device plugins that register with kubelet.sock, as they are in use: kubelet's own one on
//! grpc-go, and two on gRPC's C core that behave as two common plugins do. And a DRA driver on
//! kubelet's helper library, which registers with its socket. The binary is in strict mode.
//!
//! Each scenario runs with the built binary and with kubelet's registration server: a plugin that
//! kubelet does not accept proves nothing about the daemon. What is not installed is skipped:
//! `make full ONLY=parity` builds the Go programs; the others need Python with grpcio.

#[allow(dead_code, reason = "only lists are asked for")]
mod calls;
mod dra_driver;
mod manager;
mod peer;
pub(crate) mod scripted;

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use tempfile::TempDir;

use self::manager::{Kubelet, Manager, Plugind};
use self::peer::{Kind, Peer};
use crate::support::skip::skip;
use crate::support::trusted::trusted_dir;

/// A manager of device plugins, and a plugin.
struct Stage {
    kind: Kind,
    manager: Box<dyn Manager>,
    /// `None` only while it is replaced.
    peer: Option<Peer>,
    _dir: TempDir,
}

impl Stage {
    /// Starts both, and waits until the plugin's two devices are listed.
    fn start(kind: Kind, start: StartManager) -> Self {
        let dir = trusted_dir();
        let manager = start(dir.path());
        let peer = Peer::start(kind, &manager.dir(), &["one", "two"]);
        let mut stage = Self {
            kind,
            manager,
            peer: Some(peer),
            _dir: dir,
        };
        stage.until_registered(&[("one", true), ("two", true)]);
        stage
    }

    /// Waits until the plugin has registered, and its devices are these.
    #[track_caller]
    fn until_registered(&mut self, devices: &[(&str, bool)]) {
        self.peer.as_ref().unwrap().until_registered();
        self.manager.until_devices(devices);
    }

    /// Starts another plugin with other devices in the place of the one that `end` ends.
    #[track_caller]
    fn replace_plugin(&mut self, end: fn(Peer), devices: &[&str]) {
        end(self.peer.take().unwrap());
        self.peer = Some(Peer::start(self.kind, &self.manager.dir(), devices));
    }
}

#[test]
fn a_device_plugin_registers_with_kubelet_sock() {
    with_each(|stage| stage.manager.check_one_plugin());
}

#[test]
fn rs13_a_device_plugin_registers_again() {
    with_each(|stage| {
        stage.manager.restart();
        stage.until_registered(&[("one", true), ("two", true)]);
        stage.manager.check_one_plugin();
        stage.manager.check_none_was_deregistered();
    });
}

#[test]
fn rs14_a_device_plugin_that_restarts_is_one_plugin() {
    with_each(|stage| {
        stage.replace_plugin(Peer::end, &["three"]);
        stage.until_registered(&[("three", true)]);
        stage.manager.check_one_plugin();
    });
}

#[test]
fn a_device_plugin_that_is_killed_has_unhealthy_devices() {
    with_each(|stage| {
        stage.peer.as_ref().unwrap().kill();
        stage
            .manager
            .until_devices(&[("one", false), ("two", false)]);
        // Its socket was left behind.
        stage.replace_plugin(drop, &["one", "three", "four"]);
        stage.until_registered(&[("four", true), ("one", true), ("three", true)]);
        stage.manager.check_one_plugin();
    });
}

/// Plays a scenario with each plugin and each manager that this machine has, all at the same time.
#[track_caller]
fn with_each(play: impl Fn(&mut Stage) + Sync) {
    let managers = managers();
    let (kinds, missing): (Vec<_>, Vec<_>) =
        Kind::ALL.into_iter().partition(|kind| kind.is_installed());
    let missing: BTreeSet<_> = missing.into_iter().map(Kind::what_runs_it).collect();
    for program in missing {
        skip(&format!("{program} is not installed"));
    }
    thread::scope(|scope| {
        for &kind in &kinds {
            for &manager in &managers {
                let play = &play;
                scope.spawn(move || {
                    let mut stage = Stage::start(kind, manager);
                    play(&mut stage);
                    stage.peer.unwrap().end();
                });
            }
        }
    });
}

/// Returns what starts each of the managers that this machine has. kubelet's is built together with
/// its device plugin, so that it is reported as skipped with that.
fn managers() -> Vec<StartManager> {
    let mut managers: Vec<StartManager> = vec![|dir| Box::new(Plugind::start(dir))];
    if Kubelet::is_installed() {
        managers.push(|dir| Box::new(Kubelet::start(dir)));
    }
    managers
}

/// Starts a manager whose files are in this directory.
type StartManager = fn(&Path) -> Box<dyn Manager>;

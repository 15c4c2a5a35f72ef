//! Rows about the log: plugins that cause as much of it as they can.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plugind::proto::pluginregistration::{PluginInfo, registration};
use plugind::proto::v1beta1::{Device, ListAndWatchResponse, device_plugin};
use prost::Message as _;

use crate::row::Row;
use crate::support::grpc::{self, Service, Status};

#[test]
fn a_device_that_flips_its_health_as_fast_as_it_can() {
    Row::new("a device that flips its health", "26 MiB/s of log")
        .withstand(|dir, over| serve_lists(dir, over, 1));
}

#[test]
fn many_devices_that_flip_their_health_as_fast_as_they_can() {
    Row::new(
        "32 devices that flip their health",
        "with 64: p99 1.8 s, turns of 0.6 s",
    )
    .restless()
    .withstand(|dir, over| serve_lists(dir, over, 32));
}

#[test]
fn sockets_with_new_names_for_ever_while_every_step_is_logged() {
    Row::new("sockets with new names, with -v", "1.3 MiB/s of log")
        .options(["-v"])
        .withstand(renew);
}

/// Creates a socket on which nothing listens, and removes it, until the attack is over or the
/// directory was removed.
fn renew(dir: &Path, over: &AtomicBool) {
    for n in 0.. {
        let path = dir.join(format!("evil-{n}.sock"));
        let made = UnixListener::bind(&path);
        let removed = made.and_then(|_| fs::remove_file(path));
        if removed.is_err() || over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// A device plugin that sends lists of devices again and again.
struct Flipping(usize);

impl Service for Flipping {
    fn call(&self, path: &str, _: &[u8]) -> Result<Vec<u8>, Status> {
        match path {
            device_plugin::LIST_AND_WATCH => Ok(lists()),
            registration::GET_INFO => Ok(PluginInfo {
                r#type: "DevicePlugin".to_owned(),
                name: format!("evil.example/device-{}", self.0),
                endpoint: String::new(),
                supported_versions: vec!["v1beta1".to_owned()],
            }
            .encode_to_vec()),
            _ => Ok(Vec::new()),
        }
    }

    fn is_endless(&self, path: &str) -> bool {
        path == device_plugin::LIST_AND_WATCH
    }
}

/// Serves such plugins until the attack is over.
fn serve_lists(dir: &Path, over: &AtomicBool, plugins: usize) {
    grpc::block_on(async {
        for n in 0..plugins {
            let listener = tokio::net::UnixListener::bind(dir.join(format!("{n}.sock"))).unwrap();
            tokio::spawn(grpc::accept(Arc::new(Flipping(n)), listener));
        }
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        while !over.load(Ordering::Relaxed) {
            tick.tick().await;
        }
    });
}

/// Returns as many lists of one device as fit in 16 KiB: healthy, unhealthy, and so on.
fn lists() -> Vec<u8> {
    let list = |health: &str| {
        let device = Device {
            id: "d".to_owned(),
            health: health.to_owned(),
            topology: None,
        };
        let devices = vec![device];
        grpc::frame(&ListAndWatchResponse { devices }.encode_to_vec(), 0)
    };
    let two = [list("Healthy"), list("Unhealthy")].concat();
    two.repeat(16_384 / two.len())
}

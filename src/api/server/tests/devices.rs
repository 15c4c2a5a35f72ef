//! The list of devices in the API.

use std::sync::Arc;

use prost::Message as _;

use super::*;
use crate::handler::Plugin;
use crate::handler::device::{self, DevicePlugin, Devices};
use crate::proto::v1beta1::{Device, ListAndWatchResponse, NumaNode, TopologyInfo};

/// Returns a plugin of a resource.
fn plugin(resource: &str, socket: &str) -> Arc<Plugin> {
    let socket: Arc<Path> = Path::new(socket).into();
    Arc::new(Plugin {
        kind: device::TYPE.to_owned(),
        name: resource.to_owned(),
        endpoint: socket.clone(),
        versions: vec!["v1beta1".to_owned()],
        socket,
    })
}

impl World {
    fn inventory(&self) -> &Inventory {
        self.inventory.as_ref().expect("there are handlers")
    }

    /// Sets the devices that a plugin lists; a device is unhealthy if its ID ends with `!`.
    fn set_devices<T: Into<String>>(
        &self,
        plugin: &Arc<Plugin>,
        ids: impl IntoIterator<Item = T>,
        numa_nodes: &[i64],
    ) {
        let nodes = numa_nodes.iter().map(|id| NumaNode { id: *id });
        let topology = TopologyInfo {
            nodes: nodes.collect(),
        };
        let devices = ids.into_iter().map(|id| {
            let id = id.into();
            Device {
                health: if id.ends_with('!') { "" } else { "Healthy" }.to_owned(),
                id,
                topology: Some(topology.clone()),
            }
        });
        let devices = devices.collect();
        let list = ListAndWatchResponse { devices }.encode_to_vec();
        self.inventory().device_plugins.set(DevicePlugin {
            plugin: plugin.clone(),
            pre_start_required: false,
            preferred_allocation: false,
            is_connected: true,
            devices: Devices::from_message(&list).expect("a list"),
            order: 0,
        });
    }
}

/// Returns the resource and the ID of each device in a list.
fn ids(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list has items");
    let id = |item: &Value| {
        let text = |key: &str| item[key].as_str().expect("the value is text").to_owned();
        text("resource") + " " + &text("id")
    };
    items.iter().map(id).collect()
}

#[test]
fn the_devices_of_the_current_plugins_are_listed_by_resource() {
    let mut world = World::new();
    let (old, new) = (plugin("b/gpu", "/r/old"), plugin("b/gpu", "/r/new"));
    world.set_devices(&old, ["0", "1"], &[]);
    world.set_devices(&new, ["b\"\u{1b}\u{e4}", "a!"], &[1, -2]);
    world.set_devices(&plugin("a/nic", "/r/nic"), ["eth0"], &[]);
    world.set_devices(&plugin("c/none", "/r/none"), [""; 0], &[]);
    world.set_devices(&plugin("d/empty", "/r/empty"), [""], &[]);
    let list = world.get_json("/v1/devices");
    let wanted = serde_json::json!({
        "kind": "DeviceList", "instance": "9f", "generation": 0, "items": [
            {"resource": "a/nic", "id": "eth0", "health": "Healthy", "socket": "/r/nic"},
            {
                "resource": "b/gpu", "id": "a!", "health": "Unhealthy", "numaNodes": [1, -2],
                "socket": "/r/new",
            },
            {
                "resource": "b/gpu", "id": "b\"\u{1b}\u{e4}", "health": "Healthy",
                "numaNodes": [1, -2], "socket": "/r/new",
            },
            {"resource": "d/empty", "id": "", "health": "Healthy", "socket": "/r/empty"},
        ],
    });
    assert_eq!(list, wanted);
    for (target, wanted) in [
        ("/v1/devices?name=a/nic", &["a/nic eth0"][..]),
        ("/v1/devices?name=c%2Fnone", &[]),
    ] {
        assert_eq!(ids(&world.get_json(target)), wanted, "{target}");
    }
    world.inventory().device_plugins.promote(&old);
    let list = world.get_json("/v1/devices?name=b/gpu");
    assert_eq!(ids(&list), ["b/gpu 0", "b/gpu 1"]);
}

#[test]
fn a_resource_that_no_plugin_has_is_404() {
    let mut world = World::new();
    world.set_devices(&plugin("a/nic", "/r/nic"), ["eth0"], &[]);
    let missing = |name| {
        let why = format!("{{\"error\":\"no such resource: {name}\"}}\n");
        (404, why)
    };
    for name in ["a/ni", "a/nic2", "b", "A/nic"] {
        assert_eq!(
            world.get(&format!("/v1/devices?name={name}")),
            missing(name)
        );
    }
    world.inventory = None;
    assert_eq!(world.get("/v1/devices?name=a/nic"), missing("a/nic"));
    assert_eq!(ids(&world.get_json("/v1/devices")), [""; 0]);
}

#[test]
fn a_device_takes_a_limited_number_of_octets() {
    let mut world = World::new();
    let long = "\u{1b}".repeat(100_000);
    let longest = "a".repeat(config::MAX_NAME_LEN);
    let nodes: Vec<i64> = (0..5000).collect();
    world.set_devices(&plugin("a", "/r/a"), [&longest, &long], &nodes);
    let list = world.get_json("/v1/devices");
    let items = list["items"].as_array().expect("a list has items");
    let id = |at: usize| items[at]["id"].as_str().expect("an ID");
    assert!(id(0).ends_with("\\u{1b}...(98976 more bytes)"));
    assert_eq!(id(1), longest);
    let shown = items[0]["numaNodes"].as_array().expect("a list");
    assert_eq!(shown.len(), config::API_DEVICE_NODES);
}

#[test]
fn more_devices_than_a_response_may_have_are_refused() {
    let mut world = World::new();
    let long = format!("/r/{}", "x".repeat(3000));
    for resource in ["a", "b", "c"] {
        let ids = (0..2500).map(|n| format!("{n:04}"));
        world.set_devices(&plugin(resource, &long), ids, &[]);
    }
    let (status, body) = world.get("/v1/devices");
    assert_eq!(status, 500);
    assert!(body.contains("longer than 16 MiB"), "{body}");
    assert_eq!(ids(&world.get_json("/v1/devices?name=b")).len(), 2500);
}

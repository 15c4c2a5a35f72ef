//! A list of devices.

use std::ops::Deref;

use crate::handler::{Unlistable, list};
use crate::proto::v1beta1::{self, ListAndWatchResponse};

/// The devices that a plugin lists, sorted by ID. No two have the same ID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices(Box<[Device]>);

/// A device of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The ID, which is unique among the devices of the plugin.
    pub id: Box<str>,
    /// Whether the device can be used.
    pub is_healthy: bool,
    /// The NUMA nodes to which the device is local.
    pub numa_nodes: Box<[i64]>,
}

impl Devices {
    /// Returns the devices of a `ListAndWatchResponse`. Of several with one ID, only the last is
    /// kept.
    pub fn from_message(message: &[u8]) -> Result<Self, Unlistable> {
        let list: ListAndWatchResponse = list::decode(message)?;
        let mut devices: Vec<Device> = list.devices.into_iter().map(Device::from).collect();
        list::sort_and_dedup(&mut devices, |device| &device.id);
        Ok(Self(devices.into()))
    }

    /// Returns the number of devices that can be used.
    pub fn count_healthy(&self) -> usize {
        self.iter().filter(|device| device.is_healthy).count()
    }

    /// Returns the device with this ID.
    pub fn get(&self, id: &str) -> Option<&Device> {
        let place = self.0.binary_search_by(|device| (*device.id).cmp(id));
        Some(&self.0[place.ok()?])
    }

    /// Makes all devices unhealthy.
    pub(super) fn mark_unhealthy(&mut self) {
        for device in &mut self.0 {
            device.is_healthy = false;
        }
    }

    /// Returns the octets of memory that the list takes, without the overhead of the allocator.
    pub fn mem_used(&self) -> usize {
        let octets = |device: &Device| {
            size_of_val(device) + device.id.len() + size_of_val(&*device.numa_nodes)
        };
        self.iter().map(octets).sum()
    }
}

impl Deref for Devices {
    type Target = [Device];

    fn deref(&self) -> &[Device] {
        &self.0
    }
}

impl From<v1beta1::Device> for Device {
    fn from(device: v1beta1::Device) -> Self {
        let nodes = device.topology.unwrap_or_default().nodes;
        Self {
            id: device.id.into(),
            is_healthy: device.health == HEALTHY,
            numa_nodes: nodes.into_iter().map(|node| node.id).collect(),
        }
    }
}

/// The health of a usable device; any other value means unhealthy (kubelet: the same).
const HEALTHY: &str = "Healthy";

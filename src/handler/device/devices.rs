//! A list of devices.

use super::changes::Changes;
use crate::handler::{Unlistable, list};
use crate::proto::v1beta1::{self, ListAndWatchResponse};

/// The devices that a plugin lists, sorted by ID. No two have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices(Box<[Device]>);

/// A device of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The ID, which is unique among the devices of the plugin.
    pub id: Box<str>,
    /// Whether the device can be used.
    pub is_healthy: bool,
    /// The NUMA nodes that are close to the device.
    pub numa_nodes: Box<[i64]>,
}

impl Devices {
    /// Returns the devices of a `ListAndWatchResponse`. Of several with one ID, the last counts.
    pub fn from_message(message: &[u8]) -> Result<Self, Unlistable> {
        let list: ListAndWatchResponse = list::decode(message)?;
        let mut devices: Vec<Device> = list.devices.into_iter().map(Device::from).collect();
        list::sort(&mut devices, |device| &device.id);
        Ok(Self(devices.into()))
    }

    /// Returns the number of devices.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of devices that can be used.
    pub fn healthy(&self) -> usize {
        self.iter().filter(|device| device.is_healthy).count()
    }

    /// Returns the devices by ID.
    pub fn iter(&self) -> std::slice::Iter<'_, Device> {
        self.0.iter()
    }

    /// Returns the devices with a greater ID than this one, by ID; all if it is `None`.
    pub fn after(&self, id: Option<&str>) -> &[Device] {
        let is_before = |device: &Device| id.is_some_and(|id| *device.id <= *id);
        &self.0[self.0.partition_point(is_before)..]
    }

    /// Returns the device with this ID.
    pub fn get(&self, id: &str) -> Option<&Device> {
        let place = self.0.binary_search_by(|device| (*device.id).cmp(id));
        Some(&self.0[place.ok()?])
    }

    /// Returns the changes from the list `before` to this one.
    pub(super) fn changes_since<'a>(&'a self, before: &'a Self) -> Changes<'a> {
        Changes::between(&before.0, &self.0)
    }

    /// Makes all devices unhealthy.
    pub(super) fn lose(&mut self) {
        for device in &mut self.0 {
            device.is_healthy = false;
        }
    }

    /// Returns the octets of memory that the list takes, without what the allocator adds.
    pub fn mem_used(&self) -> usize {
        let octets = |device: &Device| {
            size_of_val(device) + device.id.len() + size_of_val(&*device.numa_nodes)
        };
        self.iter().map(octets).sum()
    }
}

impl<'a> IntoIterator for &'a Devices {
    type Item = &'a Device;
    type IntoIter = std::slice::Iter<'a, Device>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
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

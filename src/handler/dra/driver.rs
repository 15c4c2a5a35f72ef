//! The known facts about the DRA drivers on this node.
//!
//! Pure.

use std::sync::Arc;
use std::{fmt, mem};

use prost::Message as _;

use super::service::Service;
use crate::budget::{OverBudget, Reserved};
use crate::config::MAX_DEVICES;
use crate::handler::fields::count_fields;
use crate::handler::{Plugin, Store};
use crate::proto::v1alpha1::NodeWatchResourcesResponse;

/// The health of a device.
pub use crate::proto::v1alpha1::HealthStatus as Health;

/// A registered driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The plugin, with its name and its endpoint.
    pub plugin: Arc<Plugin>,
    /// The service to call at its endpoint.
    pub service: Service,
    /// Whether the driver is connected and answers at the moment.
    pub is_connected: bool,
    /// The health of its devices, sorted by pool and name; empty if the driver does not report it.
    /// No two devices have the same name.
    pub devices: Vec<(DeviceName, DeviceHealth)>,
}

/// The full name of a device: its pool, and its name in the pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceName {
    /// The pool.
    pub pool: String,
    /// The name, which is unique in the pool.
    pub device: String,
}

/// The health of a device, as its driver reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceHealth {
    /// The health.
    pub health: Health,
    /// Further details; often empty.
    pub message: String,
}

impl Driver {
    /// Creates a driver that is not connected yet.
    pub(super) fn new(plugin: &Arc<Plugin>, service: Service) -> Self {
        Self {
            plugin: plugin.clone(),
            service,
            is_connected: false,
            devices: Vec::new(),
        }
    }

    /// Replaces the health of all devices: a message lists all of them. Returns whether it changed.
    pub(super) fn set_health(
        &mut self,
        message: &[u8],
        reserved: &mut Reserved,
    ) -> Result<bool, NoHealth> {
        let count = count_fields(message).map_err(|_| NoHealth::Undecodable)?;
        if count > MAX_DEVICES {
            return Err(NoHealth::TooMany);
        }
        let octets = message.len() + count * size_of::<(DeviceName, DeviceHealth)>();
        reserved
            .resize(octets)
            .map_err(|OverBudget| NoHealth::OverBudget)?;
        let response = NodeWatchResourcesResponse::decode(message);
        let response = response.map_err(|_| NoHealth::Undecodable)?;
        let devices = response.devices.into_iter().map(|entry| {
            let health = entry.health();
            let name = entry.device.unwrap_or_default();
            let name = DeviceName {
                pool: name.pool_name,
                device: name.device_name,
            };
            let message = entry.message;
            (name, DeviceHealth { health, message })
        });
        let mut devices: Vec<_> = devices.collect();
        devices.sort_by(|(one, _), (other, _)| one.cmp(other));
        // Of several with one name, the last counts.
        devices.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                mem::swap(next, kept);
            }
            is_same
        });
        let before = mem::replace(&mut self.devices, devices);
        Ok(before != self.devices)
    }

    /// Sets the health of all devices to unknown because the driver does not report it any more.
    pub(super) fn forget_health(&mut self) {
        for (_, device) in &mut self.devices {
            device.health = Health::Unknown;
        }
    }

    /// Returns the number of devices that were reported as healthy.
    pub fn healthy(&self) -> usize {
        let healthy = |(_, device): &&(DeviceName, DeviceHealth)| device.health == Health::Healthy;
        self.devices.iter().filter(healthy).count()
    }
}

impl AsRef<Plugin> for Driver {
    fn as_ref(&self) -> &Plugin {
        &self.plugin
    }
}

/// The reason why a message does not state the health of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHealth {
    /// It is not a `NodeWatchResourcesResponse`.
    Undecodable,
    /// It lists more than [`MAX_DEVICES`] devices.
    TooMany,
    /// With it, more would be held of all plugins than the memory budget allows.
    OverBudget,
}

impl fmt::Display for NoHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable => f.write_str("cannot decode the NodeWatchResources message"),
            Self::TooMany => write!(
                f,
                "too many devices in the NodeWatchResources message limit={MAX_DEVICES}"
            ),
            Self::OverBudget => OverBudget.fmt(f),
        }
    }
}

impl std::error::Error for NoHealth {}

/// The registered drivers. Clones share the same data.
#[derive(Clone, Debug, Default)]
pub struct Drivers(pub(super) Store<Driver>);

impl Drivers {
    /// Returns the driver of that name to use: "the newest that is connected is used, and the older
    /// one is its fallback" ([R33](crate::guide::kubelet)); if all are disconnected, the newest.
    pub fn get(&self, name: &str) -> Option<Arc<Driver>> {
        let mut all = self.all(name);
        let connected = all.iter().rposition(|driver| driver.is_connected);
        match connected {
            Some(place) => Some(all.swap_remove(place)),
            None => all.pop(),
        }
    }

    /// Returns all drivers of that name, the newest last.
    pub fn all(&self, name: &str) -> Vec<Arc<Driver>> {
        self.0.all(name)
    }

    /// Returns the names of all drivers, sorted.
    pub fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::budget::Budget;
    use crate::proto::pluginregistration::PluginInfo;
    use crate::proto::v1alpha1::{self, DeviceIdentifier};

    fn plugin(socket: &str) -> Arc<Plugin> {
        let info = PluginInfo {
            name: "a".into(),
            ..PluginInfo::default()
        };
        Arc::new(Plugin::from_info(info, Path::new(socket).into()).expect("it has a name"))
    }

    fn message(devices: &[(&str, i32)]) -> Vec<u8> {
        let devices = devices.iter().map(|(name, health)| v1alpha1::DeviceHealth {
            device: Some(DeviceIdentifier {
                pool_name: "pool".into(),
                device_name: (*name).into(),
            }),
            health: *health,
            ..v1alpha1::DeviceHealth::default()
        });
        let devices = devices.collect();
        NodeWatchResourcesResponse { devices }.encode_to_vec()
    }

    fn set_health(driver: &mut Driver, message: &[u8]) -> Result<bool, NoHealth> {
        driver.set_health(message, &mut Budget::default().reserve())
    }

    #[test]
    fn a_message_is_news_only_when_it_changes_something() {
        let mut driver = Driver::new(&plugin("/r/a"), Service::V1);
        let devices = [("one", 1), ("two", 2), ("odd", 9)];
        assert_eq!(set_health(&mut driver, &message(&devices)), Ok(true));
        assert_eq!((driver.healthy(), driver.devices.len()), (1, 3));
        assert_eq!(set_health(&mut driver, &message(&devices)), Ok(false));
        assert_eq!(set_health(&mut driver, &message(&[("two", 1)])), Ok(true));
        assert_eq!((driver.healthy(), driver.devices.len()), (1, 1));
        driver.forget_health();
        assert_eq!(driver.healthy(), 0);
        let repeated = [("two", 1), ("one", 1), ("two", 2)];
        assert_eq!(set_health(&mut driver, &message(&repeated)), Ok(true));
        let names = driver.devices.iter().map(|(name, _)| &*name.device);
        assert_eq!(names.collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(driver.devices[1].1.health, Health::Unhealthy);
    }

    #[test]
    fn what_is_no_message_or_names_too_many_devices_changes_nothing() {
        let mut driver = Driver::new(&plugin("/r/a"), Service::V1);
        assert_eq!(set_health(&mut driver, &message(&[("one", 1)])), Ok(true));
        let before = driver.clone();
        let too_many = [0x0a, 0].repeat(MAX_DEVICES + 1);
        assert_eq!(set_health(&mut driver, &too_many), Err(NoHealth::TooMany));
        assert_eq!(set_health(&mut driver, &[0xff]), Err(NoHealth::Undecodable));
        assert_eq!(driver, before);
    }

    #[test]
    fn the_newest_that_is_connected_is_the_one_to_use() {
        let drivers = Drivers::default();
        assert_eq!(drivers.get("a"), None);
        let used = |drivers: &Drivers| {
            let driver = drivers.get("a");
            driver.map(|driver| driver.plugin.socket.clone())
        };
        for socket in ["/r/old", "/r/new"] {
            drivers.0.set(Driver::new(&plugin(socket), Service::V1));
        }
        assert_eq!(used(&drivers), Some(Path::new("/r/new").into()));
        let connect = |socket, is_connected| {
            let set = |driver: &mut Driver| driver.is_connected = is_connected;
            drivers.0.with(&plugin(socket), set);
        };
        connect("/r/old", true);
        assert_eq!(used(&drivers), Some(Path::new("/r/old").into()));
        connect("/r/new", true);
        assert_eq!(used(&drivers), Some(Path::new("/r/new").into()));
    }
}

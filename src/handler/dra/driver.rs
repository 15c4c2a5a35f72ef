//! The known facts about the DRA drivers on this node.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::{OverBudget, Reserved};
use crate::config::{DRA_HEALTH_TIMEOUT, MAX_DEVICES};
use crate::handler::{Plugin, Store, Unlistable, list};
use crate::proto::v1alpha1::{self, NodeWatchResourcesResponse};
use crate::time::Time;

/// The health of a device.
pub use crate::proto::v1alpha1::HealthStatus as Health;

/// A registered driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The plugin, with its name and its endpoint.
    pub plugin: Arc<Plugin>,
    /// The service to call at its endpoint: `v1.DRAPlugin` or `v1beta1.DRAPlugin`.
    pub service: &'static str,
    /// Whether the driver is connected and answers at the moment.
    pub is_connected: bool,
    /// The devices whose health the driver has reported, sorted by ID. No two have the same ID.
    pub devices: Vec<Device>,
}

/// A device of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The pool, and the name in the pool: `pool/device`.
    pub id: String,
    /// The health, as the driver reports it, or unknown.
    pub health: Health,
    /// The driver's explanation of the health; often empty.
    pub message: String,
    /// The time at which the driver last reported the health.
    reported: Time,
    /// The time after which the health is unknown unless the driver reports it again.
    timeout: Duration,
}

impl Driver {
    /// Creates a driver that is not connected yet.
    pub(super) fn new(plugin: &Arc<Plugin>, service: &'static str) -> Self {
        Self {
            plugin: plugin.clone(),
            service,
            is_connected: false,
            devices: Vec::new(),
        }
    }

    /// Sets the health of the devices that a message reports. The other devices keep their health
    /// until it expires (kubelet: the same). Returns whether a device is new or its health or its
    /// explanation has changed. Fails, and changes nothing, if the message is rejected.
    pub(super) fn set_health(
        &mut self,
        message: &[u8],
        reserved: &mut Reserved,
        now: Time,
    ) -> Result<bool, Unlistable> {
        let response: NodeWatchResourcesResponse = list::decode(message)?;
        let reported = response.devices.into_iter();
        let mut reported: Vec<_> = reported.map(|it| Device::from_report(it, now)).collect();
        list::sort_and_dedup(&mut reported, |device| &device.id);
        let mut devices = self.devices.clone();
        devices.extend(reported);
        list::sort_and_dedup(&mut devices, |device| &device.id);
        if devices.len() > MAX_DEVICES {
            let listed = devices.len();
            return Err(Unlistable::TooMany { listed });
        }
        let texts = devices.iter().map(|it| it.id.len() + it.message.len());
        let octets = size_of_val(&*devices) + texts.sum::<usize>();
        let granted = reserved.resize(octets);
        granted.map_err(|OverBudget| Unlistable::OverBudget)?;
        let is_changed = !self
            .devices
            .iter()
            .map(Device::facts)
            .eq(devices.iter().map(Device::facts));
        self.devices = devices;
        Ok(is_changed)
    }

    /// Sets the health of devices that were not reported in time to unknown, and removes those that
    /// are not reported for as long again. Returns whether anything changed.
    pub(super) fn expire_health(&mut self, now: Time) -> bool {
        let before = self.devices.len();
        self.devices.retain(|it| now < it.reported + it.timeout * 2);
        let mut is_changed = self.devices.len() < before;
        for device in &mut self.devices {
            if device.reported + device.timeout <= now && device.health != Health::Unknown {
                device.health = Health::Unknown;
                is_changed = true;
            }
        }
        is_changed
    }

    /// Returns the next time at which [`Driver::expire_health`] may change a device, or `None`
    /// without devices.
    pub(super) fn next_expiry(&self, now: Time) -> Option<Time> {
        let expiries = self.devices.iter().map(|it| {
            let unknown = it.reported + it.timeout;
            if now < unknown {
                unknown
            } else {
                unknown + it.timeout
            }
        });
        expiries.min()
    }

    /// Sets the health of all devices to unknown because the driver stopped reporting it.
    pub(super) fn forget_health(&mut self) {
        for device in &mut self.devices {
            device.health = Health::Unknown;
        }
    }

    /// Returns the number of devices with this health.
    pub fn count(&self, health: Health) -> usize {
        self.devices.iter().filter(|it| it.health == health).count()
    }
}

impl Health {
    /// Returns the name that operators see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Unhealthy => "Unhealthy",
            Self::Unknown => "Unknown",
        }
    }
}

impl Device {
    fn from_report(entry: v1alpha1::DeviceHealth, now: Time) -> Self {
        let health = entry.health();
        let name = entry.device.unwrap_or_default();
        let timeout = u64::try_from(entry.health_check_timeout_seconds).unwrap_or(0);
        Self {
            id: format!("{}/{}", name.pool_name, name.device_name),
            health,
            message: entry.message,
            reported: now,
            timeout: match timeout {
                0 => DRA_HEALTH_TIMEOUT,
                seconds => Duration::from_secs(seconds),
            },
        }
    }

    fn facts(&self) -> (&str, Health, &str) {
        (&self.id, self.health, &self.message)
    }
}

impl AsRef<Plugin> for Driver {
    fn as_ref(&self) -> &Plugin {
        &self.plugin
    }
}

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

    use prost::Message as _;

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

    fn set_health(driver: &mut Driver, message: &[u8], now: Time) -> Result<bool, Unlistable> {
        driver.set_health(message, &mut Budget::default().empty_share(), now)
    }

    fn at(seconds: u64) -> Time {
        Time::from_millis(1000 * seconds)
    }

    #[test]
    fn a_report_replaces_what_it_names() {
        let mut driver = Driver::new(&plugin("/r/a"), "v1.DRAPlugin");
        let mut set = |devices: &[(&str, i32)], now| {
            let is_news = set_health(&mut driver, &message(devices), now);
            (is_news, driver.count(Health::Healthy), driver.devices.len())
        };
        let devices = [("one", 1), ("two", 2), ("odd", 9)];
        assert_eq!(set(&devices, at(0)), (Ok(true), 1, 3));
        assert_eq!(set(&devices, at(1)), (Ok(false), 1, 3));
        assert_eq!(set(&[("two", 1)], at(2)), (Ok(true), 2, 3));
        assert_eq!(set(&[("one", 1), ("one", 2)], at(2)), (Ok(true), 1, 3));
        let ids = driver.devices.iter().map(|it| &*it.id);
        assert_eq!(
            ids.collect::<Vec<_>>(),
            ["pool/odd", "pool/one", "pool/two"]
        );
        driver.forget_health();
        assert_eq!(driver.count(Health::Unknown), 3);
    }

    #[test]
    fn health_that_is_not_reported_in_time_expires() {
        let mut driver = Driver::new(&plugin("/r/a"), "v1.DRAPlugin");
        let mut two = message(&[("two", 1)]);
        let slow = NodeWatchResourcesResponse::decode(&*two).map(|mut it| {
            it.devices[0].health_check_timeout_seconds = 40;
            it.encode_to_vec()
        });
        two = slow.expect("a message");
        assert_eq!(
            set_health(&mut driver, &message(&[("one", 1)]), at(0)),
            Ok(true)
        );
        assert_eq!(set_health(&mut driver, &two, at(0)), Ok(true));
        let mut seen = Vec::new();
        while let Some(next) =
            driver.next_expiry(seen.last().map_or(Time::ZERO, |it: &(Time, _)| it.0))
        {
            assert!(driver.expire_health(next));
            let health: Vec<_> = driver.devices.iter().map(|it| it.health).collect();
            seen.push((next, health));
        }
        let (healthy, unknown) = (Health::Healthy, Health::Unknown);
        assert_eq!(
            seen,
            [
                (at(30), vec![unknown, healthy]),
                (at(40), vec![unknown, unknown]),
                (at(60), vec![unknown]),
                (at(80), vec![]),
            ]
        );
    }

    #[test]
    fn an_undecodable_or_too_long_report_changes_nothing() {
        let mut driver = Driver::new(&plugin("/r/a"), "v1.DRAPlugin");
        assert_eq!(
            set_health(&mut driver, &message(&[("one", 1)]), at(0)),
            Ok(true)
        );
        let before = driver.clone();
        let listed = MAX_DEVICES + 1;
        let too_many = [0x0a, 0].repeat(listed);
        let refused = set_health(&mut driver, &too_many, at(0));
        assert_eq!(refused, Err(Unlistable::TooMany { listed }));
        let names: Vec<_> = (0..MAX_DEVICES).map(|it| it.to_string()).collect();
        let names: Vec<_> = names.iter().map(|it| (it.as_str(), 1)).collect();
        let refused = set_health(&mut driver, &message(&names), at(0));
        assert_eq!(
            refused,
            Err(Unlistable::TooMany { listed }),
            "with the one before"
        );
        let refused = set_health(&mut driver, &[0xff], at(0));
        assert_eq!(refused, Err(Unlistable::Undecodable));
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
            drivers.0.set(Driver::new(&plugin(socket), "v1.DRAPlugin"));
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

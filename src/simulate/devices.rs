//! The two simulated devices of a plugin. The second one can become unhealthy, and healthy again.

use std::time::Duration;

use prost::Message as _;

use crate::proto::v1alpha1::{
    DeviceHealth, DeviceIdentifier, HealthStatus, NodeWatchResourcesResponse,
};
use crate::proto::v1beta1::{Device, ListAndWatchResponse};
use crate::time::Time;

/// The state of the devices.
#[derive(Debug)]
pub(super) struct Devices {
    /// The origin of [`Time`], as the time since the Unix epoch.
    origin: Duration,
    is_second_healthy: bool,
    /// The time of the last change of the second device.
    since: Time,
}

/// The type of the messages in which a stream lists the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// ListAndWatchResponse, of a device plugin.
    Devices,
    /// NodeWatchResourcesResponse, of a DRA driver.
    Health,
}

impl Devices {
    /// Creates devices that are all healthy.
    pub(super) fn new(origin: Duration, now: Time) -> Self {
        Self {
            origin,
            is_second_healthy: true,
            since: now,
        }
    }

    /// Makes the second device unhealthy, or healthy again. Returns whether it is healthy now.
    pub(super) fn toggle(&mut self, now: Time) -> bool {
        self.is_second_healthy = !self.is_second_healthy;
        self.since = now;
        self.is_second_healthy
    }

    /// Returns the encoded message that lists all devices.
    pub(super) fn encode_list(&self, listing: Listing) -> Vec<u8> {
        let all = NAMES.into_iter().zip([true, self.is_second_healthy]);
        match listing {
            Listing::Devices => {
                let devices = all.map(|(name, is_healthy)| device(name, is_healthy));
                let devices = devices.collect();
                ListAndWatchResponse { devices }.encode_to_vec()
            }
            Listing::Health => {
                let devices = all.map(|(name, is_healthy)| self.health(name, is_healthy));
                let devices = devices.collect();
                NodeWatchResourcesResponse { devices }.encode_to_vec()
            }
        }
    }

    fn health(&self, name: &str, is_healthy: bool) -> DeviceHealth {
        let since = self.origin + self.since.since_origin();
        let health = if is_healthy {
            HealthStatus::Healthy
        } else {
            HealthStatus::Unhealthy
        };
        DeviceHealth {
            device: Some(DeviceIdentifier {
                pool_name: "simulated".to_owned(),
                device_name: name.to_owned(),
            }),
            health: health.into(),
            last_updated_time: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            // A day, because updates are sent only on changes.
            health_check_timeout_seconds: 24 * 60 * 60,
            message: String::new(),
        }
    }
}

fn device(name: &str, is_healthy: bool) -> Device {
    let health = if is_healthy { "Healthy" } else { "Unhealthy" };
    Device {
        id: name.to_owned(),
        health: health.to_owned(),
        topology: None,
    }
}

/// The names of the devices.
pub(super) const NAMES: [&str; 2] = ["device-0", "device-1"];

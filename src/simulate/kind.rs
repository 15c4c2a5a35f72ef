//! The properties that depend on the type of a plugin, such as its usual name and its methods.

use super::Socket;
use crate::proto::csi_v1::{identity, node};
use crate::proto::pluginregistration::registration;
use crate::proto::v1alpha1::dra_resource_health;
use crate::proto::v1beta1::device_plugin;

/// The types of plugins that the simulation distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginKind {
    /// A CSI driver.
    Csi,
    /// A device plugin.
    Device,
    /// A DRA driver.
    Dra,
    /// Any other type, which serves only its registration.
    Other,
}

impl PluginKind {
    /// Returns the kind of plugins of the type with this name.
    pub fn of_type(name: &str) -> Self {
        match name {
            "CSIPlugin" => Self::Csi,
            "DevicePlugin" => Self::Device,
            "DRAPlugin" => Self::Dra,
            _ => Self::Other,
        }
    }

    /// Returns a valid plugin name for the type. The name of a device plugin is that of its
    /// resource.
    pub fn usual_name(self) -> &'static str {
        match self {
            Self::Csi => "csi.simulated.example",
            Self::Device => "simulated.example/device",
            Self::Dra => "dra.simulated.example",
            Self::Other => "simulated.example",
        }
    }

    /// Returns the versions that such plugins usually report, separated by commas. DRA drivers list
    /// the services that they serve.
    pub fn usual_versions(self) -> &'static str {
        match self {
            Self::Csi | Self::Other => "1.0.0",
            Self::Device => "v1beta1",
            Self::Dra => "v1.DRAPlugin,v1beta1.DRAPlugin,v1alpha1.DRAResourceHealth",
        }
    }

    /// Returns whether such plugins report their endpoint even if it is the registration socket:
    /// node-driver-registrar requires a path, and the library for DRA drivers always reports one.
    /// The sample device plugin of Kubernetes does not.
    pub(super) fn names_its_socket(self) -> bool {
        matches!(self, Self::Csi | Self::Dra)
    }

    /// Returns whether such plugins have devices.
    pub fn has_devices(self) -> bool {
        matches!(self, Self::Device | Self::Dra)
    }

    /// Returns the methods that such plugins serve on one of their sockets.
    pub(super) fn methods(self, socket: Socket) -> &'static [&'static str] {
        let all: &'static [&'static str] = match self {
            Self::Csi => &[
                registration::GET_INFO,
                registration::NOTIFY_REGISTRATION_STATUS,
                identity::PROBE,
                node::NODE_GET_INFO,
            ],
            Self::Device => &[
                registration::GET_INFO,
                registration::NOTIFY_REGISTRATION_STATUS,
                device_plugin::GET_DEVICE_PLUGIN_OPTIONS,
                device_plugin::LIST_AND_WATCH,
                device_plugin::GET_PREFERRED_ALLOCATION,
                device_plugin::ALLOCATE,
                device_plugin::PRE_START_CONTAINER,
            ],
            Self::Dra => &[
                registration::GET_INFO,
                registration::NOTIFY_REGISTRATION_STATUS,
                dra_resource_health::NODE_WATCH_RESOURCES,
                NODE_WATCH_RESOURCES_V1,
            ],
            Self::Other => &[
                registration::GET_INFO,
                registration::NOTIFY_REGISTRATION_STATUS,
            ],
        };
        // The two methods of the registration come first in every list.
        let (registration, service) = all.split_at(2);
        match socket {
            Socket::Common => all,
            Socket::Registration => registration,
            Socket::Service => service,
        }
    }
}

/// The path of NodeWatchResources in version v1 of its service, whose messages are those of
/// v1alpha1.
pub(super) const NODE_WATCH_RESOURCES_V1: &str = "/v1.DRAResourceHealth/NodeWatchResources";

//! The configuration of a plugin: its description, its sockets and its faults.

use std::path::PathBuf;
use std::time::Duration;

use super::Socket;
use super::kind::PluginKind;
use crate::proto::pluginregistration::PluginInfo;

/// The configuration of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The plugin type.
    pub kind: String,
    /// The plugin name.
    pub name: String,
    /// The versions that the plugin reports.
    pub versions: Vec<String>,
    /// The path of the registration socket, or of the only socket if the plugin registers itself.
    pub socket: PathBuf,
    /// Whether the plugin registers itself with the `kubelet.sock` next to its socket, as older
    /// device plugins do, instead of serving the registration.
    pub is_legacy: bool,
    /// The path of the service's own socket; `None` serves it on the registration socket.
    pub endpoint: Option<String>,
    /// The interval at which a device becomes unhealthy, or healthy again; `None` means never.
    pub toggle_health: Option<Duration>,
    /// The names of CDI devices with which the plugin answers Allocate; if empty, it answers with
    /// device nodes, a mount and an environment variable.
    pub cdi_devices: Vec<String>,
    /// The faults that the plugin simulates.
    pub faults: Faults,
}

/// The faults of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The number of GetInfo calls, from the first one on, that fail.
    pub fail_get_info: u32,
    /// The delay of every answer.
    pub delay: Duration,
    /// The time after which the plugin exits as if it were killed.
    pub crash_after: Option<Duration>,
    /// Whether the plugin replies to NotifyRegistrationStatus with an error.
    pub reject_notify: bool,
    /// Whether the plugin replies to Allocate with an error.
    pub refuse_allocate: bool,
    /// The delay of replies to Allocate, in addition to `delay`.
    pub delay_allocate: Duration,
    /// Whether the plugin leaves its sockets behind when it is asked to exit.
    pub stale: bool,
}

impl Profile {
    /// Returns the reply to GetInfo.
    pub fn info(&self) -> PluginInfo {
        // A path that is not UTF-8 cannot be reported. The endpoint is then empty, which also
        // stands for the registration socket.
        let own = self
            .socket
            .to_str()
            .filter(|_| self.kind().names_its_socket());
        PluginInfo {
            r#type: self.kind.clone(),
            name: self.name.clone(),
            endpoint: self
                .endpoint
                .as_deref()
                .or(own)
                .unwrap_or_default()
                .to_owned(),
            supported_versions: self.versions.clone(),
        }
    }

    /// Returns the sockets to listen on. The service's socket comes first, so that the service
    /// answers by the time the node finds the registration socket.
    pub fn sockets(&self) -> Vec<(PathBuf, Socket)> {
        let service = self.endpoint.as_ref().map(PathBuf::from);
        match service.filter(|service| *service != self.socket) {
            None if self.is_legacy => vec![(self.socket.clone(), Socket::Service)],
            None => vec![(self.socket.clone(), Socket::Common)],
            Some(service) => vec![
                (service, Socket::Service),
                (self.socket.clone(), Socket::Registration),
            ],
        }
    }

    /// Returns the path of the `kubelet.sock` with which the plugin registers itself, or `None` if
    /// the plugin does not do so.
    pub fn kubelet_socket(&self) -> Option<PathBuf> {
        let path = self.socket.with_file_name("kubelet.sock");
        self.is_legacy.then_some(path)
    }

    /// Returns the kind of plugins of the profile's type.
    pub fn kind(&self) -> PluginKind {
        PluginKind::of_type(&self.kind)
    }
}

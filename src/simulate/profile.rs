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
    /// The versions that it reports.
    pub versions: Vec<String>,
    /// The path of its registration socket; if it registers itself, that of its only socket.
    pub socket: PathBuf,
    /// Whether it registers itself at the `kubelet.sock` beside its socket, and does not serve a
    /// registration: a device plugin of the older kind.
    pub is_legacy: bool,
    /// The path of the service's own socket; `None` serves it on the registration socket.
    pub endpoint: Option<String>,
    /// The interval at which one of its devices breaks or is repaired; `None` means never.
    pub toggle_health: Option<Duration>,
    /// The names with which it answers Allocate; empty: with a device node, a mount and a variable.
    pub cdi_devices: Vec<String>,
    /// The faults.
    pub faults: Faults,
}

/// The faults of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The number of GetInfo calls that fail.
    pub fail_get_info: u32,
    /// The delay of every answer.
    pub delay: Duration,
    /// The time after which it exits as if it were killed.
    pub crash_after: Option<Duration>,
    /// Whether it replies to NotifyRegistrationStatus with an error.
    pub reject_notify: bool,
    /// Whether it replies to Allocate with an error.
    pub refuse_allocate: bool,
    /// The time that it takes for each reply to Allocate, beyond the delay of all.
    pub delay_allocate: Duration,
    /// Whether it leaves its sockets behind when it is asked to exit.
    pub stale: bool,
}

impl Profile {
    /// Returns its reply to GetInfo.
    pub fn info(&self) -> PluginInfo {
        // A path that is not UTF-8 cannot be reported; an empty endpoint means the same.
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

    /// Returns the sockets on which it listens. The service's socket is the first, so that it
    /// answers by the time the node finds the other.
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

    /// Returns the path of the socket at which it registers itself, or `None` if it does not.
    pub fn kubelet_socket(&self) -> Option<PathBuf> {
        let path = self.socket.with_file_name("kubelet.sock");
        self.is_legacy.then_some(path)
    }

    /// Returns the kind of its type.
    pub fn kind(&self) -> PluginKind {
        PluginKind::named(&self.kind)
    }
}

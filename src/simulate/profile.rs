//! Who the plugin is, where it is, and what goes wrong with it.
//!
//! Pure.

use std::path::PathBuf;
use std::time::Duration;

use super::Socket;
use super::kind::Kind;
use crate::proto::pluginregistration::PluginInfo;

/// Everything that may be chosen for a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its type.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What it says it can speak.
    pub versions: Vec<String>,
    /// Where its registration socket is.
    pub socket: PathBuf,
    /// Where its service has a socket of its own; none: it is served on the registration socket.
    pub endpoint: Option<String>,
    /// How often one of its devices breaks or is repaired by itself; none: never.
    pub toggle_health: Option<Duration>,
    /// What goes wrong.
    pub faults: Faults,
}

/// What goes wrong with a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// So many times it fails to say who it is.
    pub fail_get_info: u32,
    /// How long it takes to answer anything.
    pub delay: Duration,
    /// After which time it ends as if it were killed.
    pub crash_after: Option<Duration>,
    /// Whether it answers with an error when it is told how its registration ended.
    pub reject_notify: bool,
    /// Whether it leaves its sockets behind when it is asked to end.
    pub stale: bool,
}

impl Profile {
    /// What it says of itself.
    pub fn info(&self) -> PluginInfo {
        // A path that is no text cannot be said: nothing means the same.
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

    /// Where it listens: on its service's socket first, so that this answers when the node hears
    /// of the other.
    pub fn sockets(&self) -> Vec<(PathBuf, Socket)> {
        let service = self.endpoint.as_ref().map(PathBuf::from);
        match service.filter(|service| *service != self.socket) {
            None => vec![(self.socket.clone(), Socket::Common)],
            Some(service) => vec![
                (service, Socket::Service),
                (self.socket.clone(), Socket::Registration),
            ],
        }
    }

    /// What plugins of its type are like.
    pub fn kind(&self) -> Kind {
        Kind::named(&self.kind)
    }
}

//! The call by which a plugin announces itself.
//!
//! Pure: values only.

use std::path::Path;
use std::sync::Arc;

use super::failure::{Failure, Refusal};
use super::process::Process;
use crate::config::MAX_ANNOUNCED;
use crate::handler::{Plugin, dial_failure};

/// The number of a call by which a plugin announces itself. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnnouncementId(pub u64);

/// The source of a socket.
#[derive(Clone, Debug, Default)]
pub(super) enum Origin {
    /// The watch has found it.
    #[default]
    Watched,
    /// Its plugin has announced itself. Boxed, because few plugins do.
    Announced(Box<Announced>),
}

/// The announcement of a plugin.
#[derive(Clone, Debug)]
pub(super) struct Announced {
    /// The plugin, as it described itself.
    pub(super) plugin: Arc<Plugin>,
    /// The process that called.
    pub(super) caller: Option<Process>,
    /// The call, until it is answered.
    pub(super) call: Option<AnnouncementId>,
}

/// The reason why an announced plugin is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnouncementError {
    /// The attempt to register the plugin failed.
    Failed(Failure),
    /// The plugin, or another one with its endpoint, was announced again meanwhile.
    Superseded,
    /// The plugin's handler has it deregistered while it is being registered.
    Withdrawn,
    /// [`MAX_ANNOUNCED`] plugins have announced themselves.
    TooMany,
    /// The daemon stops.
    Stopping,
}

impl AnnouncementError {
    /// Returns the message of the status that the plugin gets, in kubelet's words if it has any.
    /// Not escaped, because it is sent to the plugin itself.
    pub fn status_error(&self, endpoint: &Path) -> String {
        match self {
            Self::Failed(Failure::Dial(error)) => {
                let why = dial_failure(error, endpoint);
                format!("failed to dial device plugin: {why}")
            }
            Self::Failed(Failure::Refused(
                Refusal::Validation(reason)
                | Refusal::Registration(reason)
                | Refusal::EndpointTaken { reason, .. },
            )) => reason.as_str().to_owned(),
            Self::Failed(failure) => failure.to_string(),
            Self::Superseded => "the plugin was announced again".to_owned(),
            Self::Withdrawn => "the plugin is to be deregistered".to_owned(),
            Self::TooMany => format!("{MAX_ANNOUNCED} device plugins are registered"),
            Self::Stopping => "plugind is stopping".to_owned(),
        }
    }
}

impl Origin {
    /// Returns the announcement of the socket's plugin.
    pub(super) fn announced(&self) -> Option<&Announced> {
        match self {
            Self::Watched => None,
            Self::Announced(announced) => Some(announced),
        }
    }

    /// Removes and returns the call that was not answered yet.
    pub(super) fn take_call(&mut self) -> Option<AnnouncementId> {
        match self {
            Self::Watched => None,
            Self::Announced(announced) => announced.call.take(),
        }
    }
}

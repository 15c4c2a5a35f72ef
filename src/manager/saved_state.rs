//! The state that is restored after a restart: which plugins were registered.
//!
//! Pure: octets in; the daemon reads the file, and writes a [`super::Snapshot`] to it. A plugin may
//! go while the daemon is down, and its handler must still deregister it. So the registered plugins
//! are kept in a file; a plugin in it whose socket the watch reports as lost is deregistered.
//!
//! A file from before a reboot does not apply to the sockets of this boot, and a file that is torn
//! or was not written by this program has no meaning. Both are rejected, which costs only the saved
//! state.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Manager;
use super::registered::{By, Compared, Registered};
use crate::escape;
use crate::handler::Plugin;
use crate::watch::Identity;

/// The registered plugins at some moment, as a [`super::Snapshot`] has encoded them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SavedState {
    /// The format of the file: [`FORMAT`] or [`FORMAT_1`].
    format: String,
    /// The boot during which it was written, as the kernel identifies it.
    boot: String,
    /// The plugins that had gone and were yet to be deregistered. Older versions skip this field.
    #[serde(default)]
    owed: Vec<SavedPlugin>,
    plugins: Vec<SavedPlugin>,
}

/// A plugin that was registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedPlugin {
    socket: PathBuf,
    device: u64,
    inode: u64,
    #[serde(rename = "born")]
    btime: (i64, u32),
    r#type: String,
    name: String,
    endpoint: PathBuf,
    versions: Vec<String>,
    /// Whether only device and inode of the socket are known.
    #[serde(default, skip_serializing_if = "is_false")]
    by_inode: bool,
}

/// The reason why a file is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedStateError {
    /// The file is not valid: torn, or not written by this program.
    Unreadable(String),
    /// The file was written by another program or another version.
    Foreign(String),
    /// The file was written before the last reboot.
    Stale,
}

impl SavedState {
    /// Decodes a file's content, in the boot of that name.
    pub fn decode(content: &[u8], boot: &str) -> Result<Self, SavedStateError> {
        let state: Self = serde_json::from_slice(content)
            .map_err(|error| SavedStateError::Unreadable(error.to_string()))?;
        if ![FORMAT, FORMAT_1].contains(&&*state.format) {
            return Err(SavedStateError::Foreign(state.format));
        }
        if state.boot != boot {
            return Err(SavedStateError::Stale);
        }
        Ok(state)
    }

    /// Returns the number of registered plugins in the file.
    pub fn len(&self) -> usize {
        self.plugins.len()
    }

    /// Returns whether the file has no registered plugins.
    pub fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }
}

impl SavedPlugin {
    /// Returns the entry of a plugin, or `None` if one of its paths is not UTF-8.
    pub(super) fn of(plugin: &Plugin, identity: Identity, compared: Compared) -> Option<Self> {
        plugin.socket.to_str()?;
        plugin.endpoint.to_str()?;
        Some(Self {
            socket: plugin.socket.to_path_buf(),
            device: identity.device,
            inode: identity.inode,
            btime: identity.btime,
            r#type: plugin.kind.clone(),
            name: plugin.name.clone(),
            endpoint: plugin.endpoint.to_path_buf(),
            versions: plugin.versions.clone(),
            by_inode: compared == Compared::Inode,
        })
    }

    fn identity(&self) -> Identity {
        Identity {
            device: self.device,
            inode: self.inode,
            btime: self.btime,
        }
    }

    fn into_plugin(self) -> Plugin {
        Plugin {
            kind: self.r#type,
            name: self.name,
            endpoint: self.endpoint.into(),
            versions: self.versions,
            socket: self.socket.into(),
        }
    }
}

impl Manager {
    /// Restores what was registered before a restart. To be called before any socket is found.
    /// Deregistrations that were owed begin with the next input or timeout.
    ///
    /// A restored plugin whose socket is found again is registered again, as every plugin is after
    /// a restart. If another socket has replaced it, or another plugin answers there, the restored
    /// plugin is deregistered first. If the socket has gone, the plugin is deregistered when
    /// [`super::Input::Lost`] reports that, unless a plugin with its type, name and endpoint is
    /// registered through another socket by then: to deregister it would undo that registration.
    pub fn restore(&mut self, state: SavedState) {
        let is_format_1 = state.format == FORMAT_1;
        for plugin in state.owed.into_iter().map(SavedPlugin::into_plugin) {
            self.host.resume(plugin);
        }
        for saved in state.plugins {
            let compared = if is_format_1 || saved.by_inode {
                Compared::Inode
            } else {
                Compared::Identity
            };
            let identity = saved.identity();
            let plugin = Arc::new(saved.into_plugin());
            let restored = Registered::new(plugin, identity, By::Restored(compared));
            self.sockets.restore(restored, &mut self.context);
        }
    }

    /// Returns the sockets of restored plugins that have been neither found nor lost yet.
    pub fn restored(&self) -> Vec<Arc<Path>> {
        let restored = self.sockets.restored();
        restored.map(|socket| socket.path.clone()).collect()
    }
}

impl fmt::Display for SavedStateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(
                f,
                "it is truncated or was not written by plugind: {}",
                escape::text(error)
            ),
            Self::Foreign(format) => {
                write!(
                    f,
                    "its format is \"{}\" and not \"{FORMAT}\"",
                    escape::text(format)
                )
            }
            Self::Stale => f.write_str("it was written before the last reboot"),
        }
    }
}

impl std::error::Error for SavedStateError {}

/// The first word of a file, with the version of its format.
pub(super) const FORMAT: &str = "plugind registered plugins 2";

/// The first word of a file of the first format. The static binary wrote a socket's modification
/// time in place of its birth time, so only device and inode of such a file are valid.
const FORMAT_1: &str = "plugind registered plugins 1";

/// Takes a reference because serde passes one.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "0a1b";

    /// Returns a file with one plugin.
    fn file() -> String {
        format!(
            r#"{{"format":"{FORMAT}","boot":"{BOOT}","plugins":[{{"socket":"/r/a-reg.sock",
            "device":1,"inode":2,"born":[3,4],"type":"CSIPlugin","name":"a",
            "endpoint":"/p/a.sock","versions":["1.0.0"]}}]}}"#
        )
    }

    #[test]
    fn a_torn_file_is_refused_wherever_it_is_torn() {
        let whole = file().into_bytes();
        assert!(SavedState::decode(&whole, BOOT).is_ok());
        for length in 0..whole.len() {
            let torn = SavedState::decode(&whole[..length], BOOT);
            assert!(
                matches!(torn, Err(SavedStateError::Unreadable(_))),
                "{length}"
            );
        }
    }

    #[test]
    fn a_foreign_or_stale_file_is_refused() {
        assert_eq!(
            SavedState::decode(file().as_bytes(), "another boot"),
            Err(SavedStateError::Stale)
        );
        let other = file().replace(FORMAT, "something else");
        assert_eq!(
            SavedState::decode(other.as_bytes(), BOOT),
            Err(SavedStateError::Foreign("something else".into()))
        );
        assert!(SavedState::decode(b"[]", BOOT).is_err());
    }
}

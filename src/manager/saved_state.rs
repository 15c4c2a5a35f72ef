//! The state that is restored after a restart: which plugins were registered.
//!
//! Pure: octets in and out; the daemon reads and writes the file. A plugin may end while the daemon
//! is not running, and its handler must still deregister it. So the registered plugins are saved in
//! a file; a saved plugin is deregistered if the watch reports its socket as lost.
//!
//! A file is at most [`MAX_STATE_FILE`] long, which is also the maximum that is read. Each of
//! [`MAX_SOCKETS`](crate::config::MAX_SOCKETS) plugins has a share of that length, which no honest
//! plugin exceeds. If a file would be longer, the longest entries are left out, so a registered
//! plugin with a very long description does not displace those with shorter ones.
//!
//! A file from before a reboot does not apply to the sockets of this boot, and a file that is
//! truncated or was not written by this program has no meaning. Both are rejected, and only the
//! saved state is lost.

use std::fmt::Display;
use std::ops::Not;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Manager;
use super::context::Work;
use super::registered::{KnownBy, Registered};
use super::socket::Socket;
use crate::config::{DEVICE_GRACE, MAX_STATE_FILE};
use crate::escape;
use crate::handler::Plugin;
use crate::watch::Identity;

/// A snapshot of the plugins that a restart needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// The format of the file: [`FORMAT`].
    format: String,
    /// The kernel's ID of the boot during which the file was written.
    boot: String,
    /// The plugins that handlers had yet to deregister. Older versions ignore this field.
    #[serde(default)]
    owed: Vec<SavedPlugin>,
    plugins: Vec<SavedPlugin>,
    #[serde(skip)]
    left_out: usize,
}

/// A plugin that was registered, or that a handler had yet to deregister.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedPlugin {
    socket: PathBuf,
    device: u64,
    inode: u64,
    /// The birth time of the socket, in seconds and nanoseconds.
    born: (i64, u32),
    r#type: String,
    name: String,
    endpoint: PathBuf,
    versions: Vec<String>,
    /// Whether the plugin announced itself. Older versions ignore this field.
    #[serde(default, skip_serializing_if = "Not::not")]
    announced: bool,
}

/// The reason why a file is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedStateError {
    /// The file is not valid: truncated, or not written by this program.
    #[error("it is truncated or was not written by plugind: {}", escape::text(.0))]
    Unreadable(String),
    /// The file was written by another program or another version.
    #[error("its format is \"{}\", expected \"{FORMAT}\"", escape::text(.0))]
    Foreign(String),
    /// The file was written before the last reboot.
    #[error("it was written before the last reboot")]
    Stale,
}

impl SavedState {
    /// Decodes the content of a file; `boot` identifies the current boot.
    pub fn decode(content: &[u8], boot: &str) -> Result<Self, SavedStateError> {
        let unreadable = |error: &dyn Display| SavedStateError::Unreadable(error.to_string());
        let content = std::str::from_utf8(content).map_err(|error| unreadable(&error))?;
        let state: Self = serde_json::from_str(content).map_err(|error| unreadable(&error))?;
        if state.format != FORMAT {
            return Err(SavedStateError::Foreign(state.format));
        }
        if state.boot != boot {
            return Err(SavedStateError::Stale);
        }
        Ok(state)
    }

    /// Encodes the file. Leaves out the longest entries, those of registered plugins first, if the
    /// file would be too long.
    pub fn encode(&mut self) -> Vec<u8> {
        let content = self.to_json();
        let mut excess = content.len().saturating_sub(MAX_STATE_FILE);
        if excess == 0 {
            return content;
        }
        for plugins in [&mut self.plugins, &mut self.owed] {
            plugins.sort_by_cached_key(SavedPlugin::len);
            while excess > 0 {
                let Some(longest) = plugins.pop() else { break };
                excess = excess.saturating_sub(longest.len());
                self.left_out += 1;
            }
        }
        self.to_json()
    }

    fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::new();
        escape::append_json(self, &mut json);
        json.push(b'\n');
        json
    }

    /// Returns the number of plugins left out: there was no room, or one of the paths is not UTF-8.
    pub fn left_out_count(&self) -> usize {
        self.left_out
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
    /// Returns the entry of a plugin with the identity of its socket, and whether the plugin has
    /// announced itself; `None` if one of its paths is not UTF-8.
    fn of((plugin, identity, announced): (&Arc<Plugin>, Identity, bool)) -> Option<Self> {
        plugin.socket.to_str()?;
        plugin.endpoint.to_str()?;
        Some(Self {
            socket: plugin.socket.to_path_buf(),
            device: identity.device,
            inode: identity.inode,
            born: identity.btime_parts(),
            r#type: plugin.kind.clone(),
            name: plugin.name.clone(),
            endpoint: plugin.endpoint.to_path_buf(),
            versions: plugin.versions.clone(),
            // mutation: a plugin that announced itself is awaited like a socket after a restart
            announced,
        })
    }

    /// Returns the length of the encoded entry (octets).
    fn len(&self) -> usize {
        let mut json = Vec::new();
        escape::append_json(self, &mut json);
        json.len()
    }

    /// Returns the plugin, the identity of its socket, and whether the plugin announced itself.
    fn into_plugin(self) -> (Arc<Plugin>, Identity, bool) {
        let identity = Identity {
            device: self.device,
            inode: self.inode,
            btime: Identity::btime_of(self.born.0, self.born.1),
        };
        let plugin = Plugin {
            kind: self.r#type,
            name: self.name,
            endpoint: self.endpoint.into(),
            versions: self.versions,
            socket: self.socket.into(),
        };
        (Arc::new(plugin), identity, self.announced)
    }
}

impl Manager {
    /// Returns what a restart in this boot needs: the plugins that handlers know, those that were
    /// registered before the last restart and have not been registered again yet, and those that
    /// handlers have yet to deregister.
    pub fn snapshot(&self, boot: &str) -> SavedState {
        let mut left_out = 0;
        let mut encode = |plugin| {
            let entry = SavedPlugin::of(plugin);
            left_out += usize::from(entry.is_none());
            entry
        };
        // No socket has the default identity.
        let owed = self.host.owed.iter();
        let owed = owed.map(|debt| (&debt.plugin, Identity::default(), false));
        let owed = owed.filter_map(&mut encode).collect();
        let plugins = self.sockets.iter().filter_map(Socket::plugin_to_save);
        let plugins = plugins.filter_map(&mut encode).collect();
        SavedState {
            format: FORMAT.to_owned(),
            boot: boot.to_owned(),
            owed,
            plugins,
            left_out,
        }
    }

    /// Restores what was registered before a restart. To be called before any socket is found.
    /// Deregistrations that were owed begin with the next input or timeout.
    ///
    /// A restored plugin whose socket is found again is registered again, as every plugin is after
    /// a restart. If another socket has replaced it, or another plugin answers there, the restored
    /// plugin is deregistered first. If the socket has gone, the plugin is deregistered when
    /// [`super::Input::Lost`] reports that, unless a plugin with its type, name and endpoint is
    /// registered through another socket by then: to deregister it would undo that registration. A
    /// restored plugin that announced itself has [`DEVICE_GRACE`] to do so again.
    pub fn restore(&mut self, state: SavedState) {
        for owed in state.owed {
            let (plugin, ..) = owed.into_plugin();
            // mutation: a program that is owed is forgotten in a restart
            self.context.work.push_back(Work::Resume(plugin));
        }
        for saved in state.plugins {
            let (plugin, identity, is_announced) = saved.into_plugin();
            let path = plugin.socket.clone();
            if path.as_os_str().is_empty() {
                continue;
            }
            let Some(socket) = self.sockets.get_or_insert(&path) else {
                continue;
            };
            let known_by = KnownBy::Restored { is_announced };
            let mut restored = Registered::new(plugin, identity, known_by);
            if is_announced {
                restored.health.check_at = Some(self.context.now + DEVICE_GRACE);
            }
            socket.set_registered(restored, &mut self.context);
            let id = socket.id;
            self.visit(id, |_| {}); // Sets the deadline, and notes that the record is new.
        }
    }
}

/// The format of a file; its last word is the version.
pub(super) const FORMAT: &str = "plugind registered plugins 2";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::MAX_SOCKETS;

    const BOOT: &str = "0a1b";

    /// Returns a file with one plugin.
    fn file_of_one_plugin() -> String {
        format!(
            r#"{{"format":"{FORMAT}","boot":"{BOOT}","plugins":[{{"socket":"/r/a-reg.sock",
            "device":1,"inode":2,"born":[3,4],"type":"CSIPlugin","name":"a",
            "endpoint":"/p/a.sock","versions":["1.0.0"]}}]}}"#
        )
    }

    #[test]
    fn a_torn_file_is_refused_wherever_it_is_torn() {
        let whole = file_of_one_plugin().into_bytes();
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
            SavedState::decode(file_of_one_plugin().as_bytes(), "another boot"),
            Err(SavedStateError::Stale)
        );
        let other = file_of_one_plugin().replace(FORMAT, "something else");
        assert_eq!(
            SavedState::decode(other.as_bytes(), BOOT),
            Err(SavedStateError::Foreign("something else".into()))
        );
        assert!(SavedState::decode(b"[]", BOOT).is_err());
    }

    /// Returns an entry with that number of control characters, each of which is escaped to six
    /// octets.
    fn saved_plugin(name: &str, text: usize) -> SavedPlugin {
        let plugin = Plugin {
            kind: "CSIPlugin".into(),
            name: name.into(),
            endpoint: Path::new("/p/a.sock").into(),
            versions: vec!["\u{1}".repeat(text)],
            socket: Path::new(&format!("/r/{name}.sock")).into(),
        };
        SavedPlugin::of((&Arc::new(plugin), Identity::default(), false))
            .expect("its paths are text")
    }

    #[test]
    fn a_file_is_never_longer_than_what_is_read() {
        let large = (0..60).map(|n| saved_plugin(&format!("large-{n}"), 25 * 1024));
        let usual = (0..100).map(|n| saved_plugin(&format!("usual-{n}"), 100));
        let mut state = SavedState {
            format: FORMAT.to_owned(),
            boot: BOOT.to_owned(),
            owed: vec![saved_plugin("owed", 40 * 1024)],
            plugins: usual.chain(large).collect(),
            left_out: 0,
        };
        let content = state.encode();
        assert!(content.len() <= MAX_STATE_FILE, "{}", content.len());
        let left_out = state.left_out_count();
        assert!((5..30).contains(&left_out), "{left_out}");
        let read = SavedState::decode(&content, BOOT).expect("it was just encoded");
        assert_eq!((read.len(), read.owed.len()), (160 - left_out, 1));
        let is_usual = |it: &&SavedPlugin| it.name.starts_with("usual-");
        assert_eq!(read.plugins.iter().filter(is_usual).count(), 100);
    }

    #[test]
    fn a_plugin_with_the_longest_paths_has_its_share() {
        let honest = Plugin {
            kind: "DevicePlugin".into(),
            name: "n".repeat(253),
            endpoint: Path::new(&"e".repeat(107)).into(),
            versions: vec!["v1beta1.DRAPlugin".into(), "v1.DRAPlugin".into()],
            socket: Path::new(&"s".repeat(107)).into(),
        };
        let entry = SavedPlugin::of((&Arc::new(honest), Identity::default(), true))
            .expect("its paths are text");
        assert!(entry.len() < MAX_STATE_FILE / MAX_SOCKETS);
    }
}

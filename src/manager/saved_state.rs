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

use super::Manager;
use super::registered::{By, Compared, Registered};
use crate::config::DEVICE_GRACE;
use crate::escape;
use crate::handler::Plugin;
use crate::json::{Reader, Writer};
use crate::watch::Identity;

/// The registered plugins at some moment, as a [`super::Snapshot`] has encoded them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedState {
    /// The format of the file: [`FORMAT`] or [`FORMAT_1`].
    format: String,
    /// The boot during which it was written, as the kernel identifies it.
    boot: String,
    /// The number of the first entry of the journal that the file does not contain. Older versions
    /// neither write nor read this field.
    journal: Option<u64>,
    /// The plugins that had gone and were yet to be deregistered. Older versions skip this field.
    owed: Vec<SavedPlugin>,
    plugins: Vec<SavedPlugin>,
}

/// A plugin that was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedPlugin {
    socket: PathBuf,
    device: u64,
    inode: u64,
    btime: (i64, u32),
    kind: String,
    name: String,
    endpoint: PathBuf,
    versions: Vec<String>,
    /// Whether only device and inode of the socket are known.
    by_inode: bool,
    /// Whether the plugin announced itself. Older versions skip this field.
    announced: bool,
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
        let mut reader = Reader::new(content);
        let state = Self::read(&mut reader).filter(|_| reader.is_at_end());
        let Some(state) = state else {
            let place = content.len() - reader.left();
            let error = format!("not valid at octet {place}");
            return Err(SavedStateError::Unreadable(error));
        };
        if ![FORMAT, FORMAT_1].contains(&&*state.format) {
            return Err(SavedStateError::Foreign(state.format));
        }
        if state.boot != boot {
            return Err(SavedStateError::Stale);
        }
        Ok(state)
    }

    /// Reads a file. Keys that are not known are skipped.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut state = Self::default();
        let (mut format, mut boot, mut has_plugins) = (None, None, false);
        reader.object(&mut |reader, key| {
            match key {
                "format" => format = Some(reader.text()?),
                "boot" => boot = Some(reader.text()?),
                "journal" => state.journal = Some(reader.number()?),
                "owed" => state.owed = read_plugins(reader)?,
                "plugins" => {
                    state.plugins = read_plugins(reader)?;
                    has_plugins = true;
                }
                _ => reader.ignore()?,
            }
            Some(())
        })?;
        (state.format, state.boot) = (format?, boot?);
        has_plugins.then_some(state)
    }

    /// Returns the number of the first journal entry that the file does not contain. `None`: a
    /// version without a journal wrote the file.
    pub fn journal(&self) -> Option<u64> {
        self.journal
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
            kind: plugin.kind.clone(),
            name: plugin.name.clone(),
            endpoint: plugin.endpoint.to_path_buf(),
            versions: plugin.versions.clone(),
            by_inode: compared == Compared::Inode,
            announced: compared == Compared::Announced,
        })
    }

    /// Reads an entry. Keys that are not known are skipped.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (mut socket, mut endpoint) = (None, None);
        let (mut kind, mut name, mut versions) = (None, None, None);
        let (mut device, mut inode, mut btime) = (None, None, None);
        let (mut by_inode, mut announced) = (false, false);
        reader.object(&mut |reader, key| {
            match key {
                "socket" => socket = Some(reader.text()?),
                "device" => device = Some(reader.number()?),
                "inode" => inode = Some(reader.number()?),
                "born" => btime = Some(read_time(reader)?),
                "type" => kind = Some(reader.text()?),
                "name" => name = Some(reader.text()?),
                "endpoint" => endpoint = Some(reader.text()?),
                "versions" => versions = Some(reader.texts()?),
                "by_inode" => by_inode = reader.boolean()?,
                "announced" => announced = reader.boolean()?,
                _ => reader.ignore()?,
            }
            Some(())
        })?;
        Some(Self {
            socket: socket?.into(),
            device: device?,
            inode: inode?,
            btime: btime?,
            kind: kind?,
            name: name?,
            endpoint: endpoint?.into(),
            versions: versions?,
            by_inode,
            announced,
        })
    }

    /// Writes the entry.
    pub(super) fn write(&self, json: &mut Writer<'_>) {
        json.open(b'{');
        json.key("socket").path(&self.socket);
        json.key("device").number(self.device);
        json.key("inode").number(self.inode);
        let (seconds, nanoseconds) = self.btime;
        json.key("born").open(b'[');
        json.raw(seconds.to_string().as_bytes());
        json.number(nanoseconds.into());
        json.close(b']');
        json.key("type").text(&self.kind);
        json.key("name").text(&self.name);
        json.key("endpoint").path(&self.endpoint);
        json.key("versions").texts(&self.versions);
        if self.by_inode {
            json.key("by_inode").boolean(true);
        }
        if self.announced {
            json.key("announced").boolean(true);
        }
        json.close(b'}');
    }

    /// Returns how its socket is recognised, unless the file has the first format.
    pub(super) fn compared(&self) -> Compared {
        if self.announced {
            Compared::Announced
        } else if self.by_inode {
            Compared::Inode
        } else {
            Compared::Identity
        }
    }

    /// Returns the plugin, and the identity of its socket.
    pub(super) fn into_plugin(self) -> (Arc<Plugin>, Identity) {
        let identity = Identity {
            device: self.device,
            inode: self.inode,
            btime: self.btime,
        };
        let plugin = Plugin {
            kind: self.kind,
            name: self.name,
            endpoint: self.endpoint.into(),
            versions: self.versions,
            socket: self.socket.into(),
        };
        (Arc::new(plugin), identity)
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
        for owed in state.owed {
            self.host.resume(owed.into_plugin().0);
        }
        for saved in state.plugins {
            let compared = match saved.compared() {
                Compared::Identity if is_format_1 => Compared::Inode,
                compared => compared,
            };
            let (plugin, identity) = saved.into_plugin();
            self.restore_plugin(plugin, identity, compared);
        }
    }

    /// Restores a plugin that was registered before a restart.
    pub(super) fn restore_plugin(
        &mut self,
        plugin: Arc<Plugin>,
        identity: Identity,
        compared: Compared,
    ) {
        let mut restored = Registered::new(plugin, identity, By::Restored(compared));
        if compared == Compared::Announced {
            restored.health.check_at = Some(self.context.now + DEVICE_GRACE);
        }
        self.sockets.restore(restored, &mut self.context);
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

/// The identity of a plugin whose socket is not known: not the identity of any socket.
pub(super) const NO_SOCKET: Identity = Identity {
    device: 0,
    inode: 0,
    btime: (0, 0),
};

/// The first word of a file, with the version of its format.
pub(super) const FORMAT: &str = "plugind registered plugins 2";

/// The first word of a file of the first format. The static binary wrote a socket's modification
/// time in place of its birth time, so only device and inode of such a file are valid.
const FORMAT_1: &str = "plugind registered plugins 1";

/// Reads a list of entries.
fn read_plugins(reader: &mut Reader<'_>) -> Option<Vec<SavedPlugin>> {
    let mut plugins = Vec::new();
    reader.array(&mut |reader| {
        plugins.push(SavedPlugin::read(reader)?);
        Some(())
    })?;
    Some(plugins)
}

/// Reads a time: an array of seconds and nanoseconds.
fn read_time(reader: &mut Reader<'_>) -> Option<(i64, u32)> {
    let (mut seconds, mut nanoseconds) = (None, None);
    reader.array(&mut |reader| {
        match (seconds, nanoseconds) {
            (None, _) => seconds = Some(reader.number()?),
            (_, None) => nanoseconds = Some(reader.number()?),
            _ => return None,
        }
        Some(())
    })?;
    Some((seconds?, nanoseconds?))
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

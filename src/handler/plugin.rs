//! A plugin as it described itself.
//!
//! Pure.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{MAX_ENDPOINT, MAX_PLUGIN_NAME};
use crate::escape;
use crate::proto::pluginregistration::PluginInfo;

/// A plugin: what it said of itself in `GetInfo`, and where it said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Its type, which selects the handler: `CSIPlugin`, `DevicePlugin`, `DRAPlugin` or another.
    pub kind: String,
    /// Its name: never empty and free of control characters.
    pub name: String,
    /// Path of the socket that serves the plugin's own services; often the registration socket's.
    pub endpoint: Arc<Path>,
    /// The versions or services it supports, as its type spells them, in the plugin's order.
    pub versions: Vec<String>,
    /// Path of its registration socket.
    pub socket: Arc<Path>,
}

impl Plugin {
    /// The plugin that described itself as `info` on `socket`.
    pub fn from_info(mut info: PluginInfo, socket: Arc<Path>) -> Result<Self, InvalidPlugin> {
        check_lengths(&info)?;
        check_name(&info.name)?;
        if info.endpoint.contains('\0') {
            return Err(InvalidPlugin::EndpointWithNul);
        }
        let endpoint = if info.endpoint.is_empty() || *info.endpoint == *socket.as_os_str() {
            socket.clone()
        } else {
            PathBuf::from(info.endpoint).into()
        };
        // It is kept for as long as the plugin is there: without room to grow.
        info.supported_versions.shrink_to_fit();
        Ok(Self {
            kind: info.r#type,
            name: info.name,
            endpoint,
            versions: info.supported_versions,
            socket,
        })
    }

    /// What plugins are sorted by where they are kept by type and name: the name comes first,
    /// because it differs sooner.
    pub(crate) fn key(&self) -> (&str, &str) {
        (&self.name, &self.kind)
    }
}

impl AsRef<Self> for Plugin {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Type and name, escaped: `CSIPlugin hostpath.csi.k8s.io`.
impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            escape::text(&self.kind),
            escape::text(&self.name)
        )
    }
}

/// What is kept of every plugin, and shown, has a limit.
fn check_lengths(info: &PluginInfo) -> Result<(), InvalidPlugin> {
    if info.r#type.len() > MAX_PLUGIN_NAME {
        Err(InvalidPlugin::TypeTooLong)
    } else if info.name.len() > MAX_PLUGIN_NAME {
        Err(InvalidPlugin::NameTooLong)
    } else if info.endpoint.len() > MAX_ENDPOINT {
        Err(InvalidPlugin::EndpointTooLong)
    } else {
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), InvalidPlugin> {
    if name.is_empty() {
        Err(InvalidPlugin::EmptyName)
    } else if name.contains(char::is_control) {
        Err(InvalidPlugin::ControlCharacterInName)
    } else {
        Ok(())
    }
}

/// What no plugin of any type may say of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPlugin {
    /// It has no name.
    EmptyName,
    /// Its name holds a control character, so no log and no file could name it.
    ControlCharacterInName,
    /// Its endpoint holds a NUL, so it can't be a path.
    EndpointWithNul,
    /// Its type is longer than [`MAX_PLUGIN_NAME`].
    TypeTooLong,
    /// Its name is longer than [`MAX_PLUGIN_NAME`].
    NameTooLong,
    /// Its endpoint is longer than [`MAX_ENDPOINT`].
    EndpointTooLong,
}

impl fmt::Display for InvalidPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyName => "plugin name is empty",
            Self::ControlCharacterInName => "plugin name contains a control character",
            Self::EndpointWithNul => "plugin endpoint contains a NUL character",
            Self::TypeTooLong => "plugin type is too long",
            Self::NameTooLong => "plugin name is too long",
            Self::EndpointTooLong => "plugin endpoint is too long",
        })
    }
}

impl std::error::Error for InvalidPlugin {}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, endpoint: &str) -> PluginInfo {
        PluginInfo {
            r#type: "CSIPlugin".into(),
            name: name.into(),
            endpoint: endpoint.into(),
            supported_versions: vec!["1.0.0".into()],
        }
    }

    fn plugin(name: &str, endpoint: &str) -> Result<Plugin, InvalidPlugin> {
        Plugin::from_info(info(name, endpoint), Path::new("/r/a-reg.sock").into())
    }

    #[test]
    fn an_empty_endpoint_means_the_registration_socket() {
        assert_eq!(
            *plugin("a", "").unwrap().endpoint,
            *Path::new("/r/a-reg.sock")
        );
        assert_eq!(
            *plugin("a", "/p/csi.sock").unwrap().endpoint,
            *Path::new("/p/csi.sock")
        );
    }

    #[test]
    fn what_no_plugin_may_say_of_itself_is_refused() {
        assert_eq!(plugin("", ""), Err(InvalidPlugin::EmptyName));
        assert_eq!(
            plugin("a\nb", ""),
            Err(InvalidPlugin::ControlCharacterInName)
        );
        assert_eq!(
            plugin("a\u{9b}b", ""),
            Err(InvalidPlugin::ControlCharacterInName)
        );
        assert_eq!(plugin("a", "/p\0q"), Err(InvalidPlugin::EndpointWithNul));
        let long = "x".repeat(MAX_PLUGIN_NAME + 1);
        assert_eq!(plugin(&long, ""), Err(InvalidPlugin::NameTooLong));
        assert!(plugin(&long[1..], "").is_ok());
        let far = "/".repeat(MAX_ENDPOINT + 1);
        assert_eq!(plugin("a", &far), Err(InvalidPlugin::EndpointTooLong));
    }
}

//! The description that a plugin gives of itself.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::Reason;
use crate::config::{MAX_ENDPOINT, MAX_NAME_LEN, MAX_VERSION, MAX_VERSIONS};
use crate::escape;
use crate::octets::{PathKey, are_equal};
use crate::proto::pluginregistration::PluginInfo;

/// A plugin: the contents of its `GetInfo` reply, and its registration socket; or those of its
/// `Register` request to `kubelet.sock`, with its endpoint as its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// The type, which selects the handler: `CSIPlugin`, `DevicePlugin`, `DRAPlugin` or another.
    pub kind: String,
    /// The name: never empty and free of control characters, once a handler sees it.
    pub name: String,
    /// The path of the socket that serves the plugin's own services; often the registration socket.
    pub endpoint: Arc<Path>,
    /// The supported versions or services, as the type spells them, in the plugin's order.
    pub versions: Vec<String>,
    /// The path of the registration socket.
    pub socket: Arc<Path>,
}

impl Plugin {
    /// Returns the plugin that described itself as `info` on `socket`, if that is valid.
    pub fn from_info(info: PluginInfo, socket: Arc<Path>) -> Result<Self, Reason> {
        let plugin = Self::from_info_unchecked(info, socket);
        plugin.check_type()?;
        plugin.check_all_but_type()?;
        Ok(plugin)
    }

    /// Returns the plugin that described itself as `info` on `socket`, without checking it. An
    /// empty endpoint stands for `socket`. The manager checks the plugin after it has looked up the
    /// handler, in the same order as kubelet.
    pub(crate) fn from_info_unchecked(mut info: PluginInfo, socket: Arc<Path>) -> Self {
        let endpoint = if info.endpoint.is_empty() || *info.endpoint == *socket.as_os_str() {
            socket.clone()
        } else {
            PathBuf::from(info.endpoint).into()
        };
        // The list is kept for as long as the plugin exists, so spare capacity would be wasted.
        info.supported_versions.shrink_to_fit();
        Self {
            kind: info.r#type,
            name: info.name,
            endpoint,
            versions: info.supported_versions,
            socket,
        }
    }

    /// Checks the length of the type, before it is used to look up a handler.
    pub(crate) fn check_type(&self) -> Result<(), Reason> {
        if self.kind.len() > MAX_NAME_LEN {
            return Err(Reason::new("plugin type is too long"));
        }
        Ok(())
    }

    /// Checks everything but the type, by rules that hold for plugins of all types: the lengths of
    /// the texts and the number of versions, because these are kept, and the characters of the name
    /// and of the endpoint.
    pub(crate) fn check_all_but_type(&self) -> Result<(), Reason> {
        let (name, endpoint) = (&self.name, self.endpoint.as_os_str().as_bytes());
        let is_own_socket = Arc::ptr_eq(&self.endpoint, &self.socket);
        Err(Reason::new(if name.len() > MAX_NAME_LEN {
            "plugin name is too long"
        } else if endpoint.len() > MAX_ENDPOINT && !is_own_socket {
            "plugin endpoint is too long"
        } else if self.versions.len() > MAX_VERSIONS {
            return Err(Reason::new(format!(
                "plugin reports more than {MAX_VERSIONS} versions"
            )));
        } else if self.versions.iter().any(|it| it.len() > MAX_VERSION) {
            return Err(Reason::new(format!(
                "plugin version is longer than {MAX_VERSION} octets"
            )));
        } else if name.is_empty() {
            "plugin name is empty"
        } else if !escape::is_plain(name.as_bytes()) && name.contains(char::is_control) {
            "plugin name contains a control character"
        } else if endpoint.contains(&0) {
            "plugin endpoint contains a NUL character"
        } else {
            return Ok(());
        }))
    }

    /// Returns a plugin with only a type and a name, as a key to look up other plugins with.
    pub(crate) fn named(kind: &str, name: &str) -> Self {
        let info = PluginInfo {
            r#type: kind.into(),
            name: name.into(),
            ..PluginInfo::default()
        };
        Self::from_info_unchecked(info, Path::new("").into())
    }

    /// Returns the key by which plugins are compared: the name first, because names differ more
    /// often than types.
    pub(crate) fn key(&self) -> (&str, &str) {
        (&self.name, &self.kind)
    }

    /// Returns the registration socket as a key.
    pub(crate) fn socket_key(&self) -> PathKey {
        PathKey(self.socket.clone())
    }

    /// Returns whether both have the same endpoint, however it is spelled. The file system is not
    /// consulted, so a symbolic link and its target are different endpoints.
    pub(crate) fn has_endpoint_of(&self, other: &Self) -> bool {
        let [a, b] = [self, other].map(|it| it.endpoint.as_os_str());
        let is_abstract = |name: &OsStr| name.as_bytes().starts_with(b"@");
        a == b || !is_abstract(a) && !is_abstract(b) && normalized(a) == normalized(b)
    }

    /// Returns whether both have the same registration socket. The path of a socket is always
    /// spelled the same, so this compares octets; `Path` would compare component by component.
    pub(crate) fn has_socket_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
            || self.socket.as_os_str() == other.socket.as_os_str()
    }
}

/// Returns the components of a path without `.` and repeated slashes, and with `..` resolved if a
/// name or the root precedes it.
fn normalized(path: &OsStr) -> Vec<Component<'_>> {
    let mut components = Vec::new();
    for component in Path::new(path).components() {
        match (component, components.last()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                components.pop();
            }
            _ => components.push(component),
        }
    }
    components
}

/// The name and the type of a plugin as a key.
#[derive(Debug)]
pub(crate) struct NameKey(pub(crate) Arc<Plugin>);

impl Hash for NameKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.key().hash(hasher);
    }
}

impl PartialEq for NameKey {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        are_equal(a.name.as_bytes(), b.name.as_bytes())
            && are_equal(a.kind.as_bytes(), b.kind.as_bytes())
    }
}

impl Eq for NameKey {}

impl AsRef<Self> for Plugin {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Shows type and name, escaped: `CSIPlugin hostpath.csi.k8s.io`.
impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape::text(&self.kind).fmt(f)?;
        f.write_str(" ")?;
        escape::text(&self.name).fmt(f)
    }
}

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

    fn plugin(name: &str, endpoint: &str) -> Result<Plugin, Reason> {
        Plugin::from_info(info(name, endpoint), Path::new("/r/a-reg.sock").into())
    }

    #[test]
    fn an_endpoint_is_the_same_however_its_path_is_spelled() {
        let is_same = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|endpoint| plugin("a", endpoint).expect("it is valid"));
            a.has_endpoint_of(&b)
        };
        for other in ["/a/x", "//a/x", "/a/./x/", "/a/b/../x", "/../a/x"] {
            assert!(is_same("/a/x", other), "{other}");
        }
        for other in ["/a/y", "/x", "a/x", "/a/x/..", "@a/x"] {
            assert!(!is_same("/a/x", other), "{other}");
        }
        assert!(is_same("@a/../x", "@a/../x") && !is_same("@a/../x", "@x"));
        assert!(is_same("../x", ".././x") && !is_same("../x", "x"));
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
    fn an_invalid_description_is_refused() {
        assert_eq!(plugin("", ""), Err(Reason::new("plugin name is empty")));
        assert_eq!(
            plugin("a\nb", ""),
            Err(Reason::new("plugin name contains a control character"))
        );
        assert_eq!(
            plugin("a\u{9b}b", ""),
            Err(Reason::new("plugin name contains a control character"))
        );
        assert_eq!(
            plugin("a", "/p\0q"),
            Err(Reason::new("plugin endpoint contains a NUL character"))
        );
        let long = "x".repeat(MAX_NAME_LEN + 1);
        assert_eq!(
            plugin(&long, ""),
            Err(Reason::new("plugin name is too long"))
        );
        assert!(plugin(&long[1..], "").is_ok());
        let far = "/".repeat(MAX_ENDPOINT + 1);
        assert_eq!(
            plugin("a", &far),
            Err(Reason::new("plugin endpoint is too long"))
        );
    }

    #[test]
    fn a_plugin_with_too_many_or_too_long_versions_is_refused() {
        let with = |versions: Vec<String>| {
            let info = PluginInfo {
                supported_versions: versions,
                ..info("a", "")
            };
            Plugin::from_info(info, Path::new("/r/a-reg.sock").into()).map(|_| ())
        };
        let most = vec!["v".repeat(MAX_VERSION); MAX_VERSIONS];
        assert_eq!(with(most.clone()), Ok(()));
        let one_more = [most.clone(), vec!["v".into()]].concat();
        assert_eq!(
            with(one_more),
            Err(Reason::new("plugin reports more than 256 versions"))
        );
        let longer = vec!["v".repeat(MAX_VERSION + 1)];
        assert_eq!(
            with(longer),
            Err(Reason::new("plugin version is longer than 128 octets"))
        );
    }
}

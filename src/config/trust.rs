//! Trust: the users whose plugins are registered, and where plugins may have their endpoints.
//!
//! A plugin makes the daemon, which usually runs as root, connect to sockets of the plugin's choice
//! and pass on the plugin's name. A plugin or endpoint that is not trusted works as with kubelet
//! and is reported ([`TrustMode::Warn`]), or is refused ([`TrustMode::Strict`]).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::escape;

/// The users and the places that are trusted, besides root and the daemon's user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The treatment of what is not trusted.
    pub mode: TrustMode,
    /// The directories below which endpoints are expected, besides the plugins directories, the
    /// parent of each one named [`PLUGINS_DIR`](super::PLUGINS_DIR) (kubelet's root directory), and
    /// the targets of the path map.
    pub endpoint_dirs: Vec<PathBuf>,
    /// Whether endpoints may be abstract sockets.
    pub allows_abstract: bool,
    /// The users that may register plugins, under any name that is not pinned to another user.
    pub uids: Vec<u32>,
    /// The names that are pinned to users.
    pub names: Vec<PinnedName>,
    /// The user of the daemon itself; set by the daemon.
    pub own_uid: u32,
}

/// The treatment of plugins and endpoints that are not trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrustMode {
    /// They work as with kubelet, and are reported (kubelet: does not report them).
    #[default]
    Warn,
    /// They are refused.
    Strict,
}

/// Names of plugins that are reserved for one user, or for several users with an entry each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedName {
    /// The user.
    pub uid: u32,
    /// The plugin type.
    pub kind: String,
    /// The plugin name, or its beginning and `*`.
    pub pattern: String,
}

/// The reason why a plugin or its endpoint is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The process at the other end of the connection runs as this user.
    User(u32),
    /// The file of the socket belongs to this user.
    Owner(u32),
    /// The name is pinned to other users than this one.
    Pinned(u32),
    /// A plugin of another user has the name or the endpoint.
    Taken {
        /// What is taken: `name` or `endpoint`.
        what: &'static str,
        /// The other user.
        uid: u32,
        /// The registration socket of the other plugin.
        socket: Arc<Path>,
    },
    /// The registration socket or the endpoint is this file, which is outside of the trusted
    /// directories. Without `/proc`, the path is not known, and empty.
    Elsewhere(Arc<Path>),
    /// The endpoint is an abstract socket, which every user can create.
    Abstract,
    /// Other users can change a directory that the plugin depends on: the plugins directory, or
    /// that of `kubelet.sock`, the run directory or that of the state file. The text describes how.
    Directory(Arc<str>),
}

impl Trust {
    /// Returns whether plugins that are not trusted are refused.
    pub fn is_strict(&self) -> bool {
        matches!(self.mode, TrustMode::Strict)
    }

    /// Returns whether a user is always trusted: root, or the daemon's user.
    pub fn is_always_trusted(&self, uid: u32) -> bool {
        uid == ROOT || uid == self.own_uid
    }

    /// Checks the user of a process that listens on a plugin's socket, or the owner of its file.
    pub fn check_user(&self, uid: u32) -> Result<(), Distrust> {
        let mut pinned = self.names.iter();
        if self.is_always_trusted(uid) || self.uids.contains(&uid) || pinned.any(|it| it.uid == uid)
        {
            return Ok(());
        }
        Err(Distrust::User(uid))
    }

    /// Checks the user of a process that registers a plugin of this type and name.
    pub fn check_name(&self, uid: u32, kind: &str, name: &str) -> Result<(), Distrust> {
        let mut pinned = self.names.iter().filter(|it| it.matches(kind, name));
        let is_pinned = pinned.clone().next().is_some();
        if self.is_always_trusted(uid) || pinned.any(|it| it.uid == uid) {
            return Ok(());
        }
        match is_pinned {
            true => Err(Distrust::Pinned(uid)),
            false if self.uids.contains(&uid) => Ok(()),
            false => Err(Distrust::User(uid)),
        }
    }
}

impl PinnedName {
    fn matches(&self, kind: &str, name: &str) -> bool {
        let is_named = match self.pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == self.pattern,
        };
        kind == self.kind && is_named
    }
}

/// Shows what is wrong and, if an option allows it, that option.
impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(
                f,
                "its process runs as user {uid}; allowed by --allow-uid {uid}"
            ),
            Self::Owner(uid) => write!(
                f,
                "one of its sockets belongs to user {uid}; allowed by --allow-uid {uid}"
            ),
            Self::Pinned(uid) => write!(
                f,
                "its process runs as user {uid}, and its name is reserved for other users; allowed \
                 by --allow-name {uid}=TYPE/NAME"
            ),
            Self::Taken { what, uid, socket } => write!(
                f,
                "user {uid} has a plugin with the same {what}; allowed once that plugin is \
                 deregistered socket={}",
                escape::path(socket)
            ),
            Self::Elsewhere(file) if file.as_os_str().is_empty() => f.write_str(
                "the directory of its socket is unknown without /proc; allowed once /proc is \
                 mounted",
            ),
            Self::Elsewhere(file) => {
                let dir = file.parent().unwrap_or(file);
                let (file, dir) = (escape::path(file), escape::path(dir));
                write!(
                    f,
                    "its socket {file} is in none of the trusted directories; allowed by \
                     --endpoint-dir {dir}"
                )
            }
            Self::Abstract => {
                f.write_str("its endpoint is an abstract socket; allowed by --endpoint-dir @")
            }
            Self::Directory(problem) => {
                write!(f, "other users can change its directory: {problem}")
            }
        }
    }
}

/// The user ID of root.
const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn trust() -> Trust {
        let pinned = |uid, pattern: &str| PinnedName {
            uid,
            kind: "CSIPlugin".to_owned(),
            pattern: pattern.to_owned(),
        };
        Trust {
            uids: vec![10, 11],
            names: vec![pinned(11, "disk.example"), pinned(12, "nfs.*")],
            own_uid: 5,
            ..Trust::default()
        }
    }

    #[test]
    fn only_listed_users_root_and_the_daemons_own_may_register() {
        let check = |uid, name| trust().check_name(uid, "CSIPlugin", name);
        for uid in [0, 5, 10, 11] {
            assert_eq!(check(uid, "other"), Ok(()), "{uid}");
        }
        assert_eq!(check(12, "other"), Err(Distrust::User(12)));
        assert_eq!(check(13, "other"), Err(Distrust::User(13)));
    }

    #[test]
    fn a_pinned_name_is_for_its_users_root_and_the_daemons_own() {
        let check = |uid, name| trust().check_name(uid, "CSIPlugin", name);
        for uid in [0, 5, 11] {
            assert_eq!(check(uid, "disk.example"), Ok(()), "{uid}");
        }
        for uid in [10, 12, 13] {
            assert_eq!(check(uid, "disk.example"), Err(Distrust::Pinned(uid)));
        }
        assert_eq!(check(12, "nfs.example"), Ok(()));
        assert_eq!(check(10, "nfs.example"), Err(Distrust::Pinned(10)));
        assert_eq!(check(10, "nfs"), Ok(()), "it is another name");
        assert_eq!(trust().check_name(10, "DRAPlugin", "nfs.example"), Ok(()));
    }

    #[test]
    fn a_user_with_a_pinned_name_may_serve_an_endpoint() {
        for uid in [0, 5, 10, 11, 12] {
            assert_eq!(trust().check_user(uid), Ok(()), "{uid}");
        }
        assert_eq!(trust().check_user(13), Err(Distrust::User(13)));
    }

    #[test]
    fn a_problem_is_shown_with_the_option_that_allows_it() {
        let file = |path: &str| Arc::from(Path::new(path));
        for (distrust, option) in [
            (Distrust::User(7), "--allow-uid 7"),
            (Distrust::Owner(7), "--allow-uid 7"),
            (Distrust::Pinned(7), "--allow-name 7=TYPE/NAME"),
            (
                Distrust::Elsewhere(file("/run/docker.sock")),
                "--endpoint-dir /run",
            ),
            (Distrust::Abstract, "--endpoint-dir @"),
        ] {
            let shown = distrust.to_string();
            assert!(
                shown.ends_with(&format!("; allowed by {option}")),
                "{shown}"
            );
        }
        let unknown = Distrust::Elsewhere(file("")).to_string();
        assert!(unknown.ends_with("; allowed once /proc is mounted"));
        let taken = Distrust::Taken {
            what: "name",
            uid: 7,
            socket: file("/r/a\n.sock"),
        };
        let shown = taken.to_string();
        assert!(shown.ends_with("socket=/r/a\\n.sock"), "{shown}");
    }
}

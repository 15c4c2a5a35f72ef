//! The configuration of `plugind`, and its timeouts, limits and default paths.
//!
//! Does no input or output. The timeouts and limits are documented with their reasons, unless these
//! are obvious, and with kubelet's value if kubelet has a different one: `protocol` has those of
//! gRPC and HTTP/2, some of which apply to clients of the API, too, and `limits` all others.

mod limits;
mod path_map;
mod protocol;
mod trust;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use limits::*;
pub use path_map::PathMap;
#[cfg_attr(not(plugind_internals), doc(hidden))]
pub use protocol::*;
pub use trust::{Distrust, PinnedName, Trust, TrustMode};

use crate::escape;
use crate::time;

/// The configuration of a plugin manager, except for its handlers. Later versions may add fields,
/// so set those that differ from the default, and end with `..Config::default()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The directories that are watched for plugin sockets.
    pub plugins_dirs: Vec<PathBuf>,
    /// The directory in which device plugins register by calling `kubelet.sock`; `None`: they
    /// cannot. Ignored in a dry run. The sockets in the directory are removed at the start.
    pub device_plugins_dir: Option<PathBuf>,
    /// The file that stores the registered plugins across restarts; `None`: they are not stored.
    /// Ignored in a dry run.
    pub state_file: Option<PathBuf>,
    /// The directory of the lock files that keep two plugin managers from using one directory, of
    /// the links by name and of the default API socket. `None`: no lock files but the one of the
    /// links, and the default directory of the process's user (`/run/plugind` for root) for the
    /// links and the socket. `plugind run` never leaves it at `None`, except for a dry run.
    pub run_dir: Option<PathBuf>,
    /// Whether links to the endpoints of registered plugins, `by-name/TYPE/NAME.sock`, are kept in
    /// the run directory. Ignored in a dry run, or if another plugin manager keeps them there.
    pub links_by_name: bool,
    /// The directory of the Container Device Interface (CDI) files, in which container runtimes
    /// read what the devices of device plugins consist of; `None`: no files. Ignored in a dry run.
    pub cdi_dir: Option<PathBuf>,
    /// The socket of the API.
    pub api_socket: ApiSocket,
    /// The ID of the group that owns the API socket; `None`: the group of the process.
    pub socket_group: Option<u32>,
    /// The ID of the group whose members may be granted devices, besides root and the daemon's
    /// user; `None`: no other user.
    pub allocate_group: Option<u32>,
    /// The treatment of the plugins that are found.
    pub mode: Mode,
    /// The treatment of a registered plugin that is down.
    pub on_down: OnDown,
    /// The mapping of endpoint paths that plugins report from their own mount namespaces.
    pub path_map: PathMap,
    /// The users and the directories that are trusted.
    pub trust: Trust,
    /// The maximum memory for the data of all plugins together, in octets, in addition to what the
    /// plugin manager itself needs; at least 1 MiB is sensible. What would exceed this limit and is
    /// not small is refused: a call to a plugin fails, so that the plugin may not be registered, or
    /// a list of devices is rejected. No registered plugin is deregistered because of this limit.
    pub memory_budget: usize,
}

/// The socket of the API, through which other processes see what the plugin manager knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ApiSocket {
    /// The API is off.
    #[default]
    None,
    /// `plugind.sock` in the run directory. If it cannot be created, a warning is logged, or the
    /// start fails if [`Config::socket_group`] is set. Off in a dry run, which may run beside
    /// another plugin manager.
    Default,
    /// The socket at this path. If it cannot be created, the start fails.
    At(PathBuf),
}

/// The configuration of the handlers that come with this crate
/// ([`handlers`](crate::daemon::handlers)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerConfig {
    /// The plugin types that are accepted.
    pub types: Vec<String>,
    /// The treatment of plugins of other types.
    pub unknown_types: UnknownTypes,
    /// The programs that do the work for plugins of a type.
    pub exec: Vec<Exec>,
    /// The period at which a registered CSI driver is asked again for the node's information, by
    /// the name of the driver; `*` is for all drivers that are not named (kubelet:
    /// `nodeAllocatableUpdatePeriodSeconds` of a `CSIDriver`).
    pub csi_node_info: Vec<(String, Duration)>,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `2026-01-31T12:00:00.250Z INFO  message`
    Text,
    /// An object with `time`, `level`, `target` and `message`, and the fields of an event.
    Json,
    /// `<6>message`: the journal adds the time itself, and takes the priority from the prefix.
    Journald,
}

/// The configuration of the daemon: a plugin manager with the handlers that come with this crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonConfig {
    /// The file that the configuration was read from, if there is one.
    pub file: Option<PathBuf>,
    /// The configuration of the plugin manager.
    pub manager: Config,
    /// The configuration of the handlers.
    pub handlers: HandlerConfig,
    /// Whether the daemon, once started, gives up the permissions that it does not need, unless it
    /// runs programs.
    pub sandbox: bool,
    /// The format of the log; `None`: the one that fits standard error.
    pub log_format: Option<LogFormat>,
}

/// The treatment of the plugins that are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The plugins are registered.
    #[default]
    Register,
    /// Dry run: GetInfo is called, the reply is validated and the outcome is logged. Plugins are
    /// never notified or registered: for a directory that another plugin manager uses.
    Observe,
}

/// The treatment of plugins of a type that is not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownTypes {
    /// The plugins are refused and notified of that (kubelet: the same).
    #[default]
    Reject,
    /// The plugins are registered.
    Accept,
    /// The plugins are ignored without a notification.
    Ignore,
}

/// A program that does the work for plugins of a type, instead of a built-in handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// The plugin type.
    pub kind: String,
    /// The absolute path of the program.
    pub program: PathBuf,
}

/// The treatment of a registered plugin that has stopped answering although its socket exists
/// (kubelet: does not notice).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDown {
    /// The plugin stays registered and is shown as down. A device plugin that registered by calling
    /// `kubelet.sock` is deregistered after 5 minutes, or at once if another plugin of its name is
    /// up.
    #[default]
    Keep,
    /// The plugin is deregistered after it has been down for this time, or at once if it registered
    /// by calling `kubelet.sock` and another plugin of its name is up.
    Deregister(Duration),
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Register => "watching",
            Self::Observe => "dry run: watching",
        })
    }
}

/// Shows the value of the option `--on-down`: `keep`, `deregister=30s`.
impl fmt::Display for OnDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Deregister(grace) if grace.subsec_millis() == 0 => {
                write!(f, "deregister={}s", grace.as_secs())
            }
            Self::Deregister(grace) => write!(f, "deregister={}ms", time::millis(*grace)),
        }
    }
}

/// Shows the value of the option `--unknown-types`.
impl fmt::Display for UnknownTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reject => "reject",
            Self::Accept => "accept",
            Self::Ignore => "ignore",
        })
    }
}

/// Shows the most important options in force:
/// `types=CSIPlugin unknown-types=reject on-down=keep memory-budget=16Mi`. The plugins directories
/// and the programs are not among them.
impl fmt::Display for DaemonConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.handlers.types.join(",");
        let (types, unknown) = (escape::text(&types), self.handlers.unknown_types);
        let on_down = self.manager.on_down;
        write!(f, "types={types} unknown-types={unknown} on-down={on_down}")?;
        let budget = self.manager.memory_budget;
        match budget % MEBIBYTE {
            0 => write!(f, " memory-budget={}Mi", budget / MEBIBYTE)?,
            _ => write!(f, " memory-budget={budget}")?,
        }
        if self.manager.trust.is_strict() {
            f.write_str(" trust=strict")?;
        }
        let socket = match &self.manager.api_socket {
            ApiSocket::At(path) => Some(path),
            ApiSocket::None | ApiSocket::Default => None,
        };
        for (key, path) in [
            ("config", self.file.as_ref()),
            (
                "device-plugins-dir",
                self.manager.device_plugins_dir.as_ref(),
            ),
            ("state-file", self.manager.state_file.as_ref()),
            ("run-dir", self.manager.run_dir.as_ref()),
            ("cdi-dir", self.manager.cdi_dir.as_ref()),
            ("socket", socket),
        ] {
            if let Some(path) = path {
                write!(f, " {key}={}", escape::path(path))?;
            }
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            plugins_dirs: vec![PathBuf::from(DEFAULT_PLUGINS_DIR)],
            device_plugins_dir: None,
            state_file: None,
            run_dir: None,
            links_by_name: false,
            cdi_dir: None,
            api_socket: ApiSocket::default(),
            socket_group: None,
            allocate_group: None,
            mode: Mode::default(),
            on_down: OnDown::default(),
            path_map: PathMap::default(),
            trust: Trust::default(),
            memory_budget: MEMORY_BUDGET,
        }
    }
}

impl Default for HandlerConfig {
    fn default() -> Self {
        Self {
            types: DEFAULT_TYPES.map(str::to_owned).to_vec(),
            unknown_types: UnknownTypes::default(),
            exec: Vec::new(),
            csi_node_info: Vec::new(),
        }
    }
}

/// A mebibyte (octets), the unit `Mi` of a size.
const MEBIBYTE: usize = 1 << 20;

/// The configuration file that is read if it exists and no other one is named.
pub const DEFAULT_CONFIG_FILE: &str = "/etc/plugind/plugind.conf";

/// The default directory of registration sockets: [`PLUGINS_DIR`] in kubelet's default root
/// directory.
pub const DEFAULT_PLUGINS_DIR: &str = "/var/lib/kubelet/plugins_registry";

/// The directory of registration sockets, in kubelet's root directory.
pub const PLUGINS_DIR: &str = "plugins_registry";

/// The default root directory of kubelet.
pub const DEFAULT_ROOT_DIR: &str = "/var/lib/kubelet";

/// The directory in which device plugins register, in kubelet's root directory.
pub const DEVICE_PLUGINS_DIR: &str = "device-plugins";

/// The plugin types that are accepted unless the user names others (kubelet: exactly these three).
pub const DEFAULT_TYPES: [&str; 3] = ["CSIPlugin", "DevicePlugin", "DRAPlugin"];

#[cfg(test)]
#[allow(clippy::assertions_on_constants)] // The test is about constants.
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[test]
    fn limits_that_depend_on_others_fit_them() {
        assert_eq!(MAX_STATE_FILE, 4 * KIB * MAX_SOCKETS);
        assert_eq!(MAX_REPLY, 256 * MAX_DEVICES);
        assert_eq!(MAX_DECODED_HEADERS, 4 * MAX_HEADER_LIST);
        assert!(MAX_SMALL_MESSAGE >= 4 * MAX_ENDPOINT);
        assert!(LOG_BUFFER_OF_PEERS < LOG_BUFFER);
        assert!(KEPT_EVENTS_OF_ONE.octets < KEPT_EVENTS.octets);
    }

    #[test]
    fn clients_of_the_api_have_room() {
        assert!(API_HEAD / API_FIELDS >= 64, "a field and its value");
        let record = MAX_UNSENT_OCTETS / 30;
        assert!((256..1024).contains(&record), "about thirty records");
        assert!(
            API_TURN >= 2 * MAX_UNSENT_OCTETS,
            "one client leaves the others some"
        );
    }

    #[test]
    fn the_share_of_the_log_has_room_for_a_hundred_plugins() {
        let (all, one) = (LOG_SHARE_OF_PEERS, LOG_SHARE_OF_PLUGIN);
        assert!(all.burst >= 100 * 512, "a line is shorter");
        let in_two_seconds = |share: LogShare| share.burst + 2 * share.rate;
        let most = in_two_seconds(all) + in_two_seconds(LOG_SHARE_OF_DAEMON);
        assert!(most < 2 * 64 * 1024);
        assert!(all.burst > one.burst && all.rate > one.rate);
        assert!(one.burst >= 100 * 128 && one.rate >= 2 * 128, "its lines");
    }

    #[test]
    fn choices_are_shown_as_the_values_of_their_options() {
        let after = OnDown::Deregister(Duration::from_secs(30));
        assert_eq!(after.to_string(), "deregister=30s");
        let mut config = DaemonConfig::default();
        assert!(config.to_string().ends_with(" memory-budget=16Mi"));
        config.manager.memory_budget += 1;
        assert!(config.to_string().ends_with(" memory-budget=16777217"));
        let after = OnDown::Deregister(Duration::from_millis(1500));
        assert_eq!(after.to_string(), "deregister=1500ms");
        assert_eq!(OnDown::Keep.to_string(), "keep");
        assert_eq!(UnknownTypes::Ignore.to_string(), "ignore");
        assert_eq!(Mode::Observe.to_string(), "dry run: watching");
    }
}

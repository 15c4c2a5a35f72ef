//! Every timeout, limit and path of `plugind`, each with its reason.
//!
//! Pure: constants, and what a user may choose. Where kubelet has the same thing under another value, the doc line says
//! so. A section per layer, from the outermost to the innermost.

use std::path::PathBuf;
use std::time::Duration;

/// What a user may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The directories that are watched for plugin sockets.
    pub plugins_dirs: Vec<PathBuf>,
    /// The plugin types that are accepted.
    pub types: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            plugins_dirs: vec![PathBuf::from(DEFAULT_PLUGINS_DIR)],
            types: DEFAULT_TYPES.map(str::to_owned).to_vec(),
        }
    }
}

// --- The manager -------------------------------------------------------------------------------------------------

/// Where plugins put their registration sockets unless told otherwise (kubelet: `<root-dir>/plugins_registry`).
pub const DEFAULT_PLUGINS_DIR: &str = "/var/lib/kubelet/plugins_registry";

/// The plugin types that are accepted unless the user names others (kubelet: exactly these three).
pub const DEFAULT_TYPES: [&str; 3] = ["CSIPlugin", "DevicePlugin", "DRAPlugin"];

/// How long connecting to a registration socket may take (kubelet: `dialTimeoutDuration`, 10 s).
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long `GetInfo` may take once connected (kubelet: 1 s).
pub const GET_INFO_TIMEOUT: Duration = Duration::from_secs(1);

/// How long `NotifyRegistrationStatus` may take (kubelet: `notifyTimeoutDuration`, 5 s).
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

// --- The watch -----------------------------------------------------------------------------------

/// How long a directory that cannot be watched or read is left alone (kubelet gives up on it; its
/// tick is 1 s).
pub const WATCH_RETRY: Duration = Duration::from_secs(1);

/// How many levels of sub directories are watched (kubelet: no limit). Plugins use one.
pub const MAX_TREE_DEPTH: usize = 16;

/// How many plugin sockets are kept in mind (kubelet: no limit). A node has tens; whoever may write
/// to the directory can make more.
pub const MAX_SOCKETS: usize = 16_384;

/// How many directories are watched, a watch each (kubelet: no limit). The kernel's own limit per
/// user is often 8,192.
pub const MAX_DIRECTORIES: usize = 4_096;

/// How many names of one directory are looked at, so that a scan stays a matter of milliseconds
/// (kubelet: no limit).
pub const MAX_NAMES: usize = 65_536;

// --- gRPC and HTTP/2 ---------------------------------------------------------------------------------------------

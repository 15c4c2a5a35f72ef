//! Every timeout, limit and path of `plugind`, each with its reason.
//!
//! Pure: constants, and what a user may choose. Where kubelet has the same thing under another value, the doc line says
//! so. A section per layer, from the outermost to the innermost.

use std::time::Duration;

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

// --- gRPC and HTTP/2 ---------------------------------------------------------------------------------------------

//! Facts about processes, which the daemon reads when a response needs them.

use std::time::Duration;

use serde::Serialize;

/// The resources that the daemon uses, and the time of its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The processor time used, in user and in kernel mode.
    pub cpu: Duration,
    /// The number of open file descriptors.
    pub open_fds: u64,
    /// The maximum number of open file descriptors.
    pub max_fds: u64,
    /// The resident memory in bytes.
    pub resident: u64,
    /// The virtual memory in bytes.
    pub virtual_size: u64,
    /// The wall-clock time of the start, since the Unix epoch.
    pub start: Duration,
}

/// Facts about the process of a plugin, besides its process ID and user ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerFacts {
    /// The command name, which the process chooses itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The path of the control group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Whether the process is in a PID namespace other than the daemon's, as in a container.
    pub other_pid_namespace: bool,
}

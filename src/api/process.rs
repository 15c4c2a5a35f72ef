//! Facts about processes, which the daemon reads when they are asked for.

use std::time::Duration;

use serde::Serialize;

/// The resources that the process uses, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The processor time that it has used, in user and in kernel mode.
    pub cpu: Duration,
    /// The number of its open file descriptors.
    pub open_fds: u64,
    /// The maximum number of file descriptors that it may open.
    pub max_fds: u64,
    /// Its resident memory in bytes.
    pub resident: u64,
    /// Its virtual memory in bytes.
    pub virtual_size: u64,
    /// The time of its start, since the beginning of 1970 in UTC.
    pub start: Duration,
}

/// What is known of the process of a plugin beside its ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerFacts {
    /// Its command name, which it chooses itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The path of its control group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Whether it is in another PID namespace than the daemon, as in a container.
    pub other_pid_namespace: bool,
}

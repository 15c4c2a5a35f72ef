//! The resources of the process, which the daemon reads when they are asked for.

use std::time::Duration;

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

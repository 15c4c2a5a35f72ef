//! The events of the plugin, as text for the user.

use std::fmt;
use std::time::Duration;

use super::devices::NAMES;
use crate::escape;
use crate::grpc::CallError;

/// An event of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// GetInfo was called.
    GetInfo,
    /// GetInfo was called, and fails.
    GetInfoFailed {
        /// The number of failures, this one included.
        times: u32,
        /// The number of failures in total.
        of: u32,
    },
    /// NotifyRegistrationStatus was called.
    Notified {
        /// Success, or the error with which the plugin was refused.
        result: Result<(), String>,
        /// Whether the plugin replies with an error.
        rejects: bool,
    },
    /// Another method was called.
    Called(&'static str),
    /// The caller has ended a call before it was answered.
    CallCancelled(&'static str),
    /// A caller has started to watch the devices.
    StreamOpened,
    /// A caller has stopped watching the devices.
    StreamClosed,
    /// The second device has become healthy or unhealthy.
    HealthChanged {
        /// Whether the device is healthy now.
        is_healthy: bool,
    },
    /// A device was to break, but the plugin has none.
    NoDevices,
    /// kubelet has registered the plugin, which has called it.
    Registered,
    /// kubelet has refused to register the plugin, or has not replied.
    NotRegistered {
        /// The reason.
        error: CallError,
        /// The time until the plugin tries again.
        pause: Duration,
    },
    /// The plugin cannot connect to `kubelet.sock`.
    NotConnected {
        /// The reason.
        why: String,
        /// The time until the plugin tries again.
        pause: Duration,
    },
    /// `kubelet.sock` does not exist: the plugin waits for it.
    KubeletMissing,
    /// `kubelet.sock` was created: the plugin registers itself.
    KubeletCreated {
        /// Whether the plugin was registered before.
        again: bool,
    },
    /// The plugin's own socket was removed: the plugin listens again.
    SocketLost,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GetInfo => f.write_str("received GetInfo"),
            Self::GetInfoFailed { times, of } => {
                write!(f, "received GetInfo: returning error {times} of {of}")
            }
            Self::Notified { result, rejects } => {
                match result {
                    Ok(()) => f.write_str("received NotifyRegistrationStatus: registered")?,
                    Err(why) => write!(
                        f,
                        "received NotifyRegistrationStatus: not registered: {}",
                        escape::text(why)
                    )?,
                }
                f.write_str(if *rejects { "; returning an error" } else { "" })
            }
            Self::Called(method) => write!(f, "received {}", short(method)),
            Self::CallCancelled(method) => {
                write!(f, "call cancelled by its caller: {}", short(method))
            }
            Self::StreamOpened => f.write_str("device stream opened"),
            Self::StreamClosed => f.write_str("device stream closed"),
            Self::HealthChanged { is_healthy } => {
                let how = if *is_healthy { "healthy" } else { "unhealthy" };
                write!(f, "{} is now {how}", NAMES[1])
            }
            Self::NoDevices => f.write_str("ignored SIGUSR1: plugins of this type have no devices"),
            Self::Registered => f.write_str("registered"),
            Self::NotRegistered { error, pause } => {
                write!(f, "not registered: {error}; retrying in {pause:?}")
            }
            Self::NotConnected { why, pause } => {
                write!(
                    f,
                    "cannot connect to kubelet.sock: {why}; retrying in {pause:?}"
                )
            }
            Self::KubeletMissing => f.write_str("kubelet.sock does not exist, waiting for it"),
            Self::KubeletCreated { again } => {
                let again = if *again { " again" } else { "" };
                write!(f, "kubelet.sock was created, registering{again}")
            }
            Self::SocketLost => f.write_str("its socket was removed, listening again"),
        }
    }
}

/// Returns the path of a method without the leading slash.
fn short(method: &str) -> &str {
    method.strip_prefix('/').unwrap_or(method)
}

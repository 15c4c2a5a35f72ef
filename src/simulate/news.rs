//! The events of the plugin, as text for the user.
//!
//! Pure.

use std::fmt;

use super::devices::NAMES;
use crate::escape;

/// An event of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// GetInfo was called.
    Asked,
    /// GetInfo was called, and fails.
    FailedToSay {
        /// The number of failures, this one included.
        times: u32,
        /// The number of failures in total.
        of: u32,
    },
    /// NotifyRegistrationStatus was called.
    Told {
        /// Success, or the error with which the plugin was refused.
        result: Result<(), String>,
        /// Whether the plugin replies with an error.
        rejects: bool,
    },
    /// Another method was called.
    Called(&'static str),
    /// The caller has ended a call before it was answered.
    GaveUp(&'static str),
    /// A caller has started to watch the devices.
    Watched,
    /// A caller has stopped watching the devices.
    Unwatched,
    /// The second device has become healthy or unhealthy.
    Changed {
        /// Whether the device is healthy now.
        is_healthy: bool,
    },
    /// A device was to break, but the plugin has none.
    NoDevices,
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("asked who it is"),
            Self::FailedToSay { times, of } => {
                write!(f, "asked who it is: fails to say it, {times} of {of} times")
            }
            Self::Told { result, rejects } => {
                match result {
                    Ok(()) => f.write_str("told that it is registered")?,
                    Err(why) => write!(f, "told that it is refused: {}", escape::text(why))?,
                }
                f.write_str(if *rejects {
                    "; answers with an error"
                } else {
                    ""
                })
            }
            Self::Called(method) => write!(f, "called: {}", short(method)),
            Self::GaveUp(method) => write!(f, "nobody waits any more: {}", short(method)),
            Self::Watched => f.write_str("its devices are listened to"),
            Self::Unwatched => f.write_str("its devices are not listened to any more"),
            Self::Changed { is_healthy } => {
                let how = if *is_healthy { "healthy" } else { "unhealthy" };
                write!(f, "{} is {how} now", NAMES[1])
            }
            Self::NoDevices => f.write_str("it has no devices that could break"),
        }
    }
}

/// Returns the path of a method without the leading slash.
fn short(method: &str) -> &str {
    method.strip_prefix('/').unwrap_or(method)
}

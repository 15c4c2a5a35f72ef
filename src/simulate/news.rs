//! What happens to the plugin, in words for whoever tries a node with it.
//!
//! Pure.

use std::fmt;

use super::devices::NAMES;
use crate::escape;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It was asked who it is.
    Asked,
    /// It was asked who it is, and fails to say it.
    FailedToSay {
        /// How often it did, this time included.
        times: u32,
        /// How often it will in all.
        of: u32,
    },
    /// It was told how its registration ended: well, or why not.
    Told {
        /// That it is registered, or why it was refused.
        result: Result<(), String>,
        /// Whether it answers that with an error.
        rejects: bool,
    },
    /// Another method was called.
    Called(&'static str),
    /// A call was not answered in time.
    GaveUp(&'static str),
    /// Somebody listens to how its devices are.
    Watched,
    /// Somebody does not listen any more.
    Unwatched,
    /// Its second device has become healthy or unhealthy.
    Changed {
        /// Whether it is healthy now.
        is_healthy: bool,
    },
    /// It was to break a device, and is a plugin without any.
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

/// A method's path without the slash in front.
fn short(method: &str) -> &str {
    method.strip_prefix('/').unwrap_or(method)
}

//! The limit on open descriptors (`RLIMIT_NOFILE`).
//!
//! Many systems start a daemon with a limit of 1,024, and allow several hundred times as many on
//! request. Programs that the daemon starts get the old limit back: those that use select(2) fail
//! with descriptors above 1,023.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// The soft and the hard limit before the soft limit was raised.
static BEFORE: OnceLock<(rlim_t, rlim_t)> = OnceLock::new();

/// Raises the soft limit of this process to the hard limit. Returns the limit in force.
pub(crate) fn raise_limit() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return USUAL_LIMIT;
    };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => {
            BEFORE.get_or_init(|| (soft, hard));
            hard
        }
        Err(errno) => {
            log::debug!(
                "cannot raise the limit on open files: {} soft={soft} hard={hard}",
                errno.desc()
            );
            soft
        }
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Returns the soft and the hard limit for programs, or `None` if they keep the limits of this
/// process.
pub(crate) fn limit_of_programs() -> Option<(rlim_t, rlim_t)> {
    BEFORE.get().copied()
}

/// The limit on most systems, assumed if the limit of this process cannot be read.
const USUAL_LIMIT: usize = 1024;

//! How many descriptors this process may have.
//!
//! Many systems start a daemon with 1,024, and allow it several hundred times as many if it asks.
//! Programs that it starts get the old limit back: those that use select(2) fail with descriptors
//! above 1,023.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// The soft and the hard limit before the soft one was raised.
static BEFORE: OnceLock<(rlim_t, rlim_t)> = OnceLock::new();

/// Raises the soft limit to the hard one, for this process. Returns the limit in force.
pub(super) fn raise_limit() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return USUAL_LIMIT;
    };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => {
            BEFORE.get_or_init(|| (soft, hard));
            hard
        }
        Err(errno) => {
            log::debug!("the limit of descriptors stays at {soft}: {errno}");
            soft
        }
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Returns the soft and the hard limit that programs get, if it is not this process's.
pub(super) fn limit_of_programs() -> Option<(rlim_t, rlim_t)> {
    BEFORE.get().copied()
}

/// The limit on most systems, where it cannot be asked for.
const USUAL_LIMIT: usize = 1024;

//! Numbers by which the service manager addresses this process.

use std::env;
use std::process;

/// Returns the number that a variable of the environment holds.
#[inline(never)]
pub(crate) fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

/// Returns the id of this process, as such a variable would hold it.
pub(crate) fn own_id() -> u64 {
    process::id().into()
}

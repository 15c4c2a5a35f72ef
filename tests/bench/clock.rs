//! The clock that all processes of the benchmark share: CLOCK_MONOTONIC.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the time since a moment that is the same for all processes.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.expect("Linux has this clock").into()
}

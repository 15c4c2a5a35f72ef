//! The clock that all processes of the benchmark share: CLOCK_MONOTONIC.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment, the same one in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
        Self(now.into())
    }

    /// How long after another one; nothing if it was before.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

//! The clock that all processes of the benchmark share: CLOCK_MONOTONIC.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point in time, comparable between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
        Self(now.into())
    }

    /// Returns the time since an earlier moment, or zero if that moment is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

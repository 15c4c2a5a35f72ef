//! The monotonic clock, read here and nowhere else.

use std::time::{Duration, Instant};

use crate::time::Time;

/// A clock that starts at zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub(super) fn now(self) -> Time {
        Time::after_origin(self.origin.elapsed())
    }

    /// How long it is until `at`: nothing if that is over.
    pub(super) fn until(self, at: Time) -> Duration {
        at.saturating_since(self.now())
    }
}

//! The monotonic clock, from which all times of the core are taken.
//!
//! `Instant` reads CLOCK_MONOTONIC, which epoll uses, too. This clock does not jump when the time
//! of day is set, and stops while the machine is suspended: a plugin that had two seconds left to
//! answer has two seconds left after that. With CLOCK_BOOTTIME every deadline would have passed at
//! resume, before any plugin could run: all operations would fail, and plugins that are down would
//! be deregistered too early.

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

    /// Moves the clock forward.
    #[cfg(test)]
    pub(super) fn advance(&mut self, time: Duration) {
        self.origin -= time;
    }

    /// Returns the time that is left until `at`, or zero if `at` has passed.
    pub(super) fn time_until(self, at: Time) -> Duration {
        at.saturating_since(self.now())
    }
}

//! The monotonic clock, read here and nowhere else.
//!
//! `Instant` is CLOCK_MONOTONIC, by which epoll waits, too. It does not jump when the time of day
//! is set, and it stands still while the machine is suspended: a plugin that had two seconds left
//! to answer has two seconds left after that. By CLOCK_BOOTTIME every deadline would have passed on
//! waking up, before any plugin could run: all operations would fail, and plugins that are down
//! would be deregistered without the time that they were to have.

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

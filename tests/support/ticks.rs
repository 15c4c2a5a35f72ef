//! A clock for tests that act or look again and again.

use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Returns a clock that ticks at this interval.
pub(crate) fn ticks(interval: Duration) -> TimerFd {
    let clock = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC).unwrap();
    let every = Expiration::Interval(TimeSpec::from_duration(interval));
    clock.set(every, TimerSetTimeFlags::empty()).unwrap();
    clock
}

//! An honest plugin that registers again and again.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::support::plugin::Plugin;

/// The durations of registrations: from before the socket is bound until the plugin is notified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) p99: Duration,
}

impl Times {
    /// Has a plugin register `rounds` times in `dir`, under a new name each time.
    pub(crate) fn measure(dir: &Path, name: &str, rounds: usize) -> Self {
        let clock = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC).unwrap();
        let every = Expiration::Interval(TimeSpec::from_duration(INTERVAL));
        clock.set(every, TimerSetTimeFlags::empty()).unwrap();
        let mut times = Vec::new();
        for n in 0..rounds {
            clock.wait().unwrap();
            times.push(register(dir, &format!("{name}-{n}")));
        }
        times.sort_unstable();
        let p99 = times[(rounds * 99).div_ceil(100) - 1];
        Self { p99 }
    }
}

/// Registers a plugin and stops it. Returns how long it took until the plugin was notified.
pub(crate) fn register(dir: &Path, name: &str) -> Duration {
    let socket = dir.join(format!("{name}.sock"));
    let start = Instant::now();
    let plugin = Plugin::serve(&socket, name);
    let notified = plugin.until_notified();
    let time = start.elapsed();
    assert!(notified.plugin_registered, "{notified:?}");
    plugin.stop();
    time
}

/// The time from one registration to the next: each logs three lines, which should not fill the
/// log.
const INTERVAL: Duration = Duration::from_millis(20);

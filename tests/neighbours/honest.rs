//! An honest plugin that registers time after time.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::plugin::Plugin;

/// How long registrations took: from before the socket is bound until the plugin is told.
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

/// Registers a plugin, stops it, and returns how long it took until it was told.
pub(crate) fn register(dir: &Path, name: &str) -> Duration {
    let socket = dir.join(format!("{name}.sock"));
    let start = Instant::now();
    let plugin = Plugin::serve(&socket, name);
    let told = plugin.until_told();
    let time = start.elapsed();
    assert!(told.plugin_registered, "{told:?}");
    plugin.stop();
    time
}

/// From one registration to the next: three lines of the log each, which are not to fill it.
const INTERVAL: Duration = Duration::from_millis(20);

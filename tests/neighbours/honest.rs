//! An honest plugin that registers again and again.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::plugin::Plugin;
use crate::support::ticks::ticks;

/// The durations of what an honest plugin or operator does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Times {
    /// Has something done `rounds` times, under a new name each time. `act` returns how long it
    /// took.
    pub(crate) fn measure(name: &str, rounds: usize, act: impl Fn(&str) -> Duration) -> Self {
        let clock = ticks(INTERVAL);
        let mut times = Vec::new();
        for n in 0..rounds {
            clock.wait().unwrap();
            let time = act(&format!("{name}-{n}"));
            assert!(time < PATIENCE, "{name}-{n}: {time:?}");
            times.push(time);
        }
        times.sort_unstable();
        let part = |percent: usize| times[(rounds * percent).div_ceil(100) - 1];
        let [p50, p99] = [50, 99].map(part);
        Self { p50, p99 }
    }
}

/// Registers a CSI plugin and stops it. Returns how long it took until the plugin was notified.
pub(crate) fn register(dir: &Path, name: &str) -> Duration {
    register_type(dir, "CSIPlugin", name)
}

/// Does the same with a plugin of this type.
pub(crate) fn register_type(dir: &Path, kind: &str, name: &str) -> Duration {
    let socket = dir.join(format!("{name}.sock"));
    let start = Instant::now();
    let plugin = Plugin::serve_type(&socket, kind, name);
    let notified = plugin.until_notified();
    let time = start.elapsed();
    assert!(notified.plugin_registered, "{notified:?}");
    plugin.stop();
    time
}

/// The time from one registration to the next: each logs three lines, which should not fill the
/// log.
const INTERVAL: Duration = Duration::from_millis(20);

/// The longest time that is still measured. What takes longer has failed anyhow.
const PATIENCE: Duration = Duration::from_secs(10);

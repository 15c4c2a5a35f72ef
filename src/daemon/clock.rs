//! The monotonic clock, from which all times of the core are taken, and the time of day.
//!
//! `Instant` reads CLOCK_MONOTONIC, which epoll uses, too. This clock does not jump when the time
//! of day is set, and stops while the machine is suspended: a plugin that had two seconds left to
//! answer has two seconds left after that. With CLOCK_BOOTTIME every deadline would have passed at
//! resume, before any plugin could run: all operations would fail, and plugins that are down would
//! be deregistered too early.
//!
//! The time of day is for log lines, the API, the ages that commands show, and simulated plugins.
//! No decision of the daemon depends on it, and no other module reads the real-time clock, which
//! may be set back at any moment and starts in 1970 on a machine without a battery.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
}

/// Returns the current wall-clock time, since the Unix epoch.
pub(crate) fn time_of_day() -> Duration {
    since_epoch(SystemTime::now())
}

/// Returns the time from the Unix epoch to `moment`, or zero if `moment` is earlier, because the
/// clock has not been set.
fn since_epoch(moment: SystemTime) -> Duration {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Converts times of the loop into times of day, for responses.
///
/// The two clocks cannot be read at the same instant. If each response read them anew, the same
/// event would have a slightly different timestamp in each response.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    /// The time of day at [`Time::ZERO`], since the beginning of 1970.
    origin: Duration,
}

impl Calendar {
    /// Returns the time of day at `now`. `reading` is the time of day, read a moment later: if the
    /// two differ by more than [`TOLERANCE`], the clock was set, and the calendar follows it.
    pub(crate) fn convert_time(&mut self, now: Time, reading: Duration) -> Duration {
        let origin = reading.saturating_sub(now.since_origin());
        if self.origin.abs_diff(origin) > TOLERANCE {
            self.origin = origin;
        }
        self.origin + now.since_origin()
    }
}

/// The difference above which the clock counts as set: a turn takes less time, and people do not
/// notice a smaller difference.
const TOLERANCE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::rfc3339;

    #[test]
    fn a_time_before_1970_is_shown_as_1970_and_all_have_one_length() {
        let shown = |moment| rfc3339(since_epoch(moment));
        assert_eq!(shown(UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        let hour = Duration::from_secs(3600);
        assert_eq!(shown(UNIX_EPOCH - hour), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(UNIX_EPOCH + hour), "1970-01-01T01:00:00.000Z");
        let year_10_000 = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(shown(year_10_000).len(), "1970-01-01T00:00:00.000Z".len());
    }

    #[test]
    fn the_time_of_an_event_stays_the_same_until_the_clock_is_set() {
        let (mut calendar, day) = (Calendar::default(), Duration::from_secs(86_400));
        let origin = |calendar: &mut Calendar, at: u64, reading: Duration| {
            let now = Time::from_millis(at);
            let time = calendar.convert_time(now, reading);
            time.saturating_sub(now.since_origin())
        };
        let ms = Duration::from_millis;
        assert_eq!(origin(&mut calendar, 5, day + ms(5)), day);
        assert_eq!(origin(&mut calendar, 1000, day + ms(1008)), day, "later");
        assert_eq!(origin(&mut calendar, 9000, day + ms(8999)), day);
        assert_eq!(origin(&mut calendar, 9000, 2 * day + ms(9000)), 2 * day);
        assert_eq!(origin(&mut calendar, 9500, day + ms(9500)), day, "back");
        assert_eq!(origin(&mut calendar, 9600, ms(0)), ms(0), "not set");
    }
}

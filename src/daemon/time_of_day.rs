//! The time of day, for log lines and for the messages of simulated plugins. Nothing is decided by
//! it, and no other module reads it: the clock may be set back at any moment, and begins in 1970 on
//! a machine without a battery.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::time::rfc3339;

/// A moment, formatted as people and log readers expect it (RFC 3339, UTC, milliseconds).
#[derive(Clone, Copy, Debug)]
pub struct TimeOfDay(Duration);

impl TimeOfDay {
    /// Returns the current time of the system's clock.
    pub fn now() -> Self {
        Self::at(SystemTime::now())
    }

    /// Returns the time of day at a moment. A clock that is before 1970 has not been set, and is
    /// shown as 1970.
    fn at(moment: SystemTime) -> Self {
        let since_epoch = moment.duration_since(UNIX_EPOCH);
        Self(since_epoch.unwrap_or_default())
    }

    /// Returns the time since the beginning of 1970.
    pub(crate) fn since_1970(self) -> Duration {
        self.0
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rfc3339(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_not_set_or_is_set_back_is_shown_as_it_is() {
        let shown = |moment| TimeOfDay::at(moment).to_string();
        assert_eq!(shown(UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        let hour = Duration::from_secs(3600);
        assert_eq!(shown(UNIX_EPOCH - hour), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(UNIX_EPOCH + hour), "1970-01-01T01:00:00.000Z");
        let year_10_000 = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(shown(year_10_000).len(), "1970-01-01T00:00:00.000Z".len());
    }
}

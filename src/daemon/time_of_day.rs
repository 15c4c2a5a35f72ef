//! The time of day, for log lines, the API and the messages of simulated plugins. No decision of
//! the daemon depends on it, and no other module reads this clock: it may be set back at any
//! moment, and begins in 1970 on a machine without a battery.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current time of the system's clock, since the beginning of 1970.
pub(crate) fn time_of_day() -> Duration {
    since_1970(SystemTime::now())
}

/// Returns the time from the beginning of 1970 to a moment. A clock that is before 1970 has not
/// been set, and is shown as 1970.
fn since_1970(moment: SystemTime) -> Duration {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::rfc3339;

    #[test]
    fn a_clock_that_was_not_set_or_is_set_back_is_shown_as_it_is() {
        let shown = |moment| rfc3339(since_1970(moment));
        assert_eq!(shown(UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        let hour = Duration::from_secs(3600);
        assert_eq!(shown(UNIX_EPOCH - hour), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(UNIX_EPOCH + hour), "1970-01-01T01:00:00.000Z");
        let year_10_000 = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(shown(year_10_000).len(), "1970-01-01T00:00:00.000Z".len());
    }
}

//! The time of day, for log lines, the API, the ages that commands show, and simulated plugins. No
//! decision of the daemon depends on the time of day, and no other module reads the real-time
//! clock, which may be set back at any moment and starts in 1970 on a machine without a battery.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current wall-clock time, since the Unix epoch.
pub(crate) fn time_of_day() -> Duration {
    since_epoch(SystemTime::now())
}

/// Returns the time from the Unix epoch to `moment`, or zero if `moment` is earlier, because the
/// clock has not been set.
fn since_epoch(moment: SystemTime) -> Duration {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default()
}

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
}

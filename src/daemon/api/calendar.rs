//! Converts times of the loop into times of day.
//!
//! The two clocks cannot be read at the same instant. If each response read them anew, the same
//! event would have a slightly different timestamp in each response.

use std::time::Duration;

use crate::time::Time;

/// The time of day at which the clock of the loop began.
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

//! Limits on frames that do not advance any call: floods and rapid resets.
//!
//! Pure. PING, SETTINGS, PRIORITY, WINDOW_UPDATE, frames on streams that have ended, extensions:
//! each is legal, cheap to send and not free to read, so each is counted. Headers and data of a
//! call in progress, in either direction, reset these counters. So does the passing of time,
//! because a connection may stay open for days with nothing but an occasional keepalive.
//!
//! Requests that are cancelled before they are answered are counted separately: each causes work
//! without a result (CVE-2023-44487), and data sent with the request does not reset this counter. A
//! stream that is reset after its complete response was queued is not counted.

use super::error::{Excess, Violation};
use crate::config;
use crate::time::Time;

/// The counters of one connection.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The time at which counting began.
    since: Time,
    /// Frames that did not advance a call.
    idling: u32,
    /// DATA frames without data.
    empty_data: u32,
    /// Requests that were cancelled, less those that were answered.
    cancelled: u32,
}

impl Patience {
    /// Resets the counters of frames because a call advanced.
    pub(super) fn progress(&mut self) {
        self.idling = 0;
        self.empty_data = 0;
    }

    /// Counts a frame that did not advance a call; fails if there are too many.
    pub(super) fn idled(&mut self, now: Time) -> Result<(), Violation> {
        self.forgive(now);
        self.idling += 1;
        if self.idling > config::MAX_IDLING_FRAMES {
            return Err(Violation::Excess(Excess::Idling));
        }
        Ok(())
    }

    /// Counts a DATA frame with neither data nor END_STREAM; fails if there are too many.
    pub(super) fn empty_data(&mut self, now: Time) -> Result<(), Violation> {
        self.forgive(now);
        self.empty_data += 1;
        if self.empty_data > config::MAX_EMPTY_DATA {
            return Err(Violation::Excess(Excess::EmptyData));
        }
        Ok(())
    }

    /// Counts a request that was answered, which makes up for a cancelled one.
    pub(super) fn answered(&mut self) {
        self.cancelled = self.cancelled.saturating_sub(1);
    }

    /// Counts a request that was cancelled, or broke a rule, before it was answered; fails if there
    /// are too many.
    pub(super) fn cancelled(&mut self, now: Time) -> Result<(), Violation> {
        self.forgive(now);
        self.cancelled += 1;
        if self.cancelled > config::MAX_CANCELLED {
            return Err(Violation::Excess(Excess::Cancelled));
        }
        Ok(())
    }

    /// Resets all counters if enough time has passed.
    fn forgive(&mut self, now: Time) {
        if now.saturating_since(self.since) >= config::IDLING_FORGIVEN {
            *self = Self {
                since: now,
                ..Self::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_1001st_frame_without_progress_is_one_too_many() {
        let mut patience = Patience::default();
        for _ in 0..2 {
            patience.progress();
            for _ in 0..1000 {
                assert_eq!(patience.idled(Time::ZERO), Ok(()));
            }
        }
        assert!(patience.idled(Time::ZERO).is_err());
    }

    #[test]
    fn the_101st_empty_data_frame_without_progress_is_one_too_many() {
        let mut patience = Patience::default();
        for _ in 0..100 {
            assert_eq!(patience.empty_data(Time::ZERO), Ok(()));
        }
        assert!(patience.empty_data(Time::ZERO).is_err());
    }

    #[test]
    fn the_101st_request_taken_back_is_one_too_many_unless_some_are_answered() {
        let mut patience = Patience::default();
        for _ in 0..100 {
            patience.progress();
            assert_eq!(patience.cancelled(Time::ZERO), Ok(()));
        }
        patience.answered();
        assert_eq!(patience.cancelled(Time::ZERO), Ok(()));
        assert!(patience.cancelled(Time::ZERO).is_err());
    }

    #[test]
    fn a_keepalive_every_second_is_never_too_much() {
        let mut patience = Patience::default();
        for second in 0..100_000 {
            assert_eq!(patience.idled(Time::from_millis(second * 1000)), Ok(()));
        }
    }
}

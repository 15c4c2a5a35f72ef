//! Limits on frames that do not advance any call: floods and rapid resets.
//!
//! PING, SETTINGS, PRIORITY, WINDOW_UPDATE, RST_STREAM, GOAWAY, requests, 1xx responses, DATA
//! without data, DATA and HEADERS on streams that have ended, extensions: each is legal, cheap to
//! send and not free to read, so each is counted. Content, trailers and the headers of final
//! responses, in either direction, reset this counter. So does the passing of time, because a
//! connection may stay open for days with nothing but an occasional keepalive.
//!
//! If the counter exceeds its limit (1000 frames) before it is reset, the connection and every call
//! on it end with GOAWAY ENHANCE_YOUR_CALM. While 64 answers are unsent, no further frame is
//! processed.
//!
//! Requests that are cancelled before they are answered are counted separately: each causes work
//! without a result (CVE-2023-44487), and data sent with the request does not reset their counter.
//! A stream that is reset after all of its response so far was queued is not counted: clients end a
//! stream of events in this way.

use super::error::{Excess, Violation};
use crate::config;
use crate::time::Time;

/// The counters of one connection.
#[derive(Debug, Default)]
pub(super) struct FloodGuard {
    /// The time at which all counters were last reset.
    since: Time,
    /// Frames that did not advance a call.
    without_progress: u32,
    /// Requests that were cancelled, less those that were answered.
    cancelled: u32,
}

impl FloodGuard {
    /// Resets the counter of frames because a call advanced.
    pub(super) fn record_progress(&mut self) {
        self.without_progress = 0;
    }

    /// Counts a frame that did not advance a call; fails if there are too many.
    pub(super) fn count_frame_without_progress(&mut self, now: Time) -> Result<(), Violation> {
        self.reset_if_expired(now);
        self.without_progress += 1;
        if self.without_progress > config::MAX_FRAMES_WITHOUT_PROGRESS {
            return Err(Violation::Excess(Excess::WithoutProgress));
        }
        Ok(())
    }

    /// Counts a request that was answered, which makes up for a cancelled one.
    pub(super) fn count_answered_request(&mut self) {
        self.cancelled = self.cancelled.saturating_sub(1);
    }

    /// Counts a request that was cancelled, or broke a rule, before it was answered; fails if there
    /// are too many.
    pub(super) fn count_cancelled_request(&mut self, now: Time) -> Result<(), Violation> {
        self.reset_if_expired(now);
        self.cancelled += 1;
        if self.cancelled > config::MAX_STREAMS {
            return Err(Violation::Excess(Excess::Cancelled));
        }
        Ok(())
    }

    /// Resets all counters if the last such reset was at least [`config::FLOOD_WINDOW`] ago.
    fn reset_if_expired(&mut self, now: Time) {
        if now.saturating_since(self.since) >= config::FLOOD_WINDOW {
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
        let mut flood = FloodGuard::default();
        for _ in 0..2 {
            flood.record_progress();
            for _ in 0..1000 {
                assert_eq!(flood.count_frame_without_progress(Time::ZERO), Ok(()));
            }
        }
        assert!(flood.count_frame_without_progress(Time::ZERO).is_err());
    }

    #[test]
    fn the_101st_cancelled_request_is_one_too_many() {
        let mut flood = FloodGuard::default();
        for _ in 0..100 {
            flood.record_progress();
            assert_eq!(flood.count_cancelled_request(Time::ZERO), Ok(()));
        }
        flood.count_answered_request();
        assert_eq!(flood.count_cancelled_request(Time::ZERO), Ok(()));
        assert!(flood.count_cancelled_request(Time::ZERO).is_err());
    }

    #[test]
    fn a_keepalive_every_second_is_never_too_much() {
        let mut flood = FloodGuard::default();
        for second in 0..100_000 {
            assert_eq!(
                flood.count_frame_without_progress(Time::from_millis(second * 1000)),
                Ok(())
            );
        }
    }
}

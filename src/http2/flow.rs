//! Flow control (RFC 9113 §5.2, §6.9): how much either side may send before the other allows more.
//!
//! The same two types serve a stream and the connection.

use super::error::WindowError;

/// The largest window allowed: 2^31-1.
pub(super) const MAX_WINDOW: u32 = 0x7fff_ffff;

/// The window for what this end sends.
///
/// Negative after the peer has lowered its INITIAL_WINDOW_SIZE below what was already sent: "A
/// sender MUST track the negative flow-control window and MUST NOT send new flow-controlled frames
/// until it receives WINDOW_UPDATE frames that cause the flow-control window to become positive."
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    /// Returns a window of this size.
    pub(super) fn new(size: u32) -> Self {
        Self(i64::from(size))
    }

    /// Returns how many octets may be sent now.
    pub(super) fn available_octets(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes octets that are sent out of the window; they must be available.
    pub(super) fn take(&mut self, octets: usize) {
        debug_assert!(octets <= self.available_octets());
        self.0 -= i64::try_from(octets).unwrap_or(i64::MAX);
    }

    /// Adds the increment of a WINDOW_UPDATE.
    pub(super) fn increase(&mut self, increment: u32) -> Result<(), WindowError> {
        if increment == 0 {
            return Err(WindowError::Zero);
        }
        self.shift(increment.into())
    }

    /// Adds an increment, or the difference by which the peer changed INITIAL_WINDOW_SIZE.
    ///
    /// "A sender MUST NOT allow a flow-control window to exceed 2^31-1 octets."
    pub(super) fn shift(&mut self, by: i64) -> Result<(), WindowError> {
        let shifted = self.0 + by;
        if shifted > i64::from(MAX_WINDOW) {
            return Err(WindowError::Overflow);
        }
        self.0 = shifted;
        Ok(())
    }
}

/// The window for what the peer sends, and what was consumed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// The full size of the window.
    size: u32,
    /// The number of octets that the peer may still send.
    left: u32,
    /// The number of octets that are consumed and not yet returned to the window.
    owed: u32,
}

impl ReceiveWindow {
    /// Returns a window of this size.
    pub(super) fn new(size: u32) -> Self {
        Self {
            size,
            left: size,
            owed: 0,
        }
    }

    /// Counts received octets.
    pub(super) fn receive(&mut self, octets: u32) -> Result<(), WindowError> {
        self.left = self.left.checked_sub(octets).ok_or(WindowError::Exceeded)?;
        Ok(())
    }

    /// Counts consumed octets; returns the increment to send in a WINDOW_UPDATE now, if any.
    ///
    /// At least half of the window is returned at a time: smaller increments would cost the peer
    /// more frames to read, and waiting for the whole window would stop the peer meanwhile. An
    /// increment is never 0.
    pub(super) fn release(&mut self, octets: u32) -> Option<u32> {
        // If a caller releases more than was received, the window must not grow beyond its size.
        self.owed = self
            .owed
            .saturating_add(octets)
            .min(self.size.saturating_sub(self.left));
        if self.owed < self.size / 2 {
            return None;
        }
        let increment = self.owed;
        self.left += increment;
        self.owed = 0;
        Some(increment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_may_become_negative_and_recover() {
        let mut window = SendWindow::new(100);
        window.take(100);
        assert_eq!(window.shift(-90), Ok(()));
        assert_eq!(window.available_octets(), 0);
        assert_eq!(window.shift(90), Ok(()));
        assert_eq!(window.available_octets(), 0);
        assert_eq!(window.shift(1), Ok(()));
        assert_eq!(window.available_octets(), 1);
    }

    #[test]
    fn a_send_window_above_its_maximum_overflows() {
        let mut window = SendWindow::new(MAX_WINDOW);
        assert_eq!(window.shift(1), Err(WindowError::Overflow));
        let mut window = SendWindow::new(0);
        assert_eq!(window.shift(i64::from(MAX_WINDOW)), Ok(()));
        assert_eq!(window.increase(MAX_WINDOW), Err(WindowError::Overflow));
        assert_eq!(window.increase(0), Err(WindowError::Zero));
    }

    #[test]
    fn a_peer_may_fill_the_window_and_not_exceed_it() {
        let mut window = ReceiveWindow::new(10);
        assert_eq!(window.receive(10), Ok(()));
        assert_eq!(window.receive(1), Err(WindowError::Exceeded));
        assert_eq!(window.receive(0), Ok(()));
    }

    #[test]
    fn windows_are_returned_by_halves_and_never_by_0() {
        let mut window = ReceiveWindow::new(10);
        window.receive(9).expect("fits");
        assert_eq!(window.release(0), None);
        assert_eq!(window.release(4), None);
        assert_eq!(window.release(1), Some(5));
        assert_eq!(window.release(4), None);
        assert_eq!(window.receive(7), Err(WindowError::Exceeded));
        assert_eq!(window.receive(6), Ok(()));
    }

    #[test]
    fn releasing_more_than_received_does_not_grow_the_window() {
        let mut window = ReceiveWindow::new(10);
        window.receive(6).expect("fits");
        assert_eq!(window.release(1000), Some(6));
        assert_eq!(window.receive(11), Err(WindowError::Exceeded));
        assert_eq!(window.receive(10), Ok(()));
    }
}

//! Exponential backoff.
//!
//! The pauses are not random. The caller keeps the last one.

use std::time::Duration;

/// The pauses between repeated attempts: the first one, which is doubled each time up to a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub cap: Duration,
}

impl Backoff {
    /// Returns the pause that follows `last`, or the first one if there was none.
    pub fn next_pause(self, last: Option<Duration>) -> Duration {
        last.map_or(self.first, |last| last.saturating_mul(2).min(self.cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_the_first_to_the_cap() {
        let backoff = Backoff {
            first: Duration::from_secs(2),
            cap: Duration::from_secs(9),
        };
        let mut last = None;
        let pauses = [(); 5].map(|()| {
            let pause = backoff.next_pause(last);
            last = Some(pause);
            pause.as_secs()
        });
        assert_eq!(pauses, [2, 4, 8, 9, 9]);
    }
}

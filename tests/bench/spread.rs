//! The distribution of many measurements of one thing.

use std::time::Duration;

/// The measurements, from the least to the greatest.
#[derive(Debug, Default)]
pub(crate) struct Spread(Vec<Duration>);

impl Spread {
    pub(crate) fn new(mut all: Vec<Duration>) -> Self {
        all.sort();
        Self(all)
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// Returns the value that `percent` percent of the measurements do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let place = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// Returns `one` as a multiple of `other`.
pub(crate) fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

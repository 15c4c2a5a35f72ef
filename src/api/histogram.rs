//! Histograms of durations, which all have the same buckets.

use std::time::Duration;

use crate::time;

/// The number of observed durations by size, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The number of durations in each bucket that are not in the one before; the last bucket is
    /// unbounded.
    counts: [u64; Self::BUCKETS],
    /// In nanoseconds: saturates after 584 years.
    sum: u64,
}

impl Histogram {
    /// The number of buckets, including the unbounded one.
    pub const BUCKETS: usize = BOUNDS.len() + 1;

    /// Counts a duration.
    pub fn observe(&mut self, took: Duration) {
        let nanos = time::nanos(took);
        let bucket = BOUNDS.iter().position(|(bound, _)| nanos <= *bound);
        self.counts[bucket.unwrap_or(BOUNDS.len())] += 1;
        self.sum = self.sum.saturating_add(nanos);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Returns the upper bound of each bucket in seconds, as text, and the number of durations up
    /// to that bound.
    pub fn buckets(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let bounds = BOUNDS.iter().map(|(_, text)| *text).chain(["+Inf"]);
        bounds.zip(self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
    }
}

/// The upper bounds of the buckets, in nanoseconds, and in seconds as text: 0.1 ms to 100 s, each
/// about three times the one before. Longer durations are in the unbounded bucket.
const BOUNDS: [(u64, &str); 13] = [
    (100_000, "0.0001"),
    (300_000, "0.0003"),
    (1_000_000, "0.001"),
    (3_000_000, "0.003"),
    (10_000_000, "0.01"),
    (30_000_000, "0.03"),
    (100_000_000, "0.1"),
    (300_000_000, "0.3"),
    (1_000_000_000, "1"),
    (3_000_000_000, "3"),
    (10_000_000_000, "10"),
    (30_000_000_000, "30"),
    (100_000_000_000, "100"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_every_bucket_from_its_own_bound_on() {
        let mut histogram = Histogram::default();
        let durations = [
            (Duration::ZERO, "0.0001"),
            (Duration::from_micros(100), "0.0001"),
            (Duration::from_nanos(100_001), "0.0003"),
            (Duration::from_secs(1), "1"),
            (Duration::from_secs(100), "100"),
            (Duration::from_secs(101), "+Inf"),
        ];
        for (duration, bound) in durations {
            let before: Vec<_> = histogram.buckets().collect();
            histogram.observe(duration);
            let mut counts = histogram.buckets().zip(before);
            let first = counts.find(|(after, before)| after.1 == before.1 + 1);
            assert_eq!(first.map(|(after, _)| after.0), Some(bound));
            assert!(counts.all(|(after, before)| after.1 == before.1 + 1));
        }
        assert_eq!(histogram.count(), 6);
        let sum: Duration = durations.iter().map(|(duration, _)| *duration).sum();
        assert_eq!(histogram.sum(), sum);
    }

    #[test]
    fn the_bounds_grow_and_their_texts_agree_with_them() {
        assert!(BOUNDS.is_sorted());
        for (nanos, text) in BOUNDS {
            let seconds: f64 = text.parse().expect("a number");
            assert_eq!(
                Duration::from_secs_f64(seconds),
                Duration::from_nanos(nanos)
            );
        }
    }

    #[test]
    fn a_sum_that_is_too_large_saturates() {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::MAX);
        histogram.observe(Duration::MAX);
        assert_eq!((histogram.count(), histogram.sum), (2, u64::MAX));
    }
}

//! Random numbers from a seed, which are the same on every machine.

use std::ops::Range;

/// Sebastiano Vigna's `SplitMix64`.
#[derive(Debug, Default)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in the range.
    pub(crate) fn below(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Returns one of these, or `None` if there are none.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.next()).ok()?.checked_rem(from.len())?;
        from.get(at)
    }

    /// Returns true once in `n` times on average.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(0..n) == 0
    }
}

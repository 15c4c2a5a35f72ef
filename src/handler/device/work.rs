//! The work of one turn.
//!
//! Pure. The core has no clock, so work is counted: a unit takes about 10 ns.

/// The work that is left for this turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work(usize);

impl Work {
    /// The work of one turn: about 1 ms. That is enough for a list of 2,500 devices in any order,
    /// and for one of 65,536 that are almost all the same ones as before, in the same places.
    pub(super) const TURN: Self = Self(100_000);

    /// Work without an end.
    pub(super) const ALL: Self = Self(usize::MAX);

    /// Returns work of so many units.
    #[cfg(test)]
    pub(super) fn of(units: usize) -> Self {
        Self(units)
    }

    /// Returns whether nothing is left.
    pub(super) fn is_over(self) -> bool {
        self.0 == 0
    }

    /// Counts units that were done.
    pub(super) fn done(&mut self, units: usize) {
        self.0 = self.0.saturating_sub(units);
    }

    /// Counts a device of so many octets that was read. The slowest one has fields of two octets.
    pub(super) fn read(&mut self, octets: usize) {
        self.done(3 + octets / 4);
    }
}

//! Octets as choices.
//!
//! Behind the end, the octets are zeros: every input is complete, and truncating it makes it
//! simpler.

use std::time::Duration;

/// The remaining octets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next octet.
    pub(super) fn octet(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Returns the next four octets, as a number.
    pub(super) fn long(&mut self) -> u32 {
        u32::from_be_bytes([self.octet(), self.octet(), self.octet(), self.octet()])
    }

    /// Returns a number below `bound`, made of one octet.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.octet()) % bound
    }

    /// Returns one of these.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns one of these times, which are in milliseconds.
    pub(super) fn time(&mut self, from: &[u64]) -> Duration {
        Duration::from_millis(self.pick(from))
    }

    /// Returns `true` for every other octet.
    pub(super) fn coin(&mut self) -> bool {
        self.octet() & 1 == 1
    }

    /// Returns at most this many octets.
    pub(super) fn take(&mut self, octets: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(octets.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Returns octets with their length in front, in one octet.
    pub(super) fn short(&mut self) -> &'a [u8] {
        let length = self.octet();
        self.take(length.into())
    }

    /// Returns all remaining octets.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

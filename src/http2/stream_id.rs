//! Stream identifiers (RFC 9113 §5.1.1).

use std::fmt;
use std::num::NonZeroU32;

/// The identifier of a stream on the wire, which is odd if the client opened the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(NonZeroU32);

impl StreamId {
    /// The first stream that a client opens.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// Returns the identifier with this number, or `None` if it is 0 or has more than 31 bits.
    pub(crate) fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) if number.get() <= LAST => Some(Self(number)),
            _ => None,
        }
    }

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The highest number that a stream can have: 2^31-1.
const LAST: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_not_0_and_has_at_most_31_bits() {
        assert_eq!(StreamId::new(1), Some(StreamId::FIRST));
        assert_eq!(StreamId::new(LAST).map(StreamId::get), Some(LAST));
        assert_eq!(StreamId::new(0), None);
        assert_eq!(StreamId::new(LAST + 1), None);
    }
}

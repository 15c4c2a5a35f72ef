//! A header block that arrives in fragments (RFC 9113 §4.3).
//!
//! A block in a single frame is decoded in place. A block that continues in CONTINUATION frames is
//! assembled here, within limits, because an unfinished block holds up everything else on its
//! connection.

use super::StreamId;
use super::error::{Excess, Violation};
use crate::budget::grow_capacity;
use crate::config;
use crate::time::Time;

/// A header block whose last fragment is still awaited.
#[derive(Debug)]
pub(super) struct Block {
    /// The stream of the block.
    pub(super) stream: StreamId,
    /// Whether the block ends the peer's side of the stream.
    pub(super) end_stream: bool,
    /// The time by which the block must be complete.
    pub(super) deadline: Time,
    /// The fragments so far, joined.
    pub(super) octets: Vec<u8>,
    continuations: u32,
}

impl Block {
    /// Begins a block with its first fragment.
    pub(super) fn new(stream: StreamId, end_stream: bool, fragment: &[u8], now: Time) -> Self {
        Self {
            stream,
            end_stream,
            deadline: now + config::PEER_TIMEOUT,
            octets: fragment.to_vec(),
            continuations: 0,
        }
    }

    /// Appends the fragment of a CONTINUATION frame; fails if the frame is on another stream, or if
    /// the block exceeds a limit.
    ///
    /// RFC 9113 §6.10: "A CONTINUATION frame MUST be preceded by a HEADERS, PUSH_PROMISE or
    /// CONTINUATION frame without the END_HEADERS flag set"; §4.3: "with no interleaved frames of
    /// any other type or from any other stream".
    pub(super) fn append(&mut self, stream: StreamId, fragment: &[u8]) -> Result<(), Violation> {
        if stream != self.stream {
            return Err(Violation::StrayContinuation);
        }
        self.continuations += 1;
        // mutation: a header block may have one frame too many
        if self.continuations > config::MAX_CONTINUATIONS {
            return Err(Violation::Excess(Excess::Continuations));
        }
        let size = self.octets.len() + fragment.len();
        // mutation: a header block may be longer than its limit
        if size > config::MAX_HEADER_LIST {
            return Err(Violation::Excess(Excess::HeaderBlock));
        }
        grow_capacity(&mut self.octets, size, config::MAX_HEADER_LIST);
        self.octets.extend_from_slice(fragment);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId::FIRST;

    fn block() -> Block {
        Block::new(STREAM, true, b"ab", Time::ZERO)
    }

    #[test]
    fn eight_continuations_are_fine_and_a_ninth_is_too_many() {
        let mut block = block();
        for _ in 0..7 {
            assert_eq!(block.append(STREAM, b""), Ok(()));
        }
        assert_eq!(block.append(STREAM, b"c"), Ok(()));
        assert_eq!(block.octets, b"abc");
        let ninth = block.append(STREAM, b"");
        assert_eq!(ninth, Err(Violation::Excess(Excess::Continuations)));
    }

    #[test]
    fn a_block_may_have_64_kib_and_not_an_octet_more() {
        let rest = vec![0; config::MAX_HEADER_LIST - 2];
        let mut full = block();
        assert_eq!(full.append(STREAM, &rest), Ok(()));
        let too_large = Err(Violation::Excess(Excess::HeaderBlock));
        assert_eq!(full.append(STREAM, b"c"), too_large);
    }

    #[test]
    fn the_memory_of_a_block_never_exceeds_the_limit_of_its_size() {
        let mut block = block();
        for _ in 0..7 {
            block.append(STREAM, &[0; 9_000]).expect("it fits");
            assert!(block.octets.capacity() <= config::MAX_HEADER_LIST);
        }
        assert_eq!(block.octets.len(), 63_002);
    }

    #[test]
    fn a_continuation_on_another_stream_is_a_connection_error() {
        let other = StreamId::new(3).expect("a valid number");
        let appended = block().append(other, b"");
        assert_eq!(appended, Err(Violation::StrayContinuation));
    }
}

//! A header block that arrives in fragments (RFC 9113 §4.3).
//!
//! Pure. A block in a single frame is decoded in place. A block that continues in CONTINUATION
//! frames is assembled here, within limits, because an unfinished block holds up everything else on
//! its connection.

use super::StreamId;
use super::error::{Excess, Violation};
use super::frame::{Continuation, Headers};
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
    octets: Vec<u8>,
    continuations: u32,
}

impl Block {
    /// Begins a block with its first fragment.
    pub(super) fn begin(headers: &Headers<'_>, now: Time) -> Self {
        Self {
            stream: headers.stream,
            end_stream: headers.end_stream,
            deadline: now + config::HEADER_BLOCK_TIMEOUT,
            octets: headers.fragment.to_vec(),
            continuations: 0,
        }
    }

    /// Appends a fragment; returns whether the block is complete.
    ///
    /// RFC 9113 §6.10: "A CONTINUATION frame MUST be preceded by a HEADERS, PUSH_PROMISE or
    /// CONTINUATION frame without the END_HEADERS flag set"; §4.3: "with no interleaved frames of
    /// any other type or from any other stream".
    pub(super) fn append(&mut self, fragment: &Continuation<'_>) -> Result<bool, Violation> {
        if fragment.stream != self.stream {
            return Err(Violation::StrayContinuation);
        }
        self.continuations += 1;
        if self.continuations > config::MAX_CONTINUATIONS {
            return Err(Violation::Excess(Excess::Continuations));
        }
        let size = self.octets.len() + fragment.fragment.len();
        if size > config::MAX_HEADER_BLOCK {
            return Err(Violation::Excess(Excess::HeaderBlock));
        }
        self.make_room(size);
        self.octets.extend_from_slice(fragment.fragment);
        Ok(fragment.is_complete)
    }

    /// Reserves memory for a block of `size` octets, never more than the largest accepted block
    /// needs.
    fn make_room(&mut self, size: usize) {
        let capacity = self.octets.capacity();
        if size > capacity {
            let doubled = (2 * capacity).clamp(size, config::MAX_HEADER_BLOCK);
            self.octets.reserve_exact(doubled - self.octets.len());
        }
    }

    /// Returns the fragments so far, joined.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Returns the octets of memory held.
    pub(super) fn mem_used(&self) -> usize {
        self.octets.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Block {
        let headers = Headers {
            stream: StreamId::FIRST,
            fragment: b"ab",
            end_stream: true,
            is_complete: false,
        };
        Block::begin(&headers, Time::ZERO)
    }

    fn fragment(octets: &[u8], is_complete: bool) -> Continuation<'_> {
        Continuation {
            stream: StreamId::FIRST,
            fragment: octets,
            is_complete,
        }
    }

    #[test]
    fn eight_continuations_are_fine_and_a_ninth_is_too_many() {
        let mut block = block();
        for _ in 0..7 {
            assert_eq!(block.append(&fragment(b"", false)), Ok(false));
        }
        assert_eq!(block.append(&fragment(b"c", true)), Ok(true));
        assert_eq!(block.octets(), b"abc");
        let ninth = block.append(&fragment(b"", true));
        assert_eq!(ninth, Err(Violation::Excess(Excess::Continuations)));
    }

    #[test]
    fn a_block_may_have_64_kib_and_not_an_octet_more() {
        let rest = vec![0; config::MAX_HEADER_BLOCK - 2];
        assert_eq!(block().append(&fragment(&rest, true)), Ok(true));
        let mut full = block();
        assert_eq!(full.append(&fragment(&rest, false)), Ok(false));
        let too_large = Err(Violation::Excess(Excess::HeaderBlock));
        assert_eq!(full.append(&fragment(b"c", true)), too_large);
    }

    #[test]
    fn the_memory_of_a_block_never_exceeds_the_limit_of_its_size() {
        let mut block = block();
        for _ in 0..7 {
            block
                .append(&fragment(&[0; 9_000], false))
                .expect("it fits");
            assert!(block.mem_used() <= config::MAX_HEADER_BLOCK);
        }
        assert_eq!(block.octets().len(), 63_002);
    }

    #[test]
    fn a_continuation_on_another_stream_is_a_connection_error() {
        let mut other = fragment(b"", true);
        other.stream = StreamId::FIRST.next().expect("there are more");
        assert_eq!(block().append(&other), Err(Violation::StrayContinuation));
    }
}

//! The nine octets in front of every frame (RFC 9113 §4.1).

use crate::http2::error::Violation;
use crate::http2::frame_type::FrameType;
use crate::http2::stream_id::StreamId;

/// The length of a frame head in octets.
pub(in crate::http2) const HEAD: usize = 9;

/// The largest payload that every endpoint accepts, and the largest that we accept or send (2^14
/// octets): the initial value of SETTINGS_MAX_FRAME_SIZE (RFC 9113 §6.5.2).
pub(in crate::http2) const INITIAL_MAX_FRAME_SIZE: u32 = 16_384;

/// The flags, each with the frame types that define it.
pub(in crate::http2) mod flag {
    /// SETTINGS, PING: the frame is an acknowledgement.
    pub(in crate::http2) const ACK: u8 = 0x1;
    /// DATA, HEADERS: the sender ends its side of the stream.
    pub(in crate::http2) const END_STREAM: u8 = 0x1;
    /// HEADERS, CONTINUATION: the block is complete.
    pub(in crate::http2) const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS: padding follows the payload.
    pub(in crate::http2) const PADDED: u8 = 0x8;
    /// HEADERS: a priority precedes the fragment.
    pub(in crate::http2) const PRIORITY: u8 = 0x20;
}

/// A frame head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct Head {
    /// The length of the payload in octets.
    pub(in crate::http2) length: u32,
    /// The type of the frame.
    pub(in crate::http2) kind: FrameType,
    /// The flags, whose meaning depends on the type.
    pub(in crate::http2) flags: u8,
    /// The stream, without the reserved bit; 0 is the connection.
    pub(in crate::http2) stream: u32,
}

impl Head {
    /// Returns the head of a frame with a payload of `length` octets (fewer than 2^24: no frame of
    /// ours has more than 16,384).
    pub(in crate::http2) fn new(kind: FrameType, flags: u8, stream: u32, length: usize) -> Self {
        debug_assert!(length < 1 << 24);
        Self {
            #[allow(clippy::cast_possible_truncation)] // Below 2^24, see above.
            length: length as u32,
            kind,
            flags,
            stream,
        }
    }

    /// Parses a head.
    ///
    /// RFC 9113 §4.1, on the reserved bit: it "MUST be ignored when receiving".
    pub(in crate::http2) fn parse(octets: [u8; HEAD]) -> Self {
        let [l1, l2, l3, kind, flags, s1, s2, s3, s4] = octets;
        Self {
            length: u32::from_be_bytes([0, l1, l2, l3]),
            kind: FrameType::from_wire(kind),
            flags,
            stream: u32::from_be_bytes([s1 & 0x7f, s2, s3, s4]),
        }
    }

    /// Encodes the head.
    pub(in crate::http2) fn encode(self) -> [u8; HEAD] {
        let [_, l1, l2, l3] = self.length.to_be_bytes();
        let [s1, s2, s3, s4] = self.stream.to_be_bytes();
        [l1, l2, l3, self.kind.to_wire(), self.flags, s1, s2, s3, s4]
    }

    /// Returns whether all the bits of `flag` are set.
    pub(in crate::http2) fn has(self, flag: u8) -> bool {
        self.flags & flag == flag
    }

    /// Returns the stream of the frame, or an error if the frame is on stream 0.
    pub(in crate::http2) fn stream(self) -> Result<StreamId, Violation> {
        StreamId::new(self.stream).ok_or(Violation::NeedsStream(self.kind))
    }

    /// Checks that the frame is on stream 0, the connection.
    pub(in crate::http2) fn connection(self) -> Result<(), Violation> {
        if self.stream == 0 {
            Ok(())
        } else {
            Err(Violation::NeedsConnection(self.kind))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let head = Head::new(FrameType::Headers, flag::END_HEADERS, 0x0102_0304, 0x0506);
        assert_eq!(head.encode(), *b"\x00\x05\x06\x01\x04\x01\x02\x03\x04");
        assert_eq!(Head::parse(head.encode()), head);
    }
}

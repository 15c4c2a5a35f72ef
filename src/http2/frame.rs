//! The header that begins every frame (RFC 9113 §4.1), called head here; its flags, and the padding
//! of DATA and HEADERS.
//!
//! Stateless: each frame is checked by itself, regardless of earlier frames.

use super::error::Violation;
use super::frame_type::FrameType;
use super::stream_id::StreamId;

/// The length of a frame head in octets.
pub(super) const HEAD: usize = 9;

/// The largest payload that every endpoint accepts, and the largest that is accepted or sent here
/// (2^14 octets): the initial value of SETTINGS_MAX_FRAME_SIZE (RFC 9113 §6.5.2).
pub(super) const INITIAL_MAX_FRAME_SIZE: u32 = 16_384;

/// The flags, each with the frame types on which it is read or set here.
pub(super) mod flag {
    /// SETTINGS, PING: the frame is an acknowledgement.
    pub(in crate::http2) const ACK: u8 = 0x1;
    /// DATA, HEADERS: the sender ends its side of the stream.
    pub(in crate::http2) const END_STREAM: u8 = 0x1;
    /// HEADERS, CONTINUATION: the block is complete.
    pub(in crate::http2) const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS: the payload contains padding.
    pub(in crate::http2) const PADDED: u8 = 0x8;
    /// HEADERS: a priority precedes the fragment.
    pub(in crate::http2) const PRIORITY: u8 = 0x20;
}

/// A frame head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The length of the payload in octets.
    pub(super) length: u32,
    /// The type of the frame.
    pub(super) kind: FrameType,
    /// The flags, whose meaning depends on the type.
    pub(super) flags: u8,
    /// The stream, without the reserved bit; 0 is the connection.
    pub(super) stream: u32,
}

impl Head {
    /// Returns the head of a frame with a payload of `length` octets (fewer than 2^24; more than
    /// 16,384 are never sent).
    pub(super) fn new(kind: FrameType, flags: u8, stream: u32, length: usize) -> Self {
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
    pub(super) fn parse(octets: [u8; HEAD]) -> Self {
        let [l1, l2, l3, kind, flags, s1, s2, s3, s4] = octets;
        Self {
            length: u32::from_be_bytes([0, l1, l2, l3]),
            kind: FrameType(kind),
            flags,
            stream: u32::from_be_bytes([s1 & 0x7f, s2, s3, s4]),
        }
    }

    /// Encodes the head.
    pub(super) fn encode(self) -> [u8; HEAD] {
        let [_, l1, l2, l3] = self.length.to_be_bytes();
        let [s1, s2, s3, s4] = self.stream.to_be_bytes();
        [l1, l2, l3, self.kind.0, self.flags, s1, s2, s3, s4]
    }

    /// Returns whether all the bits of `flag` are set.
    pub(super) fn has_flag(self, flag: u8) -> bool {
        self.flags & flag == flag
    }

    /// Returns the stream of the frame, or an error if the frame is on stream 0.
    pub(super) fn stream(self) -> Result<StreamId, Violation> {
        StreamId::new(self.stream).ok_or(Violation::NeedsStream(self.kind))
    }

    /// Checks that the frame is on stream 0, the connection.
    pub(super) fn check_stream_zero(self) -> Result<(), Violation> {
        if self.stream == 0 {
            Ok(())
        } else {
            Err(Violation::NeedsConnection(self.kind))
        }
    }

    /// Returns the payload, or an error if its length is not that of the array.
    pub(super) fn exact_payload<const N: usize>(
        self,
        payload: &[u8],
    ) -> Result<[u8; N], Violation> {
        let octets = payload.try_into();
        octets.map_err(|_| Violation::FrameLength(self.kind))
    }

    /// Returns the payload without the padding that DATA and HEADERS may have (RFC 9113 §6.1).
    ///
    /// "If the length of the padding is the length of the frame payload or greater, the recipient
    /// MUST treat this as a connection error [...] of type PROTOCOL_ERROR."
    pub(super) fn unpadded(self, payload: &[u8]) -> Result<&[u8], Violation> {
        if !self.has_flag(flag::PADDED) {
            return Ok(payload);
        }
        let Some((&padding, rest)) = payload.split_first() else {
            return Err(Violation::FrameLength(self.kind));
        };
        let length = rest.len().checked_sub(usize::from(padding));
        Ok(&rest[..length.ok_or(Violation::Padding(self.kind))?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let head = Head::new(FrameType::HEADERS, flag::END_HEADERS, 0x0102_0304, 0x0506);
        assert_eq!(head.encode(), *b"\x00\x05\x06\x01\x04\x01\x02\x03\x04");
        assert_eq!(Head::parse(head.encode()), head);
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        let head = Head::parse(*b"\x00\x00\x02\xee\xff\x80\x00\x00\x07");
        assert_eq!((head.kind, head.stream), (FrameType(0xee), 7));
    }

    #[test]
    fn padding_may_fill_the_payload_and_not_exceed_it() {
        let unpadded = |payload: &'static [u8]| {
            Head::new(FrameType::DATA, flag::PADDED, 1, payload.len()).unpadded(payload)
        };
        assert_eq!(unpadded(b"\x02hi\0\0"), Ok(&b"hi"[..]));
        assert_eq!(unpadded(b"\x00hi"), Ok(&b"hi"[..]));
        assert_eq!(unpadded(b"\x02\0\0"), Ok(&b""[..]));
        let too_much = Violation::Padding(FrameType::DATA);
        assert_eq!(unpadded(b"\x03\0\0"), Err(too_much));
        let missing = Violation::FrameLength(FrameType::DATA);
        assert_eq!(unpadded(b""), Err(missing));
    }
}

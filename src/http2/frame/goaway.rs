//! GOAWAY (RFC 9113 §6.8).

use super::head::{HEAD, Head};
use crate::http2::error::{ErrorCode, Violation};
use crate::http2::frame_type::FrameType;

/// The announcement that a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct GoAway<'a> {
    /// The last stream that the sender has processed or will process.
    pub(in crate::http2) last_stream: u32,
    /// The reason.
    pub(in crate::http2) code: ErrorCode,
    /// Additional debug data.
    pub(in crate::http2) debug: &'a [u8],
}

impl<'a> GoAway<'a> {
    /// Parses the frame.
    pub(super) fn parse(head: Head, payload: &'a [u8]) -> Result<Self, Violation> {
        head.connection()?;
        let [s1, s2, s3, s4, c1, c2, c3, c4, debug @ ..] = payload else {
            return Err(Violation::FrameLength(head.kind));
        };
        Ok(Self {
            last_stream: u32::from_be_bytes([s1 & 0x7f, *s2, *s3, *s4]),
            code: ErrorCode(u32::from_be_bytes([*c1, *c2, *c3, *c4])),
            debug,
        })
    }

    /// Encodes a frame without debug data: the code is enough for the peer, and our log has the
    /// details.
    pub(in crate::http2) fn encode(last_stream: u32, code: ErrorCode) -> [u8; HEAD + 8] {
        let mut octets = [0; HEAD + 8];
        octets[..HEAD].copy_from_slice(&Head::new(FrameType::GoAway, 0, 0, 8).encode());
        octets[HEAD..HEAD + 4].copy_from_slice(&last_stream.to_be_bytes());
        octets[HEAD + 4..].copy_from_slice(&code.0.to_be_bytes());
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserved_bit_is_no_part_of_the_last_stream() {
        let payload = b"\x80\0\0\x05\0\0\0\x0btoo_many_pings";
        let read = GoAway::parse(Head::new(FrameType::GoAway, 0, 0, payload.len()), payload);
        assert_eq!(
            read,
            Ok(GoAway {
                last_stream: 5,
                code: ErrorCode::ENHANCE_YOUR_CALM,
                debug: b"too_many_pings",
            })
        );
        assert_eq!(
            GoAway::encode(5, ErrorCode::ENHANCE_YOUR_CALM)[HEAD..],
            *b"\0\0\0\x05\0\0\0\x0b"
        );
    }
}

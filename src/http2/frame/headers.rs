//! HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10).

use super::head::{Head, flag};
use super::padding;
use crate::http2::StreamId;
use crate::http2::error::Violation;
use crate::http2::frame_type::FrameType;

/// A header block, or its first fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct Headers<'a> {
    /// The stream.
    pub(in crate::http2) stream: StreamId,
    /// The fragment, without padding and priority.
    pub(in crate::http2) fragment: &'a [u8],
    /// Whether END_STREAM is set.
    pub(in crate::http2) end_stream: bool,
    /// Whether the block is complete.
    pub(in crate::http2) is_complete: bool,
}

impl<'a> Headers<'a> {
    /// Parses the frame: pad length, priority, fragment and padding, in this order.
    pub(super) fn parse(head: Head, payload: &'a [u8]) -> Result<Self, Violation> {
        let stream = head.stream()?;
        let unpadded = padding::strip(head, payload)?;
        let fragment = if head.has(flag::PRIORITY) {
            unpadded
                .get(PRIORITY..)
                .ok_or(Violation::FrameLength(head.kind))?
        } else {
            unpadded
        };
        Ok(Self {
            stream,
            fragment,
            end_stream: head.has(flag::END_STREAM),
            is_complete: head.has(flag::END_HEADERS),
        })
    }

    /// Returns the head of a HEADERS frame with a whole block of `length` octets.
    pub(in crate::http2) fn head(stream: StreamId, length: usize, end_stream: bool) -> Head {
        let end = if end_stream { flag::END_STREAM } else { 0 };
        Head::new(
            FrameType::Headers,
            flag::END_HEADERS | end,
            stream.get(),
            length,
        )
    }
}

/// A further fragment of a header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct Continuation<'a> {
    /// The stream.
    pub(in crate::http2) stream: StreamId,
    /// The fragment.
    pub(in crate::http2) fragment: &'a [u8],
    /// Whether the block is complete.
    pub(in crate::http2) is_complete: bool,
}

impl<'a> Continuation<'a> {
    /// Parses the frame.
    pub(super) fn parse(head: Head, payload: &'a [u8]) -> Result<Self, Violation> {
        Ok(Self {
            stream: head.stream()?,
            fragment: payload,
            is_complete: head.has(flag::END_HEADERS),
        })
    }
}

/// The length of a priority: a stream dependency of four octets and a weight of one.
const PRIORITY: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_and_priority_are_stripped_in_the_right_order() {
        let flags = flag::PADDED | flag::PRIORITY | flag::END_HEADERS;
        let payload = b"\x03\x80\0\0\x01\xffblock\0\0\0";
        let headers = Headers::parse(
            Head::new(FrameType::Headers, flags, 1, payload.len()),
            payload,
        )
        .expect("well formed");
        assert_eq!(headers.fragment, b"block");
        assert!(headers.is_complete && !headers.end_stream);
    }

    #[test]
    fn a_priority_that_does_not_fit_is_no_read_out_of_bounds() {
        for (flags, payload) in [
            (flag::PRIORITY, &b"\0\0\0\0"[..]),
            (flag::PRIORITY | flag::PADDED, &b"\x02\0\0\0\0\0\0"[..]),
        ] {
            assert_eq!(
                Headers::parse(
                    Head::new(FrameType::Headers, flags, 1, payload.len()),
                    payload
                ),
                Err(Violation::FrameLength(FrameType::Headers)),
            );
        }
    }
}

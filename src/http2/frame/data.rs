//! DATA (RFC 9113 §6.1).

use super::head::{Head, flag};
use super::padding;
use crate::http2::StreamId;
use crate::http2::error::Violation;
use crate::http2::frame_type::FrameType;

/// Part of the content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct Data<'a> {
    /// The stream.
    pub(in crate::http2) stream: StreamId,
    /// The content, without padding.
    pub(in crate::http2) content: &'a [u8],
    /// The offset of the content in the payload.
    pub(in crate::http2) offset: usize,
    /// The number of octets that the frame takes from both windows.
    ///
    /// "The entire DATA frame payload is included in flow control, including the Pad Length and
    /// Padding fields if present."
    pub(in crate::http2) cost: u32,
    /// Whether END_STREAM is set.
    pub(in crate::http2) end_stream: bool,
}

impl<'a> Data<'a> {
    /// Parses the frame.
    pub(super) fn parse(head: Head, payload: &'a [u8]) -> Result<Self, Violation> {
        Ok(Self {
            stream: head.stream()?,
            content: padding::strip(head, payload)?,
            offset: usize::from(head.has(flag::PADDED)),
            cost: head.length,
            end_stream: head.has(flag::END_STREAM),
        })
    }

    /// Returns the head of a DATA frame with `length` octets and no padding (C-core resets padded
    /// ones).
    pub(in crate::http2) fn head(stream: StreamId, length: usize, end_stream: bool) -> Head {
        let flags = if end_stream { flag::END_STREAM } else { 0 };
        Head::new(FrameType::Data, flags, stream.get(), length)
    }
}

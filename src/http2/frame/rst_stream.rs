//! RST_STREAM (RFC 9113 §6.4).

use super::head::{HEAD, Head};
use crate::http2::StreamId;
use crate::http2::error::{ErrorCode, Violation};
use crate::http2::frame_type::FrameType;

/// The abrupt end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct RstStream {
    /// The stream.
    pub(in crate::http2) stream: StreamId,
    /// The reason.
    pub(in crate::http2) code: ErrorCode,
}

impl RstStream {
    /// Parses the frame.
    ///
    /// "A RST_STREAM frame with a length other than 4 octets MUST be treated as a connection error
    /// of type FRAME_SIZE_ERROR."
    pub(super) fn parse(head: Head, payload: &[u8]) -> Result<Self, Violation> {
        let stream = head.stream()?;
        let code = payload
            .try_into()
            .map_err(|_| Violation::FrameLength(head.kind))?;
        Ok(Self {
            stream,
            code: ErrorCode(u32::from_be_bytes(code)),
        })
    }

    /// Encodes the frame.
    pub(in crate::http2) fn encode(self) -> [u8; HEAD + 4] {
        let mut octets = [0; HEAD + 4];
        octets[..HEAD]
            .copy_from_slice(&Head::new(FrameType::RstStream, 0, self.stream.get(), 4).encode());
        octets[HEAD..].copy_from_slice(&self.code.0.to_be_bytes());
        octets
    }
}

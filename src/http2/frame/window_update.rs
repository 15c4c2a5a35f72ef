//! WINDOW_UPDATE (RFC 9113 §6.9).

use super::head::{HEAD, Head};
use crate::http2::StreamId;
use crate::http2::error::Violation;
use crate::http2::frame_type::FrameType;

/// Permission to send more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct WindowUpdate {
    /// The stream, or `None` for the connection.
    pub(in crate::http2) stream: Option<StreamId>,
    /// The number of octets to add. 0 is a stream error, or a connection error on the connection.
    pub(in crate::http2) increment: u32,
}

impl WindowUpdate {
    /// Parses the frame.
    ///
    /// "A WINDOW_UPDATE frame with a length other than 4 octets MUST be treated as a connection
    /// error of type FRAME_SIZE_ERROR."
    pub(super) fn parse(head: Head, payload: &[u8]) -> Result<Self, Violation> {
        let [i1, i2, i3, i4] = payload
            .try_into()
            .map_err(|_| Violation::FrameLength(head.kind))?;
        Ok(Self {
            stream: StreamId::new(head.stream),
            increment: u32::from_be_bytes([i1 & 0x7f, i2, i3, i4]),
        })
    }

    /// Encodes the frame.
    pub(in crate::http2) fn encode(self) -> [u8; HEAD + 4] {
        let stream = self.stream.map_or(0, StreamId::get);
        let mut octets = [0; HEAD + 4];
        octets[..HEAD].copy_from_slice(&Head::new(FrameType::WindowUpdate, 0, stream, 4).encode());
        octets[HEAD..].copy_from_slice(&self.increment.to_be_bytes());
        octets
    }
}

//! PING (RFC 9113 §6.7).

use super::head::{HEAD, Head, flag};
use crate::http2::error::Violation;
use crate::http2::frame_type::FrameType;

/// A liveness check, or the answer to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct Ping {
    /// Whether the frame is an answer.
    pub(in crate::http2) ack: bool,
    /// Eight octets that only the sender interprets.
    pub(in crate::http2) opaque: [u8; 8],
}

impl Ping {
    /// Parses the frame.
    ///
    /// "Receipt of a PING frame with a length field value other than 8 MUST be treated as a
    /// connection error of type FRAME_SIZE_ERROR."
    pub(super) fn parse(head: Head, payload: &[u8]) -> Result<Self, Violation> {
        head.connection()?;
        let opaque = payload
            .try_into()
            .map_err(|_| Violation::FrameLength(head.kind))?;
        Ok(Self {
            ack: head.has(flag::ACK),
            opaque,
        })
    }

    /// Encodes the frame.
    pub(in crate::http2) fn encode(self) -> [u8; HEAD + 8] {
        let flags = if self.ack { flag::ACK } else { 0 };
        let mut octets = [0; HEAD + 8];
        octets[..HEAD].copy_from_slice(&Head::new(FrameType::Ping, flags, 0, 8).encode());
        octets[HEAD..].copy_from_slice(&self.opaque);
        octets
    }
}

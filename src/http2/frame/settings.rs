//! SETTINGS (RFC 9113 §6.5): the frame. [`Settings`] interprets the values.
//!
//! [`Settings`]: crate::http2::Settings

use super::head::{HEAD, Head, flag};
use crate::http2::error::Violation;
use crate::http2::frame_type::FrameType;

/// The identifier of a setting, as defined in RFC 9113 §6.5.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) struct SettingId(pub(in crate::http2) u16);

impl SettingId {
    pub(in crate::http2) const HEADER_TABLE_SIZE: Self = Self(0x1);
    pub(in crate::http2) const ENABLE_PUSH: Self = Self(0x2);
    pub(in crate::http2) const MAX_CONCURRENT_STREAMS: Self = Self(0x3);
    pub(in crate::http2) const INITIAL_WINDOW_SIZE: Self = Self(0x4);
    pub(in crate::http2) const MAX_FRAME_SIZE: Self = Self(0x5);
    pub(in crate::http2) const MAX_HEADER_LIST_SIZE: Self = Self(0x6);
}

/// A SETTINGS frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http2) enum SettingsFrame<'a> {
    /// An acknowledgement: the peer has applied our settings.
    Ack,
    /// Settings of the peer.
    Values(Entries<'a>),
}

impl<'a> SettingsFrame<'a> {
    /// Parses the frame.
    ///
    /// "Receipt of a SETTINGS frame with the ACK flag set and a length field value other than 0
    /// MUST be treated as a connection error of type FRAME_SIZE_ERROR. [...] A SETTINGS frame with
    /// a length other than a multiple of 6 octets MUST be treated as a connection error of type
    /// FRAME_SIZE_ERROR."
    pub(super) fn parse(head: Head, payload: &'a [u8]) -> Result<Self, Violation> {
        head.connection()?;
        match (head.has(flag::ACK), payload.len()) {
            (true, 0) => Ok(Self::Ack),
            (false, length) if length % ENTRY == 0 => Ok(Self::Values(Entries(payload))),
            _ => Err(Violation::FrameLength(head.kind)),
        }
    }

    /// Encodes the acknowledgement that the peer's settings are applied.
    pub(in crate::http2) fn ack() -> [u8; HEAD] {
        Head::new(FrameType::Settings, flag::ACK, 0, 0).encode()
    }

    /// Encodes a frame with these values.
    pub(in crate::http2) fn encode(values: &[(SettingId, u32)], out: &mut Vec<u8>) {
        let length = values.len() * ENTRY;
        out.extend_from_slice(&Head::new(FrameType::Settings, 0, 0, length).encode());
        for (id, value) in values {
            let ([i1, i2], [v1, v2, v3, v4]) = (id.0.to_be_bytes(), value.to_be_bytes());
            out.extend_from_slice(&[i1, i2, v1, v2, v3, v4]);
        }
    }
}

/// The values of a SETTINGS frame, in their order on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http2) struct Entries<'a>(&'a [u8]);

impl Entries<'_> {
    /// Returns the number of values.
    pub(in crate::http2) fn count(&self) -> usize {
        self.0.len() / ENTRY
    }

    /// Returns the values.
    pub(in crate::http2) fn iter(&self) -> impl Iterator<Item = (SettingId, u32)> {
        self.0.chunks_exact(ENTRY).map(|entry| {
            let id = u16::from_be_bytes([entry[0], entry[1]]);
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            (SettingId(id), value)
        })
    }
}

/// The length of one entry: an identifier of two octets and a value of four.
const ENTRY: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_has_no_payload() {
        let head = Head::new(FrameType::Settings, flag::ACK, 0, 6);
        assert_eq!(
            SettingsFrame::parse(head, &[0; 6]),
            Err(Violation::FrameLength(FrameType::Settings))
        );
    }

    #[test]
    fn values_are_read_in_the_order_they_were_written() {
        let values = [
            (SettingId::ENABLE_PUSH, 0),
            (SettingId(0xfe03), 1),
            (SettingId::ENABLE_PUSH, 1),
        ];
        let mut out = Vec::new();
        SettingsFrame::encode(&values, &mut out);
        let head = Head::new(FrameType::Settings, 0, 0, out.len() - HEAD);
        let Ok(SettingsFrame::Values(entries)) = SettingsFrame::parse(head, &out[HEAD..]) else {
            panic!("well formed");
        };
        assert_eq!(entries.count(), 3);
        assert!(entries.iter().eq(values));
    }
}

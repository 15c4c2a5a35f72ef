//! HTTP/2 frames made by hand, for tests that act as a peer without an HTTP/2 implementation.
//!
//! Nothing is validated here, so tests can break rules.

/// The client connection preface (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const CONTINUATION: u8 = 0x9;

/// The flag of SETTINGS frames.
pub(crate) const ACK: u8 = 0x1;
/// The flag of HEADERS and DATA frames.
pub(crate) const END_STREAM: u8 = 0x1;
/// The flag of HEADERS and CONTINUATION frames.
pub(crate) const END_HEADERS: u8 = 0x4;

/// A frame as it is sent (RFC 9113 §4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            flags,
            stream,
            payload: payload.into(),
        }
    }

    /// Returns a SETTINGS frame with these identifiers and values.
    pub(crate) fn settings(entries: &[(u16, u32)]) -> Self {
        let entry =
            |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<u8> = entries.iter().flat_map(entry).collect();
        Self::new(SETTINGS, 0, 0, payload)
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).expect("a test's frame is short");
        let mut octets = length.to_be_bytes()[1..].to_vec();
        octets.extend([self.kind, self.flags]);
        octets.extend(self.stream.to_be_bytes());
        octets.extend(&self.payload);
        octets
    }

    /// Removes and returns the first frame in `octets`, or returns `None` if it is incomplete.
    pub(crate) fn take(octets: &mut Vec<u8>) -> Option<Self> {
        let head: [u8; 9] = octets.get(..9)?.try_into().expect("nine octets");
        let length =
            (usize::from(head[0]) << 16) | (usize::from(head[1]) << 8) | usize::from(head[2]);
        let payload = octets.get(9..9 + length)?.to_vec();
        octets.drain(..9 + length);
        Some(Self {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff,
            payload,
        })
    }
}

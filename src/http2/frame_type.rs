//! The types of frames (RFC 9113 §6).

use std::fmt;

/// The type of a frame; types that an extension or a future version defines are ignored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FrameType(pub u8);

#[allow(missing_docs)] // RFC 9113 §6 has a section on each.
impl FrameType {
    pub const DATA: Self = Self(0x0);
    pub const HEADERS: Self = Self(0x1);
    pub const PRIORITY: Self = Self(0x2);
    pub const RST_STREAM: Self = Self(0x3);
    pub const SETTINGS: Self = Self(0x4);
    pub const PUSH_PROMISE: Self = Self(0x5);
    pub const PING: Self = Self(0x6);
    pub const GOAWAY: Self = Self(0x7);
    pub const WINDOW_UPDATE: Self = Self(0x8);
    pub const CONTINUATION: Self = Self(0x9);
}

/// The names of the types, indexed by number.
const NAMES: [&str; 10] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
];

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "frame type {:#x}", self.0),
        }
    }
}

impl fmt::Debug for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_type_has_the_name_of_its_number() {
        assert_eq!(FrameType::DATA.to_string(), "DATA");
        assert_eq!(FrameType::CONTINUATION.to_string(), "CONTINUATION");
        assert_eq!(FrameType(0xee).to_string(), "frame type 0xee");
    }
}

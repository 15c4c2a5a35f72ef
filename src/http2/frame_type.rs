//! The types of frames (RFC 9113 §6). Pure.

use std::fmt;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // RFC 9113 §6 has a section on each.
pub enum FrameType {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// A type that an extension or a future version defines.
    Unknown(u8),
}

/// The types in the order of their numbers on the wire, with their names in the RFC.
const FRAME_TYPES: [(FrameType, &str); 10] = [
    (FrameType::Data, "DATA"),
    (FrameType::Headers, "HEADERS"),
    (FrameType::Priority, "PRIORITY"),
    (FrameType::RstStream, "RST_STREAM"),
    (FrameType::Settings, "SETTINGS"),
    (FrameType::PushPromise, "PUSH_PROMISE"),
    (FrameType::Ping, "PING"),
    (FrameType::GoAway, "GOAWAY"),
    (FrameType::WindowUpdate, "WINDOW_UPDATE"),
    (FrameType::Continuation, "CONTINUATION"),
];

impl FrameType {
    /// Returns the type with this number.
    pub(super) fn from_wire(number: u8) -> Self {
        FRAME_TYPES
            .get(usize::from(number))
            .map_or(Self::Unknown(number), |&(kind, _)| kind)
    }

    /// Returns the number of the type.
    pub(super) fn to_wire(self) -> u8 {
        match self {
            Self::Data => 0x0,
            Self::Headers => 0x1,
            Self::Priority => 0x2,
            Self::RstStream => 0x3,
            Self::Settings => 0x4,
            Self::PushPromise => 0x5,
            Self::Ping => 0x6,
            Self::GoAway => 0x7,
            Self::WindowUpdate => 0x8,
            Self::Continuation => 0x9,
            Self::Unknown(number) => number,
        }
    }
}

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match FRAME_TYPES.get(usize::from(self.to_wire())) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "frame type {:#x}", self.to_wire()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_type_has_the_number_by_which_it_is_found() {
        for number in 0..=u8::MAX {
            assert_eq!(FrameType::from_wire(number).to_wire(), number);
        }
    }
}

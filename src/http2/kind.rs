//! The types of frames (RFC 9113 §6). Pure.

use std::fmt;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // RFC 9113 §6 has a section on each.
pub enum Kind {
    Data,
    Headers,
    Priority,
    Reset,
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
const KINDS: [(Kind, &str); 10] = [
    (Kind::Data, "DATA"),
    (Kind::Headers, "HEADERS"),
    (Kind::Priority, "PRIORITY"),
    (Kind::Reset, "RST_STREAM"),
    (Kind::Settings, "SETTINGS"),
    (Kind::PushPromise, "PUSH_PROMISE"),
    (Kind::Ping, "PING"),
    (Kind::GoAway, "GOAWAY"),
    (Kind::WindowUpdate, "WINDOW_UPDATE"),
    (Kind::Continuation, "CONTINUATION"),
];

impl Kind {
    /// Returns the type with this number.
    pub(super) fn from_wire(number: u8) -> Self {
        KINDS
            .get(usize::from(number))
            .map_or(Self::Unknown(number), |&(kind, _)| kind)
    }

    /// Returns the number of the type.
    pub(super) fn to_wire(self) -> u8 {
        match self {
            Self::Data => 0x0,
            Self::Headers => 0x1,
            Self::Priority => 0x2,
            Self::Reset => 0x3,
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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KINDS.get(usize::from(self.to_wire())) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "frame type {:#x}", self.to_wire()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_number_it_is_found_by() {
        for number in 0..=u8::MAX {
            assert_eq!(Kind::from_wire(number).to_wire(), number);
        }
    }
}

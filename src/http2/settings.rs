//! The settings of both sides of a connection (RFC 9113 §6.5.2).
//!
//! Those of this end are constants, which depend on its role; the peer's begin with the initial
//! values below and change with every SETTINGS frame.

use super::error::Violation;
use super::flow::MAX_WINDOW;
use super::frame::INITIAL_MAX_FRAME_SIZE;
use crate::config;

/// An end of a connection.
///
/// HTTP/2 is the same at both ends but for a few rules: which end sends the 24-octet preface, which
/// end opens streams, what a header block must contain, and what is announced in SETTINGS.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    /// The end that opens streams and sends requests.
    Client,
    /// The end that accepts streams and sends responses.
    Server,
}

/// The settings of a client: no pushes, and no larger header lists than are kept. All other
/// settings keep their initial values, which every server supports.
pub(super) const CLIENT_SETTINGS: [(SettingId, u32); 2] =
    [(SettingId::ENABLE_PUSH, 0), MAX_HEADER_LIST];

/// The settings of a server: no more concurrent streams than it handles, and no larger header lists
/// than are kept.
pub(super) const SERVER_SETTINGS: [(SettingId, u32); 2] = [
    (SettingId::MAX_CONCURRENT_STREAMS, config::MAX_STREAMS),
    MAX_HEADER_LIST,
];

/// The limit on header lists: no more than is kept.
#[allow(clippy::cast_possible_truncation)] // 64 KiB.
const MAX_HEADER_LIST: (SettingId, u32) = (
    SettingId::MAX_HEADER_LIST_SIZE,
    config::MAX_HEADER_LIST as u32,
);

/// The identifier of a setting, as defined in RFC 9113 §6.5.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SettingId(pub(super) u16);

impl SettingId {
    pub(super) const HEADER_TABLE_SIZE: Self = Self(0x1);
    pub(super) const ENABLE_PUSH: Self = Self(0x2);
    pub(super) const MAX_CONCURRENT_STREAMS: Self = Self(0x3);
    pub(super) const INITIAL_WINDOW_SIZE: Self = Self(0x4);
    pub(super) const MAX_FRAME_SIZE: Self = Self(0x5);
    pub(super) const MAX_HEADER_LIST_SIZE: Self = Self(0x6);
}

/// Returns the values in the payload of a SETTINGS frame, in order.
pub(super) fn decode(payload: &[u8]) -> impl ExactSizeIterator<Item = (SettingId, u32)> {
    payload.chunks_exact(ENTRY).map(|entry| {
        let id = u16::from_be_bytes([entry[0], entry[1]]);
        let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
        (SettingId(id), value)
    })
}

/// The length of one setting in octets: two for the identifier and four for the value.
pub(super) const ENTRY: usize = 6;

/// The settings of one side that are in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The largest dynamic table that this side keeps for header blocks it receives; the blocks
    /// that [`Encoder`](crate::hpack::Encoder) writes do not use the table.
    pub header_table_size: u32,
    /// Whether this side accepts server pushes.
    pub enable_push: bool,
    /// The maximum number of streams that the other side may have open; `None` means no limit.
    pub max_concurrent_streams: Option<u32>,
    /// The window of a new stream: how much data this side accepts on it at first.
    pub initial_window_size: u32,
    /// The largest frame payload that this side accepts.
    pub max_frame_size: u32,
    /// The largest header list that this side accepts; `None` means that no limit was advertised.
    pub max_header_list_size: Option<u32>,
}

impl Default for Settings {
    /// Returns the initial values, in effect until the first SETTINGS frame.
    fn default() -> Self {
        Self {
            header_table_size: 4096,
            enable_push: true,
            max_concurrent_streams: None,
            initial_window_size: INITIAL_WINDOW,
            max_frame_size: INITIAL_MAX_FRAME_SIZE,
            max_header_list_size: None,
        }
    }
}

impl Settings {
    /// Applies one value of the peer's SETTINGS frame; `role` is that of this end, not the peer's.
    pub(super) fn apply(&mut self, id: SettingId, value: u32, role: Role) -> Result<(), Violation> {
        match id {
            SettingId::HEADER_TABLE_SIZE => self.header_table_size = value,
            // "A client MUST treat receipt of a SETTINGS frame with SETTINGS_ENABLE_PUSH set to 1
            // as a connection error [...] of type PROTOCOL_ERROR." A value other than 0 or 1 is an
            // error from either side.
            SettingId::ENABLE_PUSH if value == 0 => self.enable_push = false,
            SettingId::ENABLE_PUSH if value == 1 && matches!(role, Role::Server) => {
                self.enable_push = true;
            }
            SettingId::MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = Some(value),
            // "Values above the maximum flow-control window size of 2^31-1 MUST be treated as a
            // connection error [...] of type FLOW_CONTROL_ERROR."
            SettingId::INITIAL_WINDOW_SIZE if value > MAX_WINDOW => {
                return Err(Violation::InitialWindow);
            }
            SettingId::INITIAL_WINDOW_SIZE => self.initial_window_size = value,
            // "The value advertised by an endpoint MUST be between this initial value [2^14] and
            // the maximum allowed frame size (2^24-1 or 16,777,215 octets), inclusive."
            SettingId::MAX_FRAME_SIZE if (INITIAL_MAX_FRAME_SIZE..=16_777_215).contains(&value) => {
                self.max_frame_size = value;
            }
            SettingId::MAX_HEADER_LIST_SIZE => self.max_header_list_size = Some(value),
            SettingId::ENABLE_PUSH | SettingId::MAX_FRAME_SIZE => {
                return Err(Violation::SettingValue { id: id.0, value });
            }
            // "An endpoint that receives a SETTINGS frame with any unknown or unsupported
            // identifier MUST ignore that setting."
            SettingId(_) => {}
        }
        Ok(())
    }
}

/// The initial window of a stream and of the connection (RFC 9113 §6.9.2).
pub(super) const INITIAL_WINDOW: u32 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_its_range_is_a_connection_error() {
        let out_of_range = |id: SettingId, value| Err(Violation::SettingValue { id: id.0, value });
        let cases = [
            (SettingId::ENABLE_PUSH, 0, Ok(())),
            (
                SettingId::ENABLE_PUSH,
                1,
                out_of_range(SettingId::ENABLE_PUSH, 1),
            ),
            (
                SettingId::ENABLE_PUSH,
                2,
                out_of_range(SettingId::ENABLE_PUSH, 2),
            ),
            (SettingId::INITIAL_WINDOW_SIZE, 0x7fff_ffff, Ok(())),
            (
                SettingId::INITIAL_WINDOW_SIZE,
                0x8000_0000,
                Err(Violation::InitialWindow),
            ),
            (
                SettingId::MAX_FRAME_SIZE,
                16_383,
                out_of_range(SettingId::MAX_FRAME_SIZE, 16_383),
            ),
            (SettingId::MAX_FRAME_SIZE, 16_384, Ok(())),
            (SettingId::MAX_FRAME_SIZE, 16_777_215, Ok(())),
            (
                SettingId::MAX_FRAME_SIZE,
                16_777_216,
                out_of_range(SettingId::MAX_FRAME_SIZE, 16_777_216),
            ),
            (SettingId::HEADER_TABLE_SIZE, u32::MAX, Ok(())),
            (SettingId::MAX_CONCURRENT_STREAMS, 0, Ok(())),
            (SettingId::MAX_HEADER_LIST_SIZE, 0, Ok(())),
        ];
        for (id, value, expected) in cases {
            assert_eq!(
                Settings::default().apply(id, value, Role::Client),
                expected,
                "{id:?} {value}"
            );
        }
    }

    #[test]
    fn values_are_read_in_their_order() {
        let values = [
            (SettingId::ENABLE_PUSH, 0),
            (SettingId(0xfe03), 1),
            (SettingId::ENABLE_PUSH, 1),
        ];
        let payload = b"\0\x02\0\0\0\0\xfe\x03\0\0\0\x01\0\x02\0\0\0\x01";
        assert!(decode(payload).eq(values));
    }

    #[test]
    fn a_client_may_accept_or_refuse_pushes() {
        let apply = |value| Settings::default().apply(SettingId::ENABLE_PUSH, value, Role::Server);
        assert_eq!((apply(0), apply(1)), (Ok(()), Ok(())));
        assert!(apply(2).is_err());
    }

    #[test]
    fn an_unknown_setting_is_ignored() {
        let mut settings = Settings::default();
        let unknown = settings.apply(SettingId(0xfe03), u32::MAX, Role::Client);
        assert_eq!(unknown, Ok(()));
        assert_eq!(settings, Settings::default());
    }
}

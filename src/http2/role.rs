//! The role of this end of a connection, and what depends on it.
//!
//! Pure. HTTP/2 is the same at both ends but for a few rules: which end sends the 24-octet preface,
//! which end opens streams and with which numbers, and what a header block must contain. The
//! differences in the preface, the stream numbers and the settings to send are defined here.

use super::frame::SettingId;
use super::preface::{self, CLIENT_PREFACE, Detected};
use crate::config;

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The end that opens streams and sends requests.
    Client,
    /// The end that accepts streams and sends responses.
    Server,
}

impl Role {
    /// Returns whether this end opens the streams with this number.
    ///
    /// RFC 9113 §5.1.1: "Streams initiated by a client MUST use odd-numbered stream identifiers;
    /// those initiated by the server MUST use even-numbered stream identifiers."
    pub(super) fn opens(self, stream: u32) -> bool {
        let is_odd = stream % 2 == 1;
        is_odd == (self == Self::Client)
    }

    /// Returns what this end sends before its first frame (RFC 9113 §3.4).
    pub(super) fn preface(self) -> &'static [u8] {
        match self {
            Self::Client => CLIENT_PREFACE,
            Self::Server => b"",
        }
    }

    /// Returns what the peer must send before its first frame.
    pub(super) fn peer_preface(self) -> &'static [u8] {
        match self {
            Self::Client => b"",
            Self::Server => CLIENT_PREFACE,
        }
    }

    /// Detects the protocol from the first octets of the peer; `ended` if the input has ended.
    pub(super) fn detect(self, octets: &[u8], ended: bool) -> Detected {
        match self {
            Self::Client => preface::detect_server(octets, ended),
            Self::Server => preface::detect_client(octets, ended),
        }
    }

    /// Returns the settings that this end sends.
    pub(super) fn settings(self) -> &'static [(SettingId, u32)] {
        match self {
            Self::Client => &CLIENT_SETTINGS,
            Self::Server => &SERVER_SETTINGS,
        }
    }
}

/// The settings of a client: no pushes, and no larger header lists than are kept. All other
/// settings keep their initial values, which every server supports best.
const CLIENT_SETTINGS: [(SettingId, u32); 2] = [(SettingId::ENABLE_PUSH, 0), MAX_HEADER_LIST];

/// The settings of a server: no more concurrent streams than it handles, and no larger header lists
/// than are kept.
const SERVER_SETTINGS: [(SettingId, u32); 2] = [
    (SettingId::MAX_CONCURRENT_STREAMS, config::MAX_STREAMS),
    MAX_HEADER_LIST,
];

/// The limit on header lists: no more than is kept.
#[allow(clippy::cast_possible_truncation)] // 64 KiB.
const MAX_HEADER_LIST: (SettingId, u32) = (
    SettingId::MAX_HEADER_LIST_SIZE,
    config::MAX_HEADER_LIST as u32,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_opens_odd_streams_and_a_server_even_ones() {
        assert!(Role::Client.opens(1) && !Role::Client.opens(2));
        assert!(Role::Server.opens(2) && !Role::Server.opens(1));
    }
}

//! Which end of a connection we are, and what follows from it.
//!
//! Pure. HTTP/2 is the same at both ends but for a few rules: who speaks first, who opens streams
//! and with which numbers, and what a header block has to say. Everything that asks for the role
//! asks here.

use super::frame::Id;
use super::preface::{self, CLIENT_PREFACE, Verdict};
use crate::config;

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Opens streams, sends requests.
    Client,
    /// Takes streams, sends responses.
    Server,
}

impl Role {
    /// Whether streams with this number are ours to open.
    ///
    /// RFC 9113 §5.1.1: "Streams initiated by a client MUST use odd-numbered stream identifiers;
    /// those initiated by the server MUST use even-numbered stream identifiers."
    pub(super) fn opens(self, stream: u32) -> bool {
        let is_odd = stream % 2 == 1;
        is_odd == (self == Self::Client)
    }

    /// What goes out before the first frame (RFC 9113 §3.4).
    pub(super) fn preface(self) -> &'static [u8] {
        match self {
            Self::Client => CLIENT_PREFACE,
            Self::Server => b"",
        }
    }

    /// What has to come in before the first frame.
    pub(super) fn peer_preface(self) -> &'static [u8] {
        match self {
            Self::Client => b"",
            Self::Server => CLIENT_PREFACE,
        }
    }

    /// Judges the first octets that came in; `ended` when no more will.
    pub(super) fn judge(self, octets: &[u8], ended: bool) -> Verdict {
        match self {
            Self::Client => preface::judge_server(octets, ended),
            Self::Server => preface::judge_client(octets, ended),
        }
    }

    /// What we want of the peer.
    pub(super) fn settings(self) -> &'static [(Id, u32)] {
        match self {
            Self::Client => &CLIENT_SETTINGS,
            Self::Server => &SERVER_SETTINGS,
        }
    }
}

/// What we want of a server: no pushes, and no more headers than we would keep. Everything else
/// stays as the protocol has it initially, which is what every server knows best.
const CLIENT_SETTINGS: [(Id, u32); 2] = [(Id::ENABLE_PUSH, 0), MAX_HEADER_LIST];

/// What we want of a client: no more streams at a time than we work on, and no more headers than
/// we would keep.
const SERVER_SETTINGS: [(Id, u32); 2] = [
    (Id::MAX_CONCURRENT_STREAMS, config::MAX_STREAMS),
    MAX_HEADER_LIST,
];

/// No more headers than we would keep.
#[allow(clippy::cast_possible_truncation)] // 64 KiB.
const MAX_HEADER_LIST: (Id, u32) = (Id::MAX_HEADER_LIST_SIZE, config::MAX_HEADER_LIST as u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_opens_odd_streams_and_a_server_even_ones() {
        assert!(Role::Client.opens(1) && !Role::Client.opens(2));
        assert!(Role::Server.opens(2) && !Role::Server.opens(1));
    }
}

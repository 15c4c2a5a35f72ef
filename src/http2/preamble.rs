//! What a peer that does not speak HTTP/2 sends instead, so that errors can name it.
//!
//! Pure.

use std::fmt;

use crate::escape;

/// What came instead of HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preamble {
    /// Nothing: the peer closed the connection.
    Nothing,
    /// An answer in HTTP/1, with its status where that could be read.
    Http1(Option<u16>),
    /// A request in HTTP/1.
    Http1Request,
    /// TLS.
    Tls,
    /// Something else; its first octets, as far as they had come when they were looked at.
    Other(Vec<u8>),
}

impl fmt::Display for Preamble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("it closed the connection without a word"),
            Self::Http1(Some(status)) => write!(f, "it answers in HTTP/1, status {status}"),
            Self::Http1(None) => f.write_str("it answers in HTTP/1"),
            Self::Http1Request => f.write_str("it asks in HTTP/1"),
            Self::Tls => f.write_str("it speaks TLS"),
            Self::Other(octets) => write!(f, "it says {:?}", escape::bytes(octets)),
        }
    }
}

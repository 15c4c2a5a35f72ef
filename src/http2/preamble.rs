//! What a peer sends instead of HTTP/2, so that errors can name the protocol.
//!
//! Pure.

use std::fmt;

use crate::escape;

/// The octets received instead of HTTP/2, by protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preamble {
    /// Nothing: the peer closed the connection.
    Nothing,
    /// An HTTP/1 response, with its status if that could be parsed.
    Http1(Option<u16>),
    /// An HTTP/1 request.
    Http1Request,
    /// TLS.
    Tls,
    /// Something else: the first octets that had been received when they were judged.
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

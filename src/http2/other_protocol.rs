//! What a peer sends instead of HTTP/2, so that errors can name the protocol.

use std::fmt;

use crate::escape;

/// The octets received instead of HTTP/2, by protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherProtocol {
    /// No octets: the peer closed the connection.
    Nothing,
    /// An HTTP/1 response, with its status if that could be parsed.
    Http1(Option<u16>),
    /// An HTTP/1 request.
    Http1Request,
    /// TLS.
    Tls,
    /// Something else: the first octets that had been received when the protocol was detected.
    Other(Vec<u8>),
}

impl fmt::Display for OtherProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("connection closed before any data was received"),
            Self::Http1(Some(status)) => {
                write!(f, "it sent an HTTP/1 response http_status={status}")
            }
            Self::Http1(None) => f.write_str("it sent an HTTP/1 response"),
            Self::Http1Request => f.write_str("it sent an HTTP/1 request"),
            Self::Tls => f.write_str("it sent a TLS record"),
            Self::Other(octets) => {
                write!(f, "unknown protocol received={:?}", escape::bytes(octets))
            }
        }
    }
}

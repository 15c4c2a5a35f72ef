//! What a peer sends instead of HTTP/2, so that errors can name the protocol.

use crate::escape;

/// The octets received instead of HTTP/2, by protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OtherProtocol {
    /// No octets: the peer closed the connection.
    #[error("connection closed before any data was received")]
    Nothing,
    /// An HTTP/1 response, with its status if that could be parsed.
    #[error(
        "it sent an HTTP/1 response{}",
        .0.map_or_else(String::new, |status| format!(" http_status={status}"))
    )]
    Http1(Option<u16>),
    /// An HTTP/1 request.
    #[error("it sent an HTTP/1 request")]
    Http1Request,
    /// TLS.
    #[error("it sent a TLS record")]
    Tls,
    /// Something else: the first octets that had been received when the protocol was detected.
    #[error("unknown protocol received={:?}", escape::bytes(.0))]
    Other(Vec<u8>),
}

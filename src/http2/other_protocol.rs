//! The protocols that a peer may speak instead of HTTP/2, so that errors can name them.

use crate::escape;

/// What was received instead of HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OtherProtocol {
    /// No octets: the peer closed the connection.
    #[error("the peer closed the connection before it sent any data")]
    Nothing,
    /// An HTTP/1 response, with its status if that could be parsed.
    #[error(
        "the peer does not speak HTTP/2: it sent an HTTP/1 response{}",
        .0.map_or_else(String::new, |status| format!(" http_status={status}"))
    )]
    Http1(Option<u16>),
    /// An HTTP/1 request.
    #[error("the peer does not speak HTTP/2: it sent an HTTP/1 request")]
    Http1Request,
    /// TLS.
    #[error("the peer does not speak HTTP/2: it sent a TLS record")]
    Tls,
    /// Something else: the first octets that had been received when the protocol was detected.
    #[error("the peer does not speak HTTP/2: unknown protocol received={:?}", escape::bytes(.0))]
    Other(Vec<u8>),
}

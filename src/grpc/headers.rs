//! The headers that gRPC puts in front of its messages, on either side.
//!
//! Pure.

use super::error::NotGrpc;
use super::timeout::Timeout;
use crate::http2::{Encoded, Encoder, Fields};

/// Writes the headers of a call of the method at `path`, with as much time as there is, if it is
/// limited: as every gRPC server likes them best.
///
/// An `:authority` that is empty or a path is refused by grpc-js and tonic, and none at all by
/// C-core; a `:scheme` other than `http` by C-core.
pub(super) fn write_request(path: &[u8], timeout: Option<&Timeout>, block: &mut Encoder<'_>) {
    block
        .encoded(&METHOD_AND_SCHEME)
        .field(":path", path)
        .encoded(&AUTHORITY);
    if let Some(timeout) = timeout {
        block.field("grpc-timeout", timeout.as_bytes());
    }
    block.encoded(&REGULAR);
}

/// Whether an answer's headers are those of a gRPC answer.
pub(super) fn check_answer(status: u16, fields: &Fields) -> Result<(), NotGrpc> {
    if status != 200 {
        return Err(NotGrpc::HttpStatus(status));
    }
    let content_type = fields.get(b"content-type").unwrap_or_default();
    if is_grpc(content_type) {
        return Ok(());
    }
    let kept = content_type.len().min(KEPT_CONTENT_TYPE);
    Err(NotGrpc::ContentType(content_type[..kept].to_vec()))
}

/// Whether a content type is gRPC's: "application/grpc", alone, with a "+" and the message's
/// encoding, or with parameters.
pub(super) fn is_grpc(content_type: &[u8]) -> bool {
    let rest = content_type.strip_prefix(CONTENT_TYPE);
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// What gRPC's requests and answers are made of.
pub(super) const CONTENT_TYPE: &[u8] = b"application/grpc";

/// What is in front of a request's path.
static METHOD_AND_SCHEME: Encoded = Encoded::new(&[(":method", b"POST"), (":scheme", b"http")]);

/// What follows it.
static AUTHORITY: Encoded = Encoded::new(&[(":authority", b"localhost")]);

/// What follows the time that there is.
static REGULAR: Encoded = Encoded::new(&[
    ("te", b"trailers"),
    ("content-type", CONTENT_TYPE),
    ("user-agent", USER_AGENT.as_bytes()),
]);

/// How we call ourselves.
const USER_AGENT: &str = concat!("plugind/", env!("CARGO_PKG_VERSION"));

/// How much is kept of another content type (octets).
const KEPT_CONTENT_TYPE: usize = 64;

//! The headers of a gRPC request, as the client sends them, and the checks of received headers.

use std::time::Duration;

use super::error::NotGrpc;
use super::timeout::Timeout;
use crate::http2::{Encoded, Encoder, Fields};

/// Writes the headers of a call of the method at `path`, with `timeout` if the time is limited, in
/// the form that all gRPC servers accept.
///
/// grpc-js and tonic refuse an `:authority` that is empty or a path; C-core and grpc-js refuse a
/// request without `:authority`. C-core refuses a `:scheme` of `unix`.
pub(super) fn write_request(path: &[u8], timeout: Option<Duration>, block: &mut Encoder<'_>) {
    block.push_encoded(&PSEUDO_HEADERS).field(":path", path);
    if let Some(timeout) = timeout {
        block.field("grpc-timeout", Timeout::at_least(timeout).as_bytes());
    }
    block.push_encoded(&REGULAR);
}

/// Checks that the headers of a response are those of gRPC.
pub(super) fn check_response(status: u16, fields: &Fields) -> Result<(), NotGrpc> {
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

/// Returns whether a content type is gRPC: "application/grpc" alone, with a "+" and the encoding of
/// the messages, or with parameters.
pub(super) fn is_grpc(content_type: &[u8]) -> bool {
    matches!(
        content_type.strip_prefix(CONTENT_TYPE),
        Some([] | [b'+' | b';', ..])
    )
}

/// The content type of gRPC requests and responses.
pub(super) const CONTENT_TYPE: &[u8] = b"application/grpc";

/// The fields before `:path` in a request.
static PSEUDO_HEADERS: Encoded = Encoded::new(&[
    (":method", b"POST"),
    (":scheme", b"http"),
    (":authority", b"localhost"),
]);

/// The fields after `grpc-timeout`.
static REGULAR: Encoded = Encoded::new(&[
    ("te", b"trailers"),
    ("content-type", CONTENT_TYPE),
    ("user-agent", USER_AGENT.as_bytes()),
]);

/// The name and version of this client.
const USER_AGENT: &str = concat!("plugind/", env!("CARGO_PKG_VERSION"));

/// The maximum number of octets that are kept of a content type that is not gRPC.
const KEPT_CONTENT_TYPE: usize = 64;

//! The headers that gRPC puts in front of its messages, on either side.
//!
//! Pure.

use super::error::NotGrpc;
use super::timeout::Timeout;
use crate::http2::Fields;

/// The headers of a request, as every gRPC server likes them best.
///
/// An `:authority` that is empty or a path is refused by grpc-js and tonic, and none at all by
/// C-core; a `:scheme` other than `http` by C-core.
#[derive(Debug)]
pub(super) struct RequestHeaders<'a> {
    fields: [(&'static str, &'a [u8]); 8],
    count: usize,
}

impl<'a> RequestHeaders<'a> {
    /// The headers of a call of the method at `path`, with as much time as there is, if it is
    /// limited.
    pub(super) fn new(path: &'a [u8], timeout: Option<&'a Timeout>) -> Self {
        let mut fields: [(&str, &[u8]); 8] = [
            (":method", b"POST"),
            (":scheme", b"http"),
            (":path", path),
            (":authority", b"localhost"),
            (
                "grpc-timeout",
                timeout.map(Timeout::as_bytes).unwrap_or_default(),
            ),
            ("te", b"trailers"),
            ("content-type", CONTENT_TYPE),
            ("user-agent", USER_AGENT.as_bytes()),
        ];
        let mut count = fields.len();
        if timeout.is_none() {
            fields.copy_within(5.., 4);
            count -= 1;
        }
        Self { fields, count }
    }

    /// The fields.
    pub(super) fn fields(&self) -> &[(&'static str, &'a [u8])] {
        &self.fields[..self.count]
    }
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

/// How we call ourselves.
const USER_AGENT: &str = concat!("plugind/", env!("CARGO_PKG_VERSION"));

/// How much is kept of another content type (octets).
const KEPT_CONTENT_TYPE: usize = 64;

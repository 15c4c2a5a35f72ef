//! The errors with which a call can end.
//!
//! Each variant of [`CallError`] is a cause. [`CallError::code`] returns the gRPC code for it, and
//! [`CallError::transparent_retry`] how often the call may be retried.

use std::fmt;

use super::status::{Code, Status};
use crate::budget::OverBudget;
use crate::escape;
use crate::http2::{ConnectionError, ErrorCode, StreamError};

/// The reason why a call has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error status.
    #[error("the peer returned {0}")]
    Status(Status),
    /// The server's response is HTTP, but not gRPC.
    #[error("the peer's response is not gRPC: {0}")]
    NotGrpc(NotGrpc),
    /// The server's response breaks the rules of gRPC.
    #[error("the peer's gRPC response is invalid: {0}")]
    Protocol(ProtocolError),
    /// A message of the response is larger than the call accepts.
    #[error("the peer's message is too large octets={announced} limit={limit}")]
    TooLarge {
        /// The size of the message in octets, as announced in its prefix.
        announced: u32,
        /// The maximum number of octets that the call accepts.
        limit: usize,
    },
    /// The memory budget has no room for what the connection holds.
    #[error("{OverBudget}")]
    OverBudget,
    /// The connection has its maximum number of calls, or its stream identifiers are exhausted.
    #[error("too many calls on one connection")]
    TooManyCalls,
    /// The headers of the call exceed the server's limit, or the limit of this client.
    #[error("the headers of the call are too large")]
    RequestHeaders,
    /// The response was not received in time.
    #[error("the peer did not respond in time")]
    DeadlineExceeded,
    /// The caller cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
    /// The server reported, by REFUSED_STREAM or GOAWAY, that it has not processed the call.
    #[error("the peer refused the call without processing it")]
    Refused {
        /// Whether the call may be retried on another connection: it was sent only once, and the
        /// server had not begun to respond. On the same connection, the client retries by itself.
        again: bool,
    },
    /// The server reset the stream of the call.
    #[error("the peer reset the stream code={0}")]
    Reset(ErrorCode),
    /// The server broke the rules of HTTP/2 on the stream of the call.
    #[error("the peer caused an HTTP/2 stream error: {0}")]
    Stream(StreamError),
    /// The connection ended, and the call with it.
    #[error("{error}")]
    Connection {
        /// The reason why the connection ended.
        error: ConnectionError,
        /// Whether a part of the request may have reached the server.
        written: bool,
    },
}

/// A response that is not gRPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotGrpc {
    /// An HTTP status other than 200, in a response that is not Trailers-Only.
    HttpStatus(u16),
    /// Content of another type: the first octets of the type, or empty if it is missing.
    ContentType(Vec<u8>),
}

/// The gRPC rule that a response broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The response ended without a status.
    #[error("it ended without grpc-status")]
    NoStatus,
    /// The status of a unary call was OK, but the response had no message.
    #[error("its status is OK, but it has no message")]
    NoMessage,
    /// The response to a unary call had more than one message.
    #[error("it has more than one message")]
    SecondMessage,
    /// The response ended in the middle of a message.
    #[error("it ended mid-message")]
    CutMessage,
    /// A message is compressed, although compression was not negotiated.
    #[error("it has a compressed message, but compression was not negotiated")]
    Compressed,
    /// A message begins with an unknown flag.
    #[error("it has a message with an unknown flag value={0}")]
    UnknownFlag(u8),
}

/// How often a failed call may be retried immediately, even if its method is not idempotent: the
/// transparent retries of gRPC (gRFC A6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransparentRetry {
    /// No retry: the server may have processed the call or has refused it twice, the call was
    /// cancelled, its deadline has passed, or a retry at once would fail again.
    Never,
    /// One retry: the server reported that it has not processed the call.
    Once,
    /// Any number until the deadline: no part of the call was written.
    Unlimited,
}

impl CallError {
    /// Returns the gRPC code for this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Status(status) => status.code,
            Self::NotGrpc(NotGrpc::HttpStatus(status)) => Code::from_http_status(*status),
            Self::NotGrpc(NotGrpc::ContentType(_)) | Self::Protocol(ProtocolError::NoStatus) => {
                Code::Unknown
            }
            Self::TooLarge { .. }
            | Self::OverBudget
            | Self::TooManyCalls
            | Self::RequestHeaders => Code::ResourceExhausted,
            Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::Cancelled => Code::Cancelled,
            Self::Refused { .. } | Self::Connection { .. } => Code::Unavailable,
            Self::Reset(code) => Code::from_reset(*code),
            Self::Stream(StreamError::HeaderListTooLarge | StreamError::TooManyFields) => {
                Code::ResourceExhausted
            }
            Self::Protocol(_) | Self::Stream(_) => Code::Internal,
        }
    }

    /// Returns whether the call failed with [`ConnectionError::Eof`]: the peer closed the
    /// connection, or the connection broke.
    pub fn is_eof(&self) -> bool {
        let Self::Connection { error, .. } = self else {
            return false;
        };
        matches!(error, ConnectionError::Eof { .. })
    }

    /// Returns whether the call may be retried at once, and how often.
    pub fn transparent_retry(&self) -> TransparentRetry {
        match self {
            Self::Refused { again: true } => TransparentRetry::Once,
            Self::Connection { written: false, .. } | Self::TooManyCalls => {
                TransparentRetry::Unlimited
            }
            _ => TransparentRetry::Never,
        }
    }

    /// Returns whether the call may be retried at once.
    pub fn may_retry(&self) -> bool {
        self.transparent_retry() != TransparentRetry::Never
    }
}

impl fmt::Display for NotGrpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HttpStatus(status) => write!(f, "http_status={status}"),
            Self::ContentType(none) if none.is_empty() => f.write_str("no content-type"),
            Self::ContentType(other) => write!(f, "content_type={:?}", escape::bytes(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::Malformed;

    #[test]
    fn errors_have_a_code_and_a_text_of_their_own() {
        let eof = |written| CallError::Connection {
            error: ConnectionError::Eof {
                inside_frame: false,
            },
            written,
        };
        let malformed = StreamError::Malformed(Malformed::Status);
        let too_large = CallError::TooLarge {
            announced: 2,
            limit: 1,
        };
        let (calm, other) = (ErrorCode::ENHANCE_YOUR_CALM, ErrorCode(0xffff));
        let html = NotGrpc::ContentType(b"text/\x1bhtml".to_vec());
        let table = [
            (
                CallError::Status(Status::new(Code::Aborted, "no")),
                Code::Aborted,
            ),
            (
                CallError::NotGrpc(NotGrpc::HttpStatus(503)),
                Code::Unavailable,
            ),
            (
                CallError::NotGrpc(NotGrpc::ContentType(vec![])),
                Code::Unknown,
            ),
            (CallError::NotGrpc(html), Code::Unknown),
            (CallError::Protocol(ProtocolError::NoStatus), Code::Unknown),
            (
                CallError::Protocol(ProtocolError::NoMessage),
                Code::Internal,
            ),
            (
                CallError::Protocol(ProtocolError::SecondMessage),
                Code::Internal,
            ),
            (
                CallError::Protocol(ProtocolError::CutMessage),
                Code::Internal,
            ),
            (
                CallError::Protocol(ProtocolError::Compressed),
                Code::Internal,
            ),
            (
                CallError::Protocol(ProtocolError::UnknownFlag(2)),
                Code::Internal,
            ),
            (too_large, Code::ResourceExhausted),
            (CallError::TooManyCalls, Code::ResourceExhausted),
            (CallError::RequestHeaders, Code::ResourceExhausted),
            (CallError::DeadlineExceeded, Code::DeadlineExceeded),
            (CallError::Cancelled, Code::Cancelled),
            (CallError::Refused { again: true }, Code::Unavailable),
            (
                CallError::Reset(ErrorCode::REFUSED_STREAM),
                Code::Unavailable,
            ),
            (CallError::Reset(calm), Code::ResourceExhausted),
            (CallError::Reset(other), Code::Internal),
            (CallError::Stream(malformed), Code::Internal),
            (
                CallError::Stream(StreamError::HeaderListTooLarge),
                Code::ResourceExhausted,
            ),
            (eof(true), Code::Unavailable),
        ];
        let mut all_words = Vec::new();
        for (error, code) in table {
            let words = error.to_string();
            assert_eq!(error.code(), code, "{words}");
            assert!(words.chars().all(|c| !c.is_control()), "{words}");
            assert!(!all_words.contains(&words), "{words}");
            all_words.push(words);
        }
    }
}

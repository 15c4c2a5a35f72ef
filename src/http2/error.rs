//! Errors of connections and streams: their causes, and the codes to send.
//!
//! RFC 9113 §5.4 defines two scopes of errors: a [`StreamError`] ends one stream (RST_STREAM), a
//! [`Violation`] ends the connection (GOAWAY). A [`ConnectionError`] is any reason why a connection
//! ended, such as a violation, a timeout or EOF.

use std::fmt;
use std::time::Duration;

use super::frame_type::FrameType;
use super::other_protocol::OtherProtocol;
use super::stream_id::StreamId;
use crate::config::{MAX_CONTINUATIONS, MAX_DECODED_HEADERS, MAX_FIELDS, MAX_HEADER_LIST};
use crate::escape;
use crate::hpack;

/// An error code of RST_STREAM and GOAWAY (RFC 9113 §7).
///
/// "Unknown or unsupported error codes MUST NOT trigger any special behavior", so any number is
/// valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

#[allow(missing_docs)] // The names are those of RFC 9113.
impl ErrorCode {
    pub const NO_ERROR: Self = Self(0x0);
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    pub const INTERNAL_ERROR: Self = Self(0x2);
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    pub const STREAM_CLOSED: Self = Self(0x5);
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    pub const REFUSED_STREAM: Self = Self(0x7);
    pub const CANCEL: Self = Self(0x8);
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    pub const CONNECT_ERROR: Self = Self(0xa);
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);
}

/// The names of the codes, indexed by number.
const CODE_NAMES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = usize::try_from(self.0).ok().and_then(|n| CODE_NAMES.get(n));
        match name {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reason why a connection ended, or why one that is closing will end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The peer did not send the connection preface of HTTP/2, but something else or nothing.
    #[error("{0}")]
    NotHttp2(OtherProtocol),
    /// The peer broke a rule or exceeded a limit.
    #[error("the peer caused an HTTP/2 connection error: {0} code={code}", code = .0.code())]
    Violation(Violation),
    /// The peer was too slow.
    #[error("{0}")]
    TimedOut(Awaited),
    /// The peer closed the connection, or the connection broke.
    #[error(
        "the peer closed the connection{}",
        if *inside_frame { " mid-frame" } else { "" }
    )]
    Eof {
        /// Whether the input ended in the middle of a frame.
        inside_frame: bool,
    },
    /// The peer sent GOAWAY, and the last open stream has ended; or the peer closed the connection
    /// after a GOAWAY with an error.
    #[error("{0}")]
    GoAwayReceived(GoAwayReceived),
    /// This end sent GOAWAY, and the last stream has ended.
    #[error("the connection was shut down")]
    ShutDown,
}

/// The contents of the peer's last GOAWAY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoAwayReceived {
    /// The last stream that the peer has processed or may still process.
    pub last_stream: u32,
    /// The reason.
    pub code: ErrorCode,
    /// The first octets of the debug data, not yet escaped.
    pub debug: Vec<u8>,
}

impl GoAwayReceived {
    /// Returns whether the peer closes the connection because of an error.
    pub fn is_error(&self) -> bool {
        self.code != ErrorCode::NO_ERROR
    }
}

/// A breach of the protocol or of a limit by the peer that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A frame larger than this end accepts.
    #[error("a frame that exceeds SETTINGS_MAX_FRAME_SIZE octets={0}")]
    FrameTooLarge(u32),
    /// A frame of a length that its type does not allow.
    #[error("{0} with an invalid length")]
    FrameLength(FrameType),
    /// A frame whose padding exceeds its payload.
    #[error("{0} with padding that exceeds its payload")]
    Padding(FrameType),
    /// A frame on stream 0 that must be on a stream.
    #[error("{0} on stream 0")]
    NeedsStream(FrameType),
    /// A frame on a stream that must be on stream 0, the connection.
    #[error("{0} on a stream other than 0")]
    NeedsConnection(FrameType),
    /// A frame on a stream that was never opened.
    #[error("{0} on idle stream {1}")]
    IdleStream(FrameType, u32),
    /// A frame on a stream after the peer ended it.
    #[error("{0} on stream {1} after the peer ended it")]
    ClosedStream(FrameType, StreamId),
    /// A request on a stream below one that was already opened.
    #[error("a request on stream {0} after one on a higher stream")]
    StreamOrder(u32),
    /// A CONTINUATION without a header block to continue, or on another stream than the block.
    #[error("CONTINUATION without a header block")]
    StrayContinuation,
    /// Another frame inside a header block.
    #[error("{0} inside a header block")]
    InterruptedBlock(FrameType),
    /// A PUSH_PROMISE: a client's SETTINGS forbid the server to push, and a client cannot push.
    #[error("PUSH_PROMISE, which is not allowed")]
    Push,
    /// A header block that cannot be decoded.
    #[error("cannot decode a header block: {0}")]
    Compression(hpack::Error),
    /// A setting with a value that is not allowed.
    #[error("SETTINGS with an invalid value setting={id:#x} value={value}")]
    SettingValue {
        /// The identifier of the setting.
        id: u16,
        /// The value.
        value: u32,
    },
    /// An initial window above 2^31-1, or one that makes a stream's window exceed that.
    #[error("SETTINGS_INITIAL_WINDOW_SIZE that makes a window exceed 2^31-1")]
    InitialWindow,
    /// A breach of flow control on the connection.
    #[error("{0}")]
    Window(WindowError),
    /// A GOAWAY with a last stream that this end cannot have opened, or above that of an earlier
    /// GOAWAY.
    #[error("GOAWAY with an invalid last stream id={0}")]
    GoAwayStream(u32),
    /// More of something than the limits allow.
    #[error("{0}")]
    Excess(Excess),
}

/// A limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// The octets of one header block, before it is decoded.
    #[error("a header block of more than {MAX_HEADER_LIST} octets")]
    HeaderBlock,
    /// The CONTINUATION frames of one header block.
    #[error("a header block in more than {MAX_CONTINUATIONS} CONTINUATION frames")]
    Continuations,
    /// The octets of one decoded header list, above the limit that ends the connection; a smaller
    /// list that is still too large ends only its stream.
    #[error("a header list of more than {MAX_DECODED_HEADERS} octets")]
    HeaderList,
    /// The entries of one SETTINGS frame.
    #[error("too many entries in SETTINGS")]
    SettingsEntries,
    /// Frames that do not advance any call.
    #[error("too many frames that do not advance any call")]
    WithoutProgress,
    /// Requests that were cancelled, or that broke a rule, before they were answered.
    #[error("too many requests cancelled before their response")]
    Cancelled,
}

/// The obligation that the peer did not meet in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Awaited {
    /// Sending its SETTINGS.
    #[error(
        "the peer sent no SETTINGS within {within:.1?} of connecting: the HTTP/2 handshake timed out"
    )]
    Settings {
        /// The time allowed, from the moment that the connection was made, rounded to tenths
        /// of a second.
        within: Duration,
    },
    /// Completing a header block.
    #[error("the peer did not complete a header block in time")]
    HeaderBlock,
    /// Reading what this end writes.
    #[error("the peer stopped reading")]
    Reading,
}

impl ConnectionError {
    /// Returns the code to send in a GOAWAY for this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotHttp2(_) => ErrorCode::PROTOCOL_ERROR,
            Self::Violation(violation) => violation.code(),
            Self::TimedOut(Awaited::Settings { .. }) => ErrorCode::SETTINGS_TIMEOUT,
            Self::TimedOut(_) => ErrorCode::ENHANCE_YOUR_CALM,
            Self::Eof { .. } | Self::GoAwayReceived(_) | Self::ShutDown => ErrorCode::NO_ERROR,
        }
    }
}

impl Violation {
    /// Returns the code that RFC 9113 assigns to this breach.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::FrameTooLarge(_) | Self::FrameLength(_) => ErrorCode::FRAME_SIZE_ERROR,
            Self::ClosedStream(..) => ErrorCode::STREAM_CLOSED,
            Self::Compression(_) => ErrorCode::COMPRESSION_ERROR,
            Self::InitialWindow => ErrorCode::FLOW_CONTROL_ERROR,
            Self::Window(error) => error.code(),
            Self::Excess(_) => ErrorCode::ENHANCE_YOUR_CALM,
            _ => ErrorCode::PROTOCOL_ERROR,
        }
    }
}

/// A breach by the peer that ends one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The message is malformed (RFC 9113 §8.1.1).
    #[error("{0}")]
    Malformed(Malformed),
    /// A header list of more octets than this end advertises.
    #[error("a header list of more than {MAX_HEADER_LIST} octets")]
    HeaderListTooLarge,
    /// A header list of more fields than this end accepts.
    #[error("a header list of more than {MAX_FIELDS} fields")]
    TooManyFields,
    /// More 1xx responses than this end accepts.
    #[error("too many 1xx responses")]
    TooManyInformational,
    /// A frame after the peer ended its side.
    #[error("{0} after the end of the stream")]
    AfterEnd(FrameType),
    /// A breach of flow control on the stream.
    #[error("{0}")]
    Window(WindowError),
}

/// A breach of the rules of flow control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// An increment of 0.
    #[error("WINDOW_UPDATE with an increment of 0")]
    Zero,
    /// An increment that makes the window exceed 2^31-1.
    #[error("WINDOW_UPDATE that makes the window exceed 2^31-1")]
    Overflow,
    /// More data than the window allowed.
    #[error("more data than the flow-control window allows")]
    Exceeded,
}

impl WindowError {
    /// Returns the code that RFC 9113 assigns to this breach.
    pub(super) fn code(self) -> ErrorCode {
        match self {
            Self::Zero => ErrorCode::PROTOCOL_ERROR,
            Self::Overflow | Self::Exceeded => ErrorCode::FLOW_CONTROL_ERROR,
        }
    }
}

/// A reason why a message is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field name that is not a lower-case token.
    #[error("a header name that is not a lower-case token")]
    FieldName,
    /// A NUL, CR or LF in a field value; in a pseudo-header, any space or control character.
    #[error("a header value with a forbidden character")]
    FieldValue,
    /// A connection-specific field (RFC 9113 §8.2.2).
    #[error("a connection-specific header, which HTTP/2 forbids")]
    ConnectionField,
    /// A pseudo-header that is unknown, repeated, not allowed in this block, or after a regular
    /// field.
    #[error("a misplaced, repeated or unknown pseudo-header")]
    PseudoHeader,
    /// A missing or invalid `:status`.
    #[error("headers without a valid :status")]
    Status,
    /// A request without a pseudo-header that it must have, or with an empty `:path`.
    #[error("a request without a required pseudo-header, or with an empty :path")]
    Request,
    /// A 1xx response that ends the stream, or 101.
    #[error("a 1xx response that ends the stream, or a 101 response")]
    Informational,
    /// Data before the headers.
    #[error("DATA before HEADERS")]
    DataBeforeHeaders,
    /// Trailers that do not end the stream.
    #[error("trailers without END_STREAM")]
    TrailersWithoutEnd,
    /// Less or more data than `content-length` announces, or an invalid `content-length`.
    #[error("an invalid content-length, or content of another length")]
    ContentLength,
}

impl StreamError {
    /// Returns the code to send in a RST_STREAM for this error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Malformed(_) => ErrorCode::PROTOCOL_ERROR,
            Self::HeaderListTooLarge | Self::TooManyFields | Self::TooManyInformational => {
                ErrorCode::ENHANCE_YOUR_CALM
            }
            Self::AfterEnd(_) => ErrorCode::STREAM_CLOSED,
            Self::Window(error) => error.code(),
        }
    }
}

impl From<Violation> for ConnectionError {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl From<Malformed> for StreamError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl fmt::Display for GoAwayReceived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer sent GOAWAY code={}", self.code)?;
        if !self.debug.is_empty() {
            write!(f, " debug={:?}", escape::bytes(&self.debug))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns connection errors of every kind.
    fn connection_errors() -> Vec<ConnectionError> {
        let gone = |code, debug: &[u8]| {
            ConnectionError::GoAwayReceived(GoAwayReceived {
                last_stream: 0,
                code,
                debug: debug.to_vec(),
            })
        };
        let protocols = [
            OtherProtocol::Nothing,
            OtherProtocol::Http1(Some(404)),
            OtherProtocol::Http1(None),
            OtherProtocol::Http1Request,
            OtherProtocol::Tls,
            OtherProtocol::Other(b"SSH".to_vec()),
        ];
        let violations = [
            Violation::FrameTooLarge(16_385),
            Violation::FrameLength(FrameType::PING),
            Violation::Padding(FrameType::DATA),
            Violation::NeedsStream(FrameType::DATA),
            Violation::NeedsConnection(FrameType::PING),
            Violation::IdleStream(FrameType::DATA, 2),
            Violation::ClosedStream(FrameType::DATA, StreamId::FIRST),
            Violation::StreamOrder(1),
            Violation::StrayContinuation,
            Violation::InterruptedBlock(FrameType::PING),
            Violation::Push,
            Violation::Compression(hpack::Error::Index),
            Violation::SettingValue { id: 2, value: 2 },
            Violation::InitialWindow,
            Violation::Window(WindowError::Zero),
            Violation::Window(WindowError::Overflow),
            Violation::Window(WindowError::Exceeded),
            Violation::GoAwayStream(2),
            Violation::Excess(Excess::HeaderBlock),
            Violation::Excess(Excess::Continuations),
            Violation::Excess(Excess::HeaderList),
            Violation::Excess(Excess::SettingsEntries),
            Violation::Excess(Excess::WithoutProgress),
            Violation::Excess(Excess::Cancelled),
        ];
        let others = [
            ConnectionError::TimedOut(Awaited::Settings {
                within: Duration::from_secs(10),
            }),
            ConnectionError::TimedOut(Awaited::HeaderBlock),
            ConnectionError::TimedOut(Awaited::Reading),
            ConnectionError::Eof { inside_frame: true },
            ConnectionError::Eof {
                inside_frame: false,
            },
            gone(ErrorCode::NO_ERROR, b""),
            gone(ErrorCode::ENHANCE_YOUR_CALM, b"too_many_pings"),
            gone(ErrorCode(0xffff), b""),
            ConnectionError::ShutDown,
        ];
        let protocols = protocols.into_iter().map(ConnectionError::NotHttp2);
        let violations = violations.into_iter().map(ConnectionError::Violation);
        protocols.chain(violations).chain(others).collect()
    }

    fn stream_errors() -> Vec<StreamError> {
        let malformed = [
            Malformed::FieldName,
            Malformed::FieldValue,
            Malformed::ConnectionField,
            Malformed::PseudoHeader,
            Malformed::Status,
            Malformed::Request,
            Malformed::Informational,
            Malformed::DataBeforeHeaders,
            Malformed::TrailersWithoutEnd,
            Malformed::ContentLength,
        ];
        let others = [
            StreamError::HeaderListTooLarge,
            StreamError::TooManyFields,
            StreamError::TooManyInformational,
            StreamError::AfterEnd(FrameType::DATA),
            StreamError::Window(WindowError::Zero),
            StreamError::Window(WindowError::Overflow),
            StreamError::Window(WindowError::Exceeded),
        ];
        let malformed = malformed.into_iter().map(StreamError::Malformed);
        malformed.chain(others).collect()
    }

    #[test]
    fn no_two_errors_have_the_same_text() {
        let connection: Vec<_> = connection_errors()
            .iter()
            .map(ToString::to_string)
            .collect();
        let stream: Vec<_> = stream_errors().iter().map(ToString::to_string).collect();
        for mut words in [connection, stream] {
            words.sort();
            let before = words.clone();
            words.dedup();
            assert_eq!(words, before);
        }
    }

    #[test]
    fn errors_caused_by_the_peer_name_the_peer() {
        for error in connection_errors() {
            let words = error.to_string();
            let is_ours = error == ConnectionError::ShutDown;
            assert_eq!(words.starts_with("the peer "), !is_ours, "{words}");
        }
    }
}

//! The events of a connection, as its owner receives them.

use std::ops::Range;

use super::super::StreamId;
use super::super::error::{ConnectionError, ErrorCode, StreamError};
use super::super::fields::Fields;

/// An event on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A client opened a stream with the headers of a request. Only servers get this event.
    Request {
        /// The stream.
        stream: StreamId,
        /// All fields, including `:method`, `:scheme`, `:path` and `:authority`.
        fields: &'a Fields,
        /// Whether the request ends here.
        end_stream: bool,
    },
    /// The headers of the final response; 1xx responses are not reported. Only clients get this
    /// event.
    Response {
        /// The stream.
        stream: StreamId,
        /// The value of `:status`.
        status: u16,
        /// All fields.
        fields: &'a Fields,
        /// Whether the response ends here.
        end_stream: bool,
    },
    /// Part of the content. The caller must release its octets with [`Connection::consume`].
    ///
    /// [`Connection::consume`]: super::Connection::consume
    Data {
        /// The stream.
        stream: StreamId,
        /// The octets.
        data: &'a [u8],
        /// Whether the message ends here.
        end_stream: bool,
    },
    /// The fields after the content; the message ends here.
    Trailers {
        /// The stream.
        stream: StreamId,
        /// All fields.
        fields: &'a Fields,
    },
    /// The peer reset a stream.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The reason.
        code: ErrorCode,
    },
    /// The peer broke a rule on a stream, and the stream was reset.
    Failed {
        /// The stream.
        stream: StreamId,
        /// The rule that was broken.
        error: StreamError,
    },
    /// The peer sent GOAWAY: our streams above `last_stream` are gone without having been
    /// processed.
    GoAway {
        /// The last stream that the peer will finish.
        last_stream: u32,
        /// The reason.
        code: ErrorCode,
    },
    /// The connection and all its streams have ended. This is the last event.
    Closed(ConnectionError),
}

/// The result of a frame: an [`Event`] that does not borrow yet.
#[derive(Debug)]
pub(super) enum PendingEvent {
    Request {
        stream: StreamId,
        end_stream: bool,
    },
    Response {
        stream: StreamId,
        status: u16,
        end_stream: bool,
    },
    Data {
        stream: StreamId,
        at: Range<usize>,
        end_stream: bool,
    },
    Trailers {
        stream: StreamId,
    },
    Reset {
        stream: StreamId,
        code: ErrorCode,
    },
    Failed {
        stream: StreamId,
        error: StreamError,
    },
    GoAway {
        last_stream: u32,
        code: ErrorCode,
    },
    Closed(ConnectionError),
}

impl PendingEvent {
    /// Returns the event with its fields and content; `content` returns the octets at a range of
    /// [`PendingEvent::Data`].
    pub(super) fn event<'a>(
        self,
        fields: &'a Fields,
        content: impl FnOnce(Range<usize>) -> &'a [u8],
    ) -> Event<'a> {
        match self {
            Self::Request { stream, end_stream } => Event::Request {
                stream,
                fields,
                end_stream,
            },
            Self::Response {
                stream,
                status,
                end_stream,
            } => Event::Response {
                stream,
                status,
                fields,
                end_stream,
            },
            Self::Data {
                stream,
                at,
                end_stream,
            } => Event::Data {
                stream,
                data: content(at),
                end_stream,
            },
            Self::Trailers { stream } => Event::Trailers { stream, fields },
            Self::Reset { stream, code } => Event::Reset { stream, code },
            Self::Failed { stream, error } => Event::Failed { stream, error },
            Self::GoAway { last_stream, code } => Event::GoAway { last_stream, code },
            Self::Closed(error) => Event::Closed(error),
        }
    }
}

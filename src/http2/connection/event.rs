//! What happens on a connection, as its owner sees it.

use std::ops::Range;

use super::super::StreamId;
use super::super::error::{ConnectionError, ErrorCode, StreamError};
use super::super::fields::Fields;

/// What happened on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A client opened a stream: its request's headers. Only servers see this.
    Request {
        /// The stream.
        stream: StreamId,
        /// All fields, `:method`, `:scheme`, `:path` and `:authority` among them.
        fields: &'a Fields,
        /// Whether the request ends here.
        end_stream: bool,
    },
    /// The headers of the final answer; 1xx answers are not shown. Only clients see this.
    Head {
        /// The stream.
        stream: StreamId,
        /// The value of `:status`.
        status: u16,
        /// All fields.
        fields: &'a Fields,
        /// Whether the answer ends here.
        end_stream: bool,
    },
    /// Part of the content. Its octets are to be given back with [`Connection::consume`].
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
    /// The fields behind the content; the message ends here.
    Trailers {
        /// The stream.
        stream: StreamId,
        /// All fields.
        fields: &'a Fields,
    },
    /// The peer ended a stream by force.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Why.
        code: ErrorCode,
    },
    /// The peer broke a rule on a stream, which was reset therefore.
    Failed {
        /// The stream.
        stream: StreamId,
        /// What it did.
        error: StreamError,
    },
    /// The peer is going away: streams of ours above `last_stream` are gone, it has not looked at
    /// them.
    GoAway {
        /// The last stream that it will finish.
        last_stream: u32,
        /// Why it goes.
        code: ErrorCode,
    },
    /// The connection is over, and all streams with it. The last event.
    Closed(ConnectionError),
}

/// What a frame led to: an [`Event`] that does not borrow yet.
#[derive(Debug)]
pub(super) enum Happened {
    Request {
        stream: StreamId,
        end_stream: bool,
    },
    Head {
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

impl Happened {
    /// The event, with the fields and the content it is about: `content` is where the octets of
    /// [`Happened::Data`] are.
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
            Self::Head {
                stream,
                status,
                end_stream,
            } => Event::Head {
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

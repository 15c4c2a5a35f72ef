//! The events of a connection, as its owner receives them.

use super::super::StreamId;
use super::super::error::{ConnectionError, ErrorCode, StreamError};

/// An event on the connection. Its fields and content are held by the [`Connection`]
/// until the next call of [`poll_event`].
///
/// [`Connection`]: super::Connection
/// [`poll_event`]: super::Connection::poll_event
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A client opened a stream with the headers of a request. Only servers get this event. The
    /// fields include the pseudo-headers, such as `:method` and `:path`.
    Request {
        /// The stream.
        stream: StreamId,
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
        /// Whether the response ends here.
        end_stream: bool,
    },
    /// Part of the content. The caller must release its octets with [`Connection::consume`].
    ///
    /// [`Connection::consume`]: super::Connection::consume
    Data {
        /// The stream.
        stream: StreamId,
        /// Whether the message ends here.
        end_stream: bool,
    },
    /// The fields after the content; the message ends here.
    Trailers {
        /// The stream.
        stream: StreamId,
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
    /// The peer sent GOAWAY: the streams above `last_stream` that this end opened have ended, and
    /// the peer has not processed them.
    GoAway {
        /// The last stream that the peer has processed or may still process.
        last_stream: u32,
        /// The reason.
        code: ErrorCode,
    },
    /// The connection and all its streams have ended. This is the last event.
    Closed(ConnectionError),
}

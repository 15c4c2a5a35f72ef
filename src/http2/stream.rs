//! One stream (RFC 9113 §5.1), from the moment it is open.
//!
//! Pure. An idle stream is above the highest that was opened, and a closed one is removed from the
//! table ([`super::streams`]); neither takes memory. Pushes are refused, so streams are never
//! reserved.
//!
//! ```text
//!     open(), accept()              END_STREAM sent
//!   (idle) ----------> Open ----------------------> HalfClosedLocal
//!                       |                                |
//!                       | END_STREAM received            | END_STREAM received
//!                       v                                v
//!                HalfClosedRemote ----------------->  Closed <---- RST_STREAM, either way,
//!                                  END_STREAM sent                 from any state
//! ```
//!
//! What the peer sends on a stream is a message, which has an order of its own:
//!
//! ```text
//!   Head --(1xx)--> Head --(final headers)--> Content --(DATA)--> Content --(trailers)--> end
//! ```
//!
//! On a server, a stream opens with the headers of the request, so only the content is awaited.

use super::error::{Malformed, StreamError};
use super::fields::Section;
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::Data;
use super::frame_type::FrameType;
use super::settings::INITIAL_WINDOW;
use super::stream_id::StreamId;
use crate::config;

/// The state of a stream: which side may still send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Both sides.
    Open,
    /// The peer.
    HalfClosedLocal,
    /// This side.
    HalfClosedRemote,
    /// Neither side.
    Closed,
}

impl State {
    /// Returns whether we may send.
    pub(super) fn can_send(self) -> bool {
        matches!(self, Self::Open | Self::HalfClosedRemote)
    }

    /// Returns whether the peer may send.
    pub(super) fn can_receive(self) -> bool {
        matches!(self, Self::Open | Self::HalfClosedLocal)
    }

    /// Returns the state after END_STREAM was sent; sending it twice changes nothing.
    fn end_sent(self) -> Self {
        match self {
            Self::Open | Self::HalfClosedLocal => Self::HalfClosedLocal,
            Self::HalfClosedRemote | Self::Closed => Self::Closed,
        }
    }

    /// Returns the state after END_STREAM was received.
    ///
    /// RFC 9113 §5.1, half-closed (remote): "If an endpoint receives additional frames, other than
    /// WINDOW_UPDATE, PRIORITY, or RST_STREAM, for a stream that is in this state, it MUST respond
    /// with a stream error of type STREAM_CLOSED."
    fn end_received(self, kind: FrameType) -> Result<Self, StreamError> {
        match self {
            Self::Open => Ok(Self::HalfClosedRemote),
            Self::HalfClosedLocal => Ok(Self::Closed),
            Self::HalfClosedRemote | Self::Closed => Err(StreamError::AfterEnd(kind)),
        }
    }
}

/// The next part of the peer's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Headers: final or 1xx.
    Head {
        /// The number of 1xx responses received.
        informational: u8,
    },
    /// Data or trailers.
    Content {
        /// The number of octets of data still to come, if there was a `content-length`.
        left: Option<u64>,
    },
}

/// The content of a header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    /// The headers of a 1xx response, which callers do not need.
    Informational,
    /// The headers of the final response.
    Head {
        /// The value of `:status`.
        status: u16,
    },
    /// The fields after the content.
    Trailers,
}

/// A stream that is open in one or both directions.
#[derive(Debug)]
pub(super) struct Stream {
    /// The stream's number.
    pub(super) id: StreamId,
    /// Which side may still send.
    pub(super) state: State,
    /// The window for what we send.
    pub(super) send: SendWindow,
    /// The window for what the peer sends.
    pub(super) receive: ReceiveWindow,
    awaited: Awaited,
}

impl Stream {
    /// Returns a stream that was just opened; `send_window` is the peer's initial window.
    pub(super) fn open(id: StreamId, send_window: u32) -> Self {
        Self {
            id,
            state: State::Open,
            send: SendWindow::new(send_window),
            receive: ReceiveWindow::new(INITIAL_WINDOW),
            awaited: Awaited::Head { informational: 0 },
        }
    }

    /// Returns a stream that a client opened with the headers of a request.
    pub(super) fn accept(
        id: StreamId,
        send_window: u32,
        section: &Section,
        end_stream: bool,
    ) -> Result<Self, StreamError> {
        section.check_size()?;
        section.check_request().map_err(StreamError::Malformed)?;
        let left = section.content_length().map_err(StreamError::Malformed)?;
        let mut stream = Self::open(id, send_window);
        stream.awaited = Awaited::Content { left };
        if end_stream {
            stream.end_received(FrameType::Headers)?;
        }
        Ok(stream)
    }

    /// Returns whether this side has ended its message: on a server, whether the complete response
    /// was queued or written.
    pub(super) fn is_answered(&self) -> bool {
        !self.state.can_send()
    }

    /// Counts our END_STREAM.
    pub(super) fn end_sent(&mut self) {
        self.state = self.state.end_sent();
    }

    /// Processes a DATA frame.
    pub(super) fn receive_data(&mut self, data: &Data<'_>) -> Result<(), StreamError> {
        if !self.state.can_receive() {
            return Err(StreamError::AfterEnd(FrameType::Data));
        }
        self.receive
            .receive(data.cost)
            .map_err(|_| StreamError::WindowExceeded)?;
        let Awaited::Content { left } = &mut self.awaited else {
            return Err(StreamError::Malformed(Malformed::DataBeforeHeaders));
        };
        if let Some(left) = left {
            *left = left
                .checked_sub(data.content.len() as u64)
                .ok_or(StreamError::Malformed(Malformed::ContentLength))?;
        }
        if data.end_stream {
            self.end_received(FrameType::Data)?;
        }
        Ok(())
    }

    /// Processes a header block.
    pub(super) fn receive_headers(
        &mut self,
        section: &Section,
        end_stream: bool,
    ) -> Result<Headers, StreamError> {
        if !self.state.can_receive() {
            return Err(StreamError::AfterEnd(FrameType::Headers));
        }
        section.check_size()?;
        let headers = match self.awaited {
            Awaited::Head { informational } => self.receive_head(section, informational)?,
            Awaited::Content { .. } => {
                section.check_trailers().map_err(StreamError::Malformed)?;
                Headers::Trailers
            }
        };
        match (headers, end_stream) {
            // RFC 9113 §8.1: "An endpoint that receives a HEADERS frame without the END_STREAM flag
            // set after receiving the HEADERS frame that opens a request or after receiving a final
            // (non-informational) status code MUST treat the corresponding request or response as
            // malformed."
            (Headers::Trailers, false) => {
                return Err(StreamError::Malformed(Malformed::TrailersWithoutEnd));
            }
            // §8.1: "A HEADERS frame with the END_STREAM flag set that carries an informational
            // status code is malformed."
            (Headers::Informational, true) => {
                return Err(StreamError::Malformed(Malformed::Informational));
            }
            (_, true) => self.end_received(FrameType::Headers)?,
            (_, false) => {}
        }
        Ok(headers)
    }

    /// Processes the headers of a response, final or 1xx.
    fn receive_head(
        &mut self,
        section: &Section,
        informational: u8,
    ) -> Result<Headers, StreamError> {
        let status = section.check_response().map_err(StreamError::Malformed)?;
        match status {
            // §8.6: "HTTP/2 does not support the 101 (Switching Protocols) informational status
            // code."
            101 => Err(StreamError::Malformed(Malformed::Informational)),
            100..=199 if informational == config::MAX_INFORMATIONAL => {
                Err(StreamError::TooManyInformational)
            }
            100..=199 => {
                self.awaited = Awaited::Head {
                    informational: informational + 1,
                };
                Ok(Headers::Informational)
            }
            _ => {
                let length = section.content_length().map_err(StreamError::Malformed)?;
                // RFC 9110 §15.3.5, §15.4.5: these have no content, whatever `content-length` is
                // given.
                let left = length.filter(|_| !matches!(status, 204 | 304));
                self.awaited = Awaited::Content { left };
                Ok(Headers::Head { status })
            }
        }
    }

    /// Counts the peer's END_STREAM.
    ///
    /// RFC 9113 §8.1.1: "A request or response is also malformed if the value of a Content-Length
    /// header field does not equal the sum of the DATA frame payload lengths that form the
    /// content, unless the message is defined as having no content."
    fn end_received(&mut self, kind: FrameType) -> Result<(), StreamError> {
        let missing = matches!(self.awaited, Awaited::Content { left: Some(1..) });
        if missing {
            return Err(StreamError::Malformed(Malformed::ContentLength));
        }
        self.state = self.state.end_received(kind)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_meets_every_end() {
        use State::{Closed, HalfClosedLocal, HalfClosedRemote, Open};
        let after_end = Err(StreamError::AfterEnd(FrameType::Data));
        // State, state after sending END_STREAM, after receiving it, whether each side may send.
        let table = [
            (Open, HalfClosedLocal, Ok(HalfClosedRemote), true, true),
            (HalfClosedLocal, HalfClosedLocal, Ok(Closed), false, true),
            (HalfClosedRemote, Closed, after_end, true, false),
            (Closed, Closed, after_end, false, false),
        ];
        for (state, end_sent, end_received, can_send, can_receive) in table {
            assert_eq!(state.end_sent(), end_sent, "{state:?}");
            assert_eq!(
                state.end_received(FrameType::Data),
                end_received,
                "{state:?}"
            );
            assert_eq!(state.can_send(), can_send, "{state:?}");
            assert_eq!(state.can_receive(), can_receive, "{state:?}");
        }
    }
}

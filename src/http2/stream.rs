//! One stream (RFC 9113 §5.1), from the moment it is open.
//!
//! An idle stream is above the highest that was opened, and a closed one is removed from
//! [`super::streams`]; neither takes memory. Pushes are refused, so streams are never reserved.
//!
//! ```text
//!     open(), accept()            END_STREAM sent
//!   (idle) ----------> open ----------------------> half-closed (local)
//!                       |     can_send = false           |
//!                       |                                |
//!                       | END_STREAM received            | END_STREAM received
//!                       | can_receive = false            |
//!                       v                                v
//!           half-closed (remote) -----------------> (closed) <---- RST_STREAM, either way,
//!                                  END_STREAM sent                 from any state
//! ```
//!
//! The parts of the message that the peer sends on a stream have an order, too:
//!
//! ```text
//!   Head --(1xx)--> Head --(final headers)--> Content --(DATA)--> Content --(trailers)--> end
//! ```
//!
//! On a server, the headers of the request open the stream, so the order starts at Content.

use super::error::{Malformed, StreamError};
use super::fields::Section;
use super::flow::{ReceiveWindow, SendWindow};
use super::frame_type::FrameType;
use super::settings::INITIAL_WINDOW;
use super::stream_id::StreamId;
use crate::config;

/// A stream that is open, or half-closed.
#[derive(Debug)]
pub(super) struct Stream {
    /// The stream's identifier.
    pub(super) id: StreamId,
    /// Whether END_STREAM is still to be sent.
    pub(super) can_send: bool,
    /// Whether the peer has not sent END_STREAM.
    pub(super) can_receive: bool,
    /// Whether the headers of a response and all content offered since were queued; used only on
    /// servers.
    pub(super) is_answered: bool,
    /// The window for what this end sends.
    pub(super) send: SendWindow,
    /// The window for what the peer sends.
    pub(super) receive: ReceiveWindow,
    next_part: NextPart,
}

/// The part of the peer's message that is to be received next.
#[derive(Debug, Clone, Copy)]
enum NextPart {
    /// Headers: final or 1xx.
    Head {
        /// The number of 1xx responses received.
        informational: u8,
    },
    /// Data or trailers.
    Content {
        /// The number of octets of data that must still be received, if there was a
        /// `content-length`.
        left: Option<u64>,
    },
}

impl Stream {
    /// Returns a stream that was just opened; `send_window` is the peer's initial window.
    pub(super) fn open(id: StreamId, send_window: u32) -> Self {
        Self {
            id,
            can_send: true,
            can_receive: true,
            is_answered: false,
            send: SendWindow::new(send_window),
            receive: ReceiveWindow::new(INITIAL_WINDOW),
            next_part: NextPart::Head { informational: 0 },
        }
    }

    /// Returns a stream that a client opened with the headers of a request.
    pub(super) fn accept(
        id: StreamId,
        send_window: u32,
        section: &Section,
        end_stream: bool,
    ) -> Result<Self, StreamError> {
        section.check_request()?;
        let mut stream = Self::open(id, send_window);
        let left = section.content_length;
        stream.next_part = NextPart::Content { left };
        if end_stream {
            stream.receive_end()?;
        }
        Ok(stream)
    }

    /// Processes a DATA frame with `content` octets, which takes `cost` octets from the window.
    pub(super) fn receive_data(
        &mut self,
        content: usize,
        cost: u32,
        end_stream: bool,
    ) -> Result<(), StreamError> {
        self.check_can_receive(FrameType::DATA)?;
        // mutation: a stream takes more content than its window allows
        self.receive.receive(cost).map_err(StreamError::Window)?;
        let NextPart::Content { left } = &mut self.next_part else {
            return Err(Malformed::DataBeforeHeaders.into());
        };
        if let Some(left) = left {
            let rest = left.checked_sub(content as u64);
            *left = rest.ok_or(Malformed::ContentLength)?;
        }
        if end_stream {
            self.receive_end()?;
        }
        Ok(())
    }

    /// Processes a header block; returns the status of a response, final or 1xx, or `None` if the
    /// block has trailers.
    pub(super) fn receive_headers(
        &mut self,
        section: &Section,
        end_stream: bool,
    ) -> Result<Option<u16>, StreamError> {
        self.check_can_receive(FrameType::HEADERS)?;
        let status = match self.next_part {
            NextPart::Head { informational } => Some(self.receive_head(section, informational)?),
            NextPart::Content { .. } => {
                section.check_trailers()?;
                None
            }
        };
        match (status, end_stream) {
            // RFC 9113 §8.1: "An endpoint that receives a HEADERS frame without the END_STREAM flag
            // set after receiving the HEADERS frame that opens a request or after receiving a final
            // (non-informational) status code MUST treat the corresponding request or response as
            // malformed."
            (None, false) => return Err(Malformed::TrailersWithoutEnd.into()),
            // §8.1: "A HEADERS frame with the END_STREAM flag set that carries an informational
            // status code is malformed."
            (Some(100..=199), true) => return Err(Malformed::Informational.into()),
            (_, true) => self.receive_end()?,
            (_, false) => {}
        }
        Ok(status)
    }

    /// Processes the headers of a response; returns its status, which may be 1xx.
    fn receive_head(&mut self, section: &Section, informational: u8) -> Result<u16, StreamError> {
        let status = section.check_response()?;
        self.next_part = match status {
            // §8.6: "HTTP/2 does not support the 101 (Switching Protocols) informational status
            // code."
            101 => return Err(Malformed::Informational.into()),
            100..=199 if informational == config::MAX_INFORMATIONAL => {
                return Err(StreamError::TooManyInformational);
            }
            100..=199 => NextPart::Head {
                informational: informational + 1,
            },
            // RFC 9110 §15.3.5, §15.4.5: these have no content, whatever `content-length` is given.
            204 | 304 => NextPart::Content { left: None },
            _ => NextPart::Content {
                left: section.content_length,
            },
        };
        Ok(status)
    }

    /// Checks that the peer has not ended its side.
    ///
    /// RFC 9113 §5.1, half-closed (remote): "If an endpoint receives additional frames, other than
    /// WINDOW_UPDATE, PRIORITY, or RST_STREAM, for a stream that is in this state, it MUST respond
    /// with a stream error [...] of type STREAM_CLOSED."
    fn check_can_receive(&self, kind: FrameType) -> Result<(), StreamError> {
        if self.can_receive {
            Ok(())
        } else {
            Err(StreamError::AfterEnd(kind))
        }
    }

    /// Processes the peer's END_STREAM.
    ///
    /// RFC 9113 §8.1.1: "A request or response is also malformed if the value of a Content-Length
    /// header field does not equal the sum of the DATA frame payload lengths that form the
    /// content, unless the message is defined as having no content."
    fn receive_end(&mut self) -> Result<(), StreamError> {
        if matches!(self.next_part, NextPart::Content { left: Some(1..) }) {
            return Err(Malformed::ContentLength.into());
        }
        self.can_receive = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_the_end_of_the_peers_side() {
        let mut fields = super::super::Fields::default();
        let mut section = Section::default();
        for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/")] {
            section.add_field(name.as_bytes(), value.as_bytes(), &mut fields);
        }
        let mut stream = Stream::accept(StreamId::FIRST, 0, &section, true).expect("a request");
        assert!(stream.can_send && !stream.can_receive);
        let data = Err(StreamError::AfterEnd(FrameType::DATA));
        assert_eq!(stream.receive_data(0, 0, true), data);
        let headers = Err(StreamError::AfterEnd(FrameType::HEADERS));
        assert_eq!(stream.receive_headers(&section, true), headers);
    }
}

//! The requests of the caller: to open a stream, send on it, release data, and reset it.

use std::fmt;

use super::super::StreamId;
use super::super::error::{ConnectionError, ErrorCode};
use super::super::frame::{
    Data, GoAway, HEAD, Headers, INITIAL_MAX_FRAME_SIZE, RstStream, WindowUpdate,
};
use super::super::role::Role;
use super::super::settings::INITIAL_WINDOW;
use super::super::stream::Stream;
use super::Connection;
use super::core::Core;
use crate::config;
use crate::hpack::Encoder;
use crate::time::Time;

/// The reason why a stream was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// Not now: the peer does not allow more streams, or does not read. Try again after the next
    /// event or write.
    Later,
    /// Never on this connection, which is closing or closed.
    Closing(ConnectionError),
    /// Never with these fields: they exceed what the peer accepts or what we send.
    TooLarge,
    /// Never on this connection: its stream numbers are exhausted.
    Exhausted,
}

/// The reason why headers were not sent on an open stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadersError {
    /// Not now: the peer does not read. Try again after the next write.
    Later,
    /// Never: they exceed what the peer accepts or what we send.
    TooLarge,
}

/// The amount of data that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All, and the end of the stream if requested.
    All,
    /// This many octets: a window or the buffer is full. Try again with the rest after the next
    /// event or write.
    Some(usize),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Later => f.write_str(
                "cannot open a stream now: too many streams are open, or too much data is unsent",
            ),
            Self::Closing(error) => write!(
                f,
                "cannot open a stream on a connection that is closing: {error}"
            ),
            Self::TooLarge => f.write_str("the headers are too large"),
            Self::Exhausted => f.write_str("the stream identifiers are exhausted"),
        }
    }
}

impl std::error::Error for OpenError {}

impl fmt::Display for HeadersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Later => "the peer reads too slowly: too much data is unsent",
            Self::TooLarge => "the headers are too large",
        })
    }
}

impl std::error::Error for HeadersError {}

impl Connection {
    /// Opens a stream with the headers of a request; `end_stream` if they are the whole request. A
    /// server cannot open streams: its stream numbers count as exhausted.
    pub fn open(
        &mut self,
        fields: &[(&str, &[u8])],
        end_stream: bool,
        now: Time,
    ) -> Result<StreamId, OpenError> {
        self.open_with(&mut |block| put(fields, block), end_stream, now)
    }

    /// Opens a stream with headers that `write` adds to the block, which may be pre-encoded in
    /// part.
    pub(crate) fn open_with(
        &mut self,
        write: &mut dyn FnMut(&mut Encoder<'_>),
        end_stream: bool,
        now: Time,
    ) -> Result<StreamId, OpenError> {
        self.core.at(now);
        if let Some(error) = self.closing() {
            return Err(OpenError::Closing(error));
        }
        let opened = self.core.open(write, end_stream);
        self.core.watch_writing();
        opened
    }

    /// Sends the headers of a response, or its trailers with `end_stream`.
    ///
    /// Does nothing on a stream that has ended.
    pub fn send_headers(
        &mut self,
        stream: StreamId,
        fields: &[(&str, &[u8])],
        end_stream: bool,
        now: Time,
    ) -> Result<(), HeadersError> {
        self.core.at(now);
        let sent = self.core.send_headers(stream, fields, end_stream);
        self.core.watch_writing();
        sent
    }

    /// Sends as much content on a stream as the windows and the buffer allow.
    ///
    /// On a stream that has ended, all content is taken and dropped.
    pub fn send_data(
        &mut self,
        stream: StreamId,
        data: &[u8],
        end_stream: bool,
        now: Time,
    ) -> Taken {
        self.core.at(now);
        let taken = self.core.send_data(stream, data, end_stream);
        self.core.watch_writing();
        taken
    }

    /// Returns `octets` to a stream's window, after they were received in [`Event::Data`] and
    /// consumed.
    ///
    /// [`Event::Data`]: super::Event::Data
    pub fn consume(&mut self, stream: StreamId, octets: usize, now: Time) {
        self.core.at(now);
        self.core
            .release(stream, u32::try_from(octets).unwrap_or(u32::MAX));
        self.core.watch_writing();
    }

    /// Resets a stream, unless it has already ended.
    ///
    /// The RST_STREAM does not wait for data that waits for a window.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, now: Time) {
        self.core.at(now);
        self.core.reset(stream, code);
        self.core.watch_writing();
    }

    /// Sends GOAWAY with the last stream that was accepted. Neither side can open streams from now
    /// on, and the connection ends with the last open stream.
    pub fn shutdown(&mut self, now: Time) {
        self.core.at(now);
        if self.is_ended() || self.core.goaway_sent {
            return;
        }
        self.core.goaway_sent = true;
        let goaway = GoAway::encode(self.core.last_peer_stream, ErrorCode::NO_ERROR);
        self.core.outbox.push_control(&goaway);
        self.core.watch_writing();
    }

    /// Returns whether some of the stream's headers were written, so that the peer may have seen
    /// them.
    pub fn was_written(&self, stream: StreamId) -> bool {
        self.core.outbox.has_begun(stream)
    }
}

impl Core {
    /// Opens a stream.
    fn open(
        &mut self,
        write: &mut dyn FnMut(&mut Encoder<'_>),
        end_stream: bool,
    ) -> Result<StreamId, OpenError> {
        let peer = self.peer.as_ref();
        let max_streams = peer.and_then(|peer| peer.max_concurrent_streams);
        let window = peer.map_or(INITIAL_WINDOW, |peer| peer.initial_window_size);
        // RFC 9113 §5.1.2: "Endpoints MUST NOT exceed the limit set by their peer."
        if is_above(self.streams.count() + 1, max_streams) || !self.outbox.has_room() {
            return Err(OpenError::Later);
        }
        let id = self.streams.next_id().ok_or(OpenError::Exhausted)?;
        self.push_headers(id, write, end_stream)
            .map_err(|TooLarge| OpenError::TooLarge)?;
        let mut stream = Stream::open(id, window);
        if end_stream {
            stream.end_sent();
        }
        self.streams.insert(stream);
        Ok(id)
    }

    /// Sends headers on an open stream.
    fn send_headers(
        &mut self,
        id: StreamId,
        fields: &[(&str, &[u8])],
        end_stream: bool,
    ) -> Result<(), HeadersError> {
        let stream = self.streams.get(id);
        if stream.is_none_or(|stream| !stream.state.can_send()) {
            return Ok(());
        }
        if !self.outbox.has_room() {
            return Err(HeadersError::Later);
        }
        self.push_headers(id, &mut |block| put(fields, block), end_stream)
            .map_err(|TooLarge| HeadersError::TooLarge)?;
        self.flood.progress();
        if end_stream {
            self.end_sent(id);
        }
        Ok(())
    }

    /// Records that END_STREAM was queued on a stream.
    fn end_sent(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get(id) {
            stream.end_sent();
        }
        if self.role == Role::Server {
            self.flood.answered();
        }
        self.streams.remove_if_closed(id);
    }

    /// Queues a HEADERS frame with the whole block. CONTINUATION is never sent: C-core and java
    /// refuse blocks that do not fit one frame anyway.
    fn push_headers(
        &mut self,
        stream: StreamId,
        write: &mut dyn FnMut(&mut Encoder<'_>),
        end_stream: bool,
    ) -> Result<(), TooLarge> {
        let peer = self.peer.as_ref();
        let max_list = peer.and_then(|peer| peer.max_header_list_size);
        let mut fits = true;
        self.outbox.push(|out| {
            let begin = out.len();
            out.extend_from_slice(&[0; HEAD]);
            let mut block = Encoder::begin(out);
            write(&mut block);
            let is_accepted = !is_above(block.list_size(), max_list);
            let length = out.len() - begin - HEAD;
            fits = is_accepted && length <= config::MAX_SENT_HEADER_BLOCK;
            if fits {
                let head = Headers::head(stream, length, end_stream).encode();
                out[begin..begin + HEAD].copy_from_slice(&head);
            } else {
                out.truncate(begin);
            }
        });
        if fits { Ok(()) } else { Err(TooLarge) }
    }

    /// Queues as many DATA frames as the windows and the buffer allow.
    fn send_data(&mut self, id: StreamId, data: &[u8], end_stream: bool) -> Taken {
        let mut taken = 0;
        loop {
            let connection = self.send.available();
            let Some(stream) = self.streams.get(id).filter(|s| s.state.can_send()) else {
                return Taken::All;
            };
            let rest = &data[taken..];
            // RFC 9113 §6.9.1: "The sender MUST NOT send a flow-controlled frame with a length that
            // exceeds the space available in either of the flow-control windows". A peer cannot ask
            // for frames smaller than INITIAL_MAX_FRAME_SIZE, and ours are never larger.
            let length = rest
                .len()
                .min(stream.send.available())
                .min(connection)
                .min(INITIAL_MAX_FRAME_SIZE as usize);
            let is_last = length == rest.len();
            // The end of a stream does not need a window. RFC 9113 §6.9.1: "Frames with zero length
            // with the END_STREAM flag set (that is, an empty DATA frame) MAY be sent if there is
            // no available space in either flow-control window."
            if is_last && length == 0 && !end_stream {
                return Taken::All;
            }
            if (length == 0 && !is_last) || !self.outbox.has_room() {
                return Taken::Some(taken);
            }
            stream.send.take(length);
            self.send.take(length);
            let is_end = is_last && end_stream;
            self.outbox.push(|out| {
                out.extend_from_slice(&Data::head(id, length, is_end).encode());
                out.extend_from_slice(&rest[..length]);
            });
            self.flood.progress();
            taken += length;
            if is_end {
                self.end_sent(id);
            }
            if is_last {
                return Taken::All;
            }
        }
    }

    /// Returns octets to a stream's window, unless the peer has ended its side.
    pub(super) fn release(&mut self, id: StreamId, octets: u32) {
        let Some(stream) = self.streams.get(id).filter(|s| s.state.can_receive()) else {
            return;
        };
        if let Some(increment) = stream.receive.release(octets) {
            self.update_window(WindowUpdate {
                stream: Some(id),
                increment,
            });
        }
    }

    /// Resets a stream that is open.
    pub(super) fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if self.streams.get(stream).is_none() {
            return;
        }
        self.outbox
            .push_control(&RstStream { stream, code }.encode());
        self.streams.ended_by_us(stream);
    }
}

/// The error for headers that exceed what the peer accepts or what we send.
struct TooLarge;

/// Adds fields to a header block.
fn put(fields: &[(&str, &[u8])], block: &mut Encoder<'_>) {
    for (name, value) in fields {
        block.field(name, value);
    }
}

/// Returns whether a number is above the peer's limit, if it has one.
fn is_above(number: usize, limit: Option<u32>) -> bool {
    limit.is_some_and(|limit| u32::try_from(number).map_or(true, |number| number > limit))
}

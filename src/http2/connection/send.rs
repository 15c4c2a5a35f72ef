//! What the caller wants done: streams opened, fed, given back, ended.

use std::fmt;

use super::super::StreamId;
use super::super::error::{ConnectionError, ErrorCode};
use super::super::frame::{
    Data, GoAway, HEAD, Headers, INITIAL_MAX_FRAME_SIZE, Reset, WindowUpdate,
};
use super::super::role::Role;
use super::super::settings::INITIAL_WINDOW;
use super::super::stream::Stream;
use super::Connection;
use super::core::Core;
use crate::config;
use crate::hpack::Encoder;
use crate::time::Time;

/// Why a stream was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// Not now: the peer allows no more streams, or does not read. Try again when an event came or
    /// something was written.
    Later,
    /// Never on this connection.
    Closing(ConnectionError),
    /// Never with these fields: they are more than the peer accepts, or than we send.
    TooLarge,
    /// Never on this connection: its stream numbers have run out.
    Exhausted,
}

/// Why headers were not sent on a stream that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadersError {
    /// Not now: the peer does not read. Try again when something was written.
    Later,
    /// Never: they are more than the peer accepts, or than we send.
    TooLarge,
}

/// How much of some data was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All, and the stream's end where that was asked for.
    All,
    /// So many octets: the windows or the buffer are full. Try again with the rest when an event
    /// came or something was written.
    Some(usize),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Later => f.write_str("no stream can be opened now"),
            Self::Closing(error) => write!(f, "no stream can be opened any more: {error}"),
            Self::TooLarge => f.write_str("the headers are too large"),
            Self::Exhausted => f.write_str("the stream numbers have run out"),
        }
    }
}

impl std::error::Error for OpenError {}

impl fmt::Display for HeadersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Later => "the peer leaves too much unread",
            Self::TooLarge => "the headers are too large",
        })
    }
}

impl std::error::Error for HeadersError {}

impl Connection {
    /// Opens a stream with a request's headers; `end_stream` when that is all of the request.
    /// Servers open none: for them the numbers have run out from the start.
    pub fn open(
        &mut self,
        fields: &[(&str, &[u8])],
        end_stream: bool,
        now: Time,
    ) -> Result<StreamId, OpenError> {
        self.open_with(&mut |block| put(fields, block), end_stream, now)
    }

    /// The same with headers that `write` puts into the block, which may be in part encoded before.
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

    /// Sends the headers of an answer on a stream, or its trailers with `end_stream`.
    ///
    /// On a stream that has ended there is nothing left to do.
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

    /// Sends content on a stream: as much of it as the windows and the buffer allow.
    ///
    /// On a stream that has ended there is nothing left to do, so all is taken.
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

    /// Gives the peer back `octets` of a stream's window, after they came in [`Event::Data`] and
    /// were used up.
    ///
    /// [`Event::Data`]: super::Event::Data
    pub fn consume(&mut self, stream: StreamId, octets: usize, now: Time) {
        self.core.at(now);
        self.core
            .release(stream, u32::try_from(octets).unwrap_or(u32::MAX));
        self.core.watch_writing();
    }

    /// Ends a stream by force; nothing when it has ended already.
    ///
    /// Data that waits for a window does not hold this up.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, now: Time) {
        self.core.at(now);
        self.core.reset(stream, code);
        self.core.watch_writing();
    }

    /// Says goodbye: no stream can be opened any more, by either side, and the connection ends with
    /// the last one. The peer is told up to which of its streams it will be answered.
    pub fn shutdown(&mut self, now: Time) {
        self.core.at(now);
        if self.is_ended() || self.core.leaving {
            return;
        }
        self.core.leaving = true;
        let goaway = GoAway::encode(self.core.last_peer_stream, ErrorCode::NO_ERROR);
        self.core.outbox.push_control(&goaway);
        self.core.watch_writing();
    }

    /// Whether some of the stream's request was written, so that the peer may have seen it.
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

    /// Sends headers on a stream that is open.
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
        self.patience.progress();
        if end_stream {
            self.end_sent(id);
        }
        Ok(())
    }

    /// Counts our END_STREAM on a stream.
    fn end_sent(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get(id) {
            stream.end_sent();
        }
        if self.role == Role::Server {
            self.patience.answered();
        }
        self.streams.remove_if_closed(id);
    }

    /// Queues a HEADERS frame with the whole block; C-core and java refuse larger blocks than fit
    /// one frame anyway, so we never send CONTINUATION.
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

    /// Queues as many DATA frames as may be.
    fn send_data(&mut self, id: StreamId, data: &[u8], end_stream: bool) -> Taken {
        let mut taken = 0;
        loop {
            let connection = self.send.available();
            let Some(stream) = self.streams.get(id).filter(|s| s.state.can_send()) else {
                return Taken::All;
            };
            let rest = &data[taken..];
            // RFC 9113 §6.9.1: "The sender MUST NOT send a flow-controlled frame with a length that
            // exceeds the space available in either of the flow-control windows". No peer may ask
            // for smaller frames than INITIAL_MAX_FRAME_SIZE, and none of ours is larger.
            let length = rest
                .len()
                .min(stream.send.available())
                .min(connection)
                .min(INITIAL_MAX_FRAME_SIZE as usize);
            let is_last = length == rest.len();
            // "Frames with zero length with the END_STREAM flag set (that is, an empty DATA frame)
            // MAY be sent if there is no available space in either flow-control window."
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
            self.patience.progress();
            taken += length;
            if is_end {
                self.end_sent(id);
            }
            if is_last {
                return Taken::All;
            }
        }
    }

    /// Gives the peer back a part of a stream's window, unless it sends nothing more there.
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

    /// Ends a stream by force, if it has not ended.
    pub(super) fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if self.streams.get(stream).is_none() {
            return;
        }
        self.outbox.push_control(&Reset { stream, code }.encode());
        self.streams.ended_by_us(stream);
    }
}

/// Headers that are more than the peer accepts, or than we send.
struct TooLarge;

/// Puts fields into a header block.
fn put(fields: &[(&str, &[u8])], block: &mut Encoder<'_>) {
    for (name, value) in fields {
        block.field(name, value);
    }
}

/// Whether a number is above a limit of the peer's.
fn is_above(number: usize, limit: Option<u32>) -> bool {
    limit.is_some_and(|limit| u32::try_from(number).map_or(true, |number| number > limit))
}

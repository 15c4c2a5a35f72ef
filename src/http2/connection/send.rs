//! What the caller requests: opening a stream, sending on it, releasing its data, resetting it, and
//! shutting down the connection.

use super::super::StreamId;
use super::super::error::{ConnectionError, ErrorCode};
use super::super::frame::{HEAD, Head, INITIAL_MAX_FRAME_SIZE, flag};
use super::super::frame_type::FrameType;
use super::super::settings::Role;
use super::super::stream::Stream;
use super::Connection;
use crate::config;
use crate::hpack::Encoder;
use crate::time::Time;

/// The reason why a stream was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not now: the peer does not allow more streams, or does not read. Try again after the next
    /// write, or when events were polled.
    #[error("cannot open a stream now: too many streams are open, or too much data is unsent")]
    Later,
    /// Never on this connection, which is closing or closed.
    #[error("cannot open a stream on a connection that is closing: {0}")]
    Closing(ConnectionError),
    /// Never with these fields: they exceed the peer's limit, or that of this end.
    #[error("the headers are too large")]
    TooLarge,
    /// Never on this connection: its stream identifiers are exhausted.
    #[error("the stream identifiers are exhausted")]
    Exhausted,
}

/// The reason why headers were not sent on an open stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadersError {
    /// Not now: the peer does not read. Try again after the next write.
    #[error("the peer reads too slowly: too much data is unsent")]
    Later,
    /// Never: the headers exceed the peer's limit, or that of this end.
    #[error("the headers are too large")]
    TooLarge,
}

/// The amount of data that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// All, and the end of the stream if requested.
    All,
    /// This many octets: a window is exhausted, or the buffer is full. Try again with the rest
    /// after the next write, or when events were polled.
    Some(usize),
}

impl Connection {
    /// Opens a stream with the headers of a request; `end_stream` if they are the whole request. A
    /// server cannot open streams: its stream identifiers count as exhausted.
    pub fn open(
        &mut self,
        fields: &[(&str, &[u8])],
        end_stream: bool,
        now: Time,
    ) -> Result<StreamId, OpenError> {
        self.open_with(&mut |block| add_fields(fields, block), end_stream, now)
    }

    /// Opens a stream with the headers that `write` adds to the block; some of them may be
    /// pre-encoded.
    pub(crate) fn open_with(
        &mut self,
        write: &mut dyn FnMut(&mut Encoder<'_>),
        end_stream: bool,
        now: Time,
    ) -> Result<StreamId, OpenError> {
        self.advance_time_to(now);
        if let Some(error) = self.close_reason() {
            return Err(OpenError::Closing(error));
        }
        // RFC 9113 §5.1.2: "Endpoints MUST NOT exceed the limit set by their peer."
        let streams = self.streams.open.len() + 1;
        if is_above(streams, self.peer.max_concurrent_streams) || !self.has_room() {
            return Err(OpenError::Later);
        }
        let id = self.streams.next_id().ok_or(OpenError::Exhausted)?;
        if !self.push_headers(id, write, end_stream) {
            return Err(OpenError::TooLarge);
        }
        let mut stream = Stream::open(id, self.peer.initial_window_size);
        stream.can_send = !end_stream;
        self.streams.insert(stream);
        Ok(id)
    }

    /// Returns whether headers and data can be queued: not too much is unsent.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.has_room()
    }

    /// Sends the headers of a response, or its trailers with `end_stream`.
    ///
    /// Does nothing on a stream that has ended, or whose END_STREAM was already sent.
    pub fn send_headers(
        &mut self,
        stream: StreamId,
        fields: &[(&str, &[u8])],
        end_stream: bool,
        now: Time,
    ) -> Result<(), HeadersError> {
        self.advance_time_to(now);
        if self.streams.get_mut(stream).is_none_or(|it| !it.can_send) {
            return Ok(());
        }
        if !self.has_room() {
            return Err(HeadersError::Later);
        }
        if !self.push_headers(stream, &mut |block| add_fields(fields, block), end_stream) {
            return Err(HeadersError::TooLarge);
        }
        self.flood.record_progress();
        if let Some(open) = self.streams.get_mut(stream) {
            open.is_answered = true;
        }
        if end_stream {
            self.record_end_sent(stream);
        }
        Ok(())
    }

    /// Records that END_STREAM was queued on a stream.
    fn record_end_sent(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.can_send = false;
        }
        if matches!(self.role, Role::Server) {
            self.flood.count_answered_request();
        }
        self.streams.remove_if_closed(id);
    }

    /// Queues a HEADERS frame with the whole block; returns `false`, and queues nothing, if the
    /// block exceeds the peer's limit or [`config::MAX_SENT_HEADER_BLOCK`]. CONTINUATION is never
    /// sent: C-core and grpc-java reject blocks that do not fit in one frame anyway.
    fn push_headers(
        &mut self,
        stream: StreamId,
        write: &mut dyn FnMut(&mut Encoder<'_>),
        end_stream: bool,
    ) -> bool {
        let Some(out) = self.outbox.queue_buf() else {
            return true;
        };
        let begin = out.len();
        out.extend_from_slice(&[0; HEAD]);
        let mut block = Encoder::begin(out);
        write(&mut block);
        let is_accepted = !is_above(block.list_size, self.peer.max_header_list_size);
        let length = out.len() - begin - HEAD;
        let fits = is_accepted && length <= config::MAX_SENT_HEADER_BLOCK;
        if fits {
            let flags = flag::END_HEADERS | end_stream_flag(end_stream);
            let head = Head::new(FrameType::HEADERS, flags, stream.get(), length);
            out[begin..begin + HEAD].copy_from_slice(&head.encode());
        } else {
            out.truncate(begin);
        }
        fits
    }

    /// Sends as much content on a stream as the windows and the buffer allow.
    ///
    /// On a stream that has ended, or whose END_STREAM was already sent, all content is taken and
    /// dropped.
    pub fn send_data(
        &mut self,
        stream: StreamId,
        data: &[u8],
        end_stream: bool,
        now: Time,
    ) -> Taken {
        self.advance_time_to(now);
        let open = match self.streams.get_mut(stream) {
            Some(open) if open.can_send => open,
            _ => return Taken::All,
        };
        let mut rest = data;
        let is_all = loop {
            // RFC 9113 §6.9.1: "The sender MUST NOT send a flow-controlled frame with a length that
            // exceeds the space available in either of the flow-control windows". A peer cannot ask
            // for frames smaller than INITIAL_MAX_FRAME_SIZE, and larger ones are never sent.
            let window = open
                .send
                .available_octets()
                .min(self.send.available_octets());
            let length = rest.len().min(window).min(INITIAL_MAX_FRAME_SIZE as usize);
            let is_last = length == rest.len();
            // The end of a stream does not need a window. RFC 9113 §6.9.1: "Frames with zero length
            // with the END_STREAM flag set (that is, an empty DATA frame) MAY be sent if there is
            // no available space in either flow-control window."
            if length == 0 && !(is_last && end_stream) {
                break is_last;
            }
            if !self.outbox.has_room() {
                break false;
            }
            open.send.take(length);
            self.send.take(length);
            let flags = end_stream_flag(is_last && end_stream);
            let (now_sent, later) = rest.split_at(length);
            self.outbox
                .push(FrameType::DATA, flags, stream.get(), now_sent);
            self.flood.record_progress();
            rest = later;
            if is_last {
                break true;
            }
        };
        open.is_answered = is_all;
        if !is_all {
            return Taken::Some(data.len() - rest.len());
        }
        if end_stream {
            self.record_end_sent(stream);
        }
        Taken::All
    }

    /// Returns `octets` to a stream's window, after they were received in [`Event::Data`] and
    /// consumed.
    ///
    /// [`Event::Data`]: super::Event::Data
    pub fn consume(&mut self, stream: StreamId, octets: usize, now: Time) {
        self.advance_time_to(now);
        let octets = u32::try_from(octets).unwrap_or(u32::MAX);
        let increment = match self.streams.get_mut(stream) {
            Some(open) if open.can_receive => open.receive.release(octets),
            // The stream, or the peer's side of it, has ended: the peer needs no window.
            _ => None,
        };
        if let Some(increment) = increment {
            self.insert_window_update(stream.get(), increment);
        }
    }

    /// Queues a WINDOW_UPDATE for a stream, or for the connection if `stream` is 0.
    pub(super) fn insert_window_update(&mut self, stream: u32, increment: u32) {
        let increment = increment.to_be_bytes();
        self.outbox
            .insert_control(FrameType::WINDOW_UPDATE, 0, stream, &increment);
    }

    /// Resets a stream, unless it has already ended.
    ///
    /// The RST_STREAM is queued at once, even if content of the stream still waits for a window.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, now: Time) {
        self.advance_time_to(now);
        if self.streams.get_mut(stream).is_some() {
            let code = code.0.to_be_bytes();
            self.outbox
                .push(FrameType::RST_STREAM, 0, stream.get(), &code);
            self.streams.remove(stream, false);
        }
    }

    /// Sends GOAWAY with the last stream that was accepted. Neither side can open streams from now
    /// on, and the connection ends with the last open stream.
    pub fn shutdown(&mut self, now: Time) {
        self.advance_time_to(now);
        if !self.is_ended() && !self.goaway_sent {
            self.goaway_sent = true;
            self.push_goaway(ErrorCode::NO_ERROR);
        }
    }

    /// Returns whether a part of the headers with which this client opened the stream was written,
    /// so that the server may have received them. The result means nothing on a server.
    pub fn was_written(&self, stream: StreamId) -> bool {
        self.outbox.has_begun(stream)
    }
}

/// Adds fields to a header block.
fn add_fields(fields: &[(&str, &[u8])], block: &mut Encoder<'_>) {
    for (name, value) in fields {
        block.field(name, value);
    }
}

/// Returns the flag END_STREAM if the frame ends its stream, else 0. PADDED is never set, because
/// C-core does not accept padding.
fn end_stream_flag(end_stream: bool) -> u8 {
    if end_stream { flag::END_STREAM } else { 0 }
}

/// Returns whether a number is above the peer's limit; `None` means that the peer has none.
fn is_above(number: usize, limit: Option<u32>) -> bool {
    match (limit, u32::try_from(number)) {
        (None, _) => false,
        (Some(limit), Ok(number)) => number > limit,
        (Some(_), Err(_)) => true,
    }
}

//! Processes received frames: one function for each type.
//!
//! A [`Violation`] ends the connection. A [`StreamError`] ends the stream: the stream is reset, and
//! the error is reported as an event. A request with such an error in its headers is refused
//! without an event.
//!
//! A request costs the server work, but the client only one frame. So a request counts as a frame
//! without progress, the number of concurrent requests is limited, and so is the number of requests
//! that a client cancels.

use super::super::StreamId;
use super::super::block::Block;
use super::super::error::{ErrorCode, Excess, GoAwayReceived, StreamError, Violation};
use super::super::fields::Section;
use super::super::frame::{Head, flag};
use super::super::frame_type::FrameType;
use super::super::settings::{self, Role, SettingId};
use super::super::stream::Stream;
use super::super::streams::Found;
use super::{Connection, Event};
use crate::config;

/// The result of processing a frame: an event for the caller, if there is one.
type Received = Result<Option<Event>, Violation>;

impl Connection {
    /// Processes a frame.
    pub(super) fn receive(&mut self, head: Head, payload: &[u8]) -> Received {
        if self.block.is_some() && head.kind != FrameType::CONTINUATION {
            return Err(Violation::InterruptedBlock(head.kind));
        }
        match head.kind {
            FrameType::DATA => self.receive_data(head, payload),
            FrameType::HEADERS => self.receive_headers(head, payload),
            FrameType::PRIORITY => self.receive_priority(head),
            FrameType::RST_STREAM => self.receive_reset(head, payload),
            FrameType::SETTINGS => self.receive_settings(head, payload),
            // RFC 9113 §6.6: "PUSH_PROMISE MUST NOT be sent if the SETTINGS_ENABLE_PUSH setting of
            // the peer endpoint is set to 0."
            FrameType::PUSH_PROMISE => Err(Violation::Push),
            FrameType::PING => self.receive_ping(head, payload),
            FrameType::GOAWAY => self.receive_goaway(head, payload),
            FrameType::WINDOW_UPDATE => self.receive_window_update(head, payload),
            FrameType::CONTINUATION => self.receive_continuation(head, payload),
            // RFC 9113 §4.1: "Implementations MUST ignore and discard frames of unknown types."
            _ => self.count_frame_without_progress(),
        }
    }

    /// Counts a frame that does not advance any call.
    fn count_frame_without_progress(&mut self) -> Received {
        self.flood.count_frame_without_progress(self.now)?;
        Ok(None)
    }

    /// Processes DATA.
    fn receive_data(&mut self, head: Head, payload: &[u8]) -> Received {
        let id = head.stream()?;
        let content = head.unpadded(payload)?.len();
        let end_stream = head.has_flag(flag::END_STREAM);
        // The octets are returned to the connection's window whatever happens to the stream.
        // RFC 9113 §6.9: "A receiver that receives a flow-controlled frame MUST always account for
        // its contribution against the connection flow-control window, unless the receiver treats
        // this as a connection error." §6.1: "The entire DATA frame payload is included in flow
        // control, including the Pad Length and Padding fields if present."
        let received = self.receive.receive(head.length);
        received.map_err(Violation::Window)?;
        if let Some(increment) = self.receive.release(head.length) {
            self.insert_window_update(0, increment);
        }
        let Found::Open(stream) = self.streams.find(head.kind, id)? else {
            return self.count_frame_without_progress();
        };
        if let Err(error) = stream.receive_data(content, head.length, end_stream) {
            return self.fail_stream(id, error);
        }
        if end_stream {
            self.streams.remove_if_closed(id);
        } else if content < payload.len() {
            // Callers do not consume padding, so it is released at once.
            self.consume(id, payload.len() - content, self.now);
        }
        if content == 0 && !end_stream {
            return self.count_frame_without_progress();
        }
        self.flood.record_progress();
        let begin = usize::from(head.has_flag(flag::PADDED));
        self.content = begin..begin + content;
        Ok(Some(Event::Data {
            stream: id,
            end_stream,
        }))
    }

    /// Processes a header block, or its first fragment.
    fn receive_headers(&mut self, head: Head, payload: &[u8]) -> Received {
        let id = head.stream()?;
        let unpadded = head.unpadded(payload)?;
        // A priority is a stream dependency of four octets and a weight of one.
        let priority = if head.has_flag(flag::PRIORITY) { 5 } else { 0 };
        let fragment = unpadded.get(priority..);
        let fragment = fragment.ok_or(Violation::FrameLength(head.kind))?;
        let end_stream = head.has_flag(flag::END_STREAM);
        if head.has_flag(flag::END_HEADERS) {
            return self.receive_block(id, end_stream, fragment);
        }
        // Checked first, so that no fragments are kept if HEADERS on this stream are an error.
        self.streams.find(head.kind, id)?;
        // The memory of an earlier block is not held in addition to this one's.
        self.fields.drop_if_large();
        self.block = Some(Block::new(id, end_stream, fragment, self.now));
        Ok(None)
    }

    /// Processes a further fragment of a header block.
    fn receive_continuation(&mut self, head: Head, fragment: &[u8]) -> Received {
        let id = head.stream()?;
        let mut block = self.block.take().ok_or(Violation::StrayContinuation)?;
        block.append(id, fragment)?;
        if head.has_flag(flag::END_HEADERS) {
            return self.receive_block(block.stream, block.end_stream, &block.octets);
        }
        self.block = Some(block);
        Ok(None)
    }

    /// Processes a complete header block.
    ///
    /// The block is decoded even if its stream has ended, because later blocks depend on it (grpc's
    /// CVE-2023-32731 was caused by skipping one).
    fn receive_block(&mut self, id: StreamId, end_stream: bool, block: &[u8]) -> Received {
        let section = self.decode_block(block)?;
        let stream = match self.streams.find(FrameType::HEADERS, id)? {
            Found::Open(stream) => stream,
            Found::New => return self.receive_request(id, &section, end_stream),
            Found::Ended => return self.count_frame_without_progress(),
        };
        let status = match stream.receive_headers(&section, end_stream) {
            Ok(status) => status,
            Err(error) => return self.fail_stream(id, error),
        };
        if end_stream {
            self.streams.remove_if_closed(id);
        }
        if matches!(status, Some(100..=199)) {
            return self.count_frame_without_progress();
        }
        self.flood.record_progress();
        Ok(Some(match status {
            Some(status) => Event::Response {
                stream: id,
                status,
                end_stream,
            },
            None => Event::Trailers { stream: id },
        }))
    }

    /// Decodes a header block into `fields`.
    fn decode_block(&mut self, block: &[u8]) -> Result<Section, Violation> {
        #[cfg(test)]
        super::super::testing::work::count(block.len());
        let fields = &mut self.fields;
        fields.clear_for_block(block.len());
        let mut section = Section::default();
        self.decoder
            .decode(block, &mut |name, value| {
                section.add_field(name, value, fields);
            })
            .map_err(Violation::Compression)?;
        // mutation: a header block may decode to anything
        if section.size > config::MAX_DECODED_HEADERS {
            return Err(Violation::Excess(Excess::HeaderList));
        }
        Ok(section)
    }

    /// Processes the headers of a request, which open a stream.
    fn receive_request(&mut self, id: StreamId, section: &Section, end_stream: bool) -> Received {
        self.flood.count_frame_without_progress(self.now)?;
        // RFC 9113 §6.8: "Once the GOAWAY is sent, the sender will ignore frames sent on streams
        // initiated by the receiver if the stream has an identifier higher than the included last
        // stream identifier."
        if self.goaway_sent {
            self.streams.record_refused(id);
            return Ok(None);
        }
        // RFC 9113 §5.1.2: "An endpoint that receives a HEADERS frame that causes its advertised
        // concurrent stream limit to be exceeded MUST treat this as a stream error [...] of type
        // PROTOCOL_ERROR or REFUSED_STREAM". With the latter, the client knows that a retry is
        // safe.
        if self.streams.open.len() >= config::MAX_STREAMS as usize {
            self.refuse_stream(id, ErrorCode::REFUSED_STREAM);
            return Ok(None);
        }
        match Stream::accept(id, self.peer.initial_window_size, section, end_stream) {
            Ok(stream) => {
                self.streams.insert(stream);
                self.last_peer_stream = id.get();
                Ok(Some(Event::Request {
                    stream: id,
                    end_stream,
                }))
            }
            Err(error) => {
                self.refuse_stream(id, error.code());
                self.flood.count_cancelled_request(self.now)?;
                Ok(None)
            }
        }
    }

    /// Refuses a stream with RST_STREAM. Nothing is queued for the stream, so the frame may be sent
    /// ahead of frames that are queued for others.
    fn refuse_stream(&mut self, id: StreamId, code: ErrorCode) {
        self.streams.record_refused(id);
        let code = code.0.to_be_bytes();
        self.outbox
            .insert_control(FrameType::RST_STREAM, 0, id.get(), &code);
    }

    /// Processes PRIORITY, which is ignored.
    ///
    /// RFC 9113 §6.3: "A PRIORITY frame with a length other than 5 octets MUST be treated as a
    /// stream error [...] of type FRAME_SIZE_ERROR". The stream may be idle, and an idle stream
    /// cannot be reset, so the error ends the connection.
    fn receive_priority(&mut self, head: Head) -> Received {
        head.stream()?;
        if head.length != 5 {
            return Err(Violation::FrameLength(head.kind));
        }
        self.count_frame_without_progress()
    }

    /// Processes RST_STREAM.
    ///
    /// The frame is ignored on a stream that has already ended: C-core resets with NO_ERROR after
    /// its response, grpc-java resets twice.
    fn receive_reset(&mut self, head: Head, payload: &[u8]) -> Received {
        let id = head.stream()?;
        let code = ErrorCode(u32::from_be_bytes(head.exact_payload(payload)?));
        self.flood.count_frame_without_progress(self.now)?;
        let Found::Open(stream) = self.streams.find(head.kind, id)? else {
            return Ok(None);
        };
        let is_answered = stream.is_answered;
        self.streams.remove(id, true);
        self.count_cancelled_request(is_answered)?;
        Ok(Some(Event::Reset { stream: id, code }))
    }

    /// Applies the peer's settings and acknowledges them.
    ///
    /// RFC 9113 §6.5: "Receipt of a SETTINGS frame with the ACK flag set and a length field value
    /// other than 0 MUST be treated as a connection error [...] of type FRAME_SIZE_ERROR. [...] A
    /// SETTINGS frame with a length other than a multiple of 6 octets MUST be treated as a
    /// connection error [...] of type FRAME_SIZE_ERROR."
    ///
    /// RFC 9113 §6.5.3: "The values in the SETTINGS frame MUST be processed in the order they
    /// appear, with no other frame processing between values. [...] Once all values have been
    /// processed, the recipient MUST immediately emit a SETTINGS frame with the ACK flag set."
    fn receive_settings(&mut self, head: Head, payload: &[u8]) -> Received {
        head.check_stream_zero()?;
        self.flood.count_frame_without_progress(self.now)?;
        // Old versions of C-core acknowledge only together with their response, so nothing waits
        // for the acknowledgement.
        if head.has_flag(flag::ACK) && payload.is_empty() {
            return Ok(None);
        }
        if head.has_flag(flag::ACK) || payload.len() % settings::ENTRY != 0 {
            return Err(Violation::FrameLength(head.kind));
        }
        let values = settings::decode(payload);
        if values.len() > config::MAX_SETTINGS {
            return Err(Violation::Excess(Excess::SettingsEntries));
        }
        for (id, value) in values {
            let before = self.peer.initial_window_size;
            self.peer.apply(id, value, self.role)?;
            if id == SettingId::INITIAL_WINDOW_SIZE {
                self.shift_windows(i64::from(value) - i64::from(before))?;
            }
        }
        self.is_settled = true;
        self.outbox
            .insert_control(FrameType::SETTINGS, flag::ACK, 0, &[]);
        Ok(None)
    }

    /// Adjusts the windows of all open streams to a new INITIAL_WINDOW_SIZE.
    ///
    /// RFC 9113 §6.9.2: "a receiver MUST adjust the size of all stream flow-control windows that it
    /// maintains by the difference between the new value and the old value. [...] An endpoint MUST
    /// treat a change to SETTINGS_INITIAL_WINDOW_SIZE that causes any flow-control window to exceed
    /// the maximum size as a connection error [...] of type FLOW_CONTROL_ERROR."
    fn shift_windows(&mut self, by: i64) -> Result<(), Violation> {
        let mut streams = self.streams.open.iter_mut();
        let shifted = streams.try_for_each(|stream| stream.send.shift(by));
        shifted.map_err(|_| Violation::InitialWindow)
    }

    /// Processes a PING; one that is not an acknowledgement is answered ahead of queued frames.
    fn receive_ping(&mut self, head: Head, payload: &[u8]) -> Received {
        head.check_stream_zero()?;
        let opaque: [u8; 8] = head.exact_payload(payload)?;
        self.flood.count_frame_without_progress(self.now)?;
        if !head.has_flag(flag::ACK) {
            self.outbox
                .insert_control(FrameType::PING, flag::ACK, 0, &opaque);
        }
        Ok(None)
    }

    /// Processes GOAWAY, which the peer may send more than once.
    ///
    /// RFC 9113 §6.8: "Endpoints MUST NOT increase the value they send in the last stream
    /// identifier". A server's GOAWAY refers to the client's streams, so an even identifier is an
    /// error. A client's refers to pushes, which are never sent here, so an even one is valid.
    fn receive_goaway(&mut self, head: Head, payload: &[u8]) -> Received {
        head.check_stream_zero()?;
        let [s1, s2, s3, s4, c1, c2, c3, c4, debug @ ..] = payload else {
            return Err(Violation::FrameLength(head.kind));
        };
        let last_stream = u32::from_be_bytes([s1 & 0x7f, *s2, *s3, *s4]);
        let code = ErrorCode(u32::from_be_bytes([*c1, *c2, *c3, *c4]));
        self.flood.count_frame_without_progress(self.now)?;
        let is_even = matches!(self.role, Role::Client) && last_stream != 0 && last_stream % 2 == 0;
        let before = self.goaway_received.as_ref().map(|gone| gone.last_stream);
        if is_even || before.is_some_and(|before| last_stream > before) {
            return Err(Violation::GoAwayStream(last_stream));
        }
        self.goaway_received = Some(GoAwayReceived {
            last_stream,
            code,
            debug: debug[..debug.len().min(config::MAX_REASON)].to_vec(),
        });
        self.streams.remove_above(last_stream);
        Ok(Some(Event::GoAway { last_stream, code }))
    }

    /// Processes WINDOW_UPDATE.
    fn receive_window_update(&mut self, head: Head, payload: &[u8]) -> Received {
        let increment = u32::from_be_bytes(head.exact_payload(payload)?) & 0x7fff_ffff;
        self.flood.count_frame_without_progress(self.now)?;
        let Some(id) = StreamId::new(head.stream) else {
            // RFC 9113 §6.9: "errors on the connection flow-control window MUST be treated as a
            // connection error".
            let increased = self.send.increase(increment);
            return increased.map(|()| None).map_err(Violation::Window);
        };
        let Found::Open(stream) = self.streams.find(head.kind, id)? else {
            return Ok(None);
        };
        match stream.send.increase(increment) {
            Ok(()) => Ok(None),
            Err(error) => self.fail_stream(id, StreamError::Window(error)),
        }
    }

    /// Resets a stream on which the peer broke a rule.
    fn fail_stream(&mut self, stream: StreamId, error: StreamError) -> Received {
        let is_answered = self
            .streams
            .get_mut(stream)
            .is_some_and(|it| it.is_answered);
        self.reset(stream, error.code(), self.now);
        self.count_cancelled_request(is_answered)?;
        Ok(Some(Event::Failed { stream, error }))
    }

    /// Counts a request whose stream was reset, unless it `is_answered`; does nothing on a client.
    ///
    /// A response of which a part still waits to be queued does not count as an answer: the client
    /// decides how long that part waits, and makes the work useless by resetting the stream.
    fn count_cancelled_request(&mut self, is_answered: bool) -> Result<(), Violation> {
        if matches!(self.role, Role::Client) || is_answered {
            return Ok(());
        }
        self.flood.count_cancelled_request(self.now)
    }
}

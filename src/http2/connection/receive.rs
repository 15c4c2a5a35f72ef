//! The effect of each type of frame.
//!
//! One function for each type. A [`Violation`] ends the connection. A [`StreamError`] ends the
//! stream, which happens here, and is reported as an event.

use super::super::StreamId;
use super::super::block::Block;
use super::super::error::{Excess, GoAwayReceived, StreamError, Violation};
use super::super::fields::Section;
use super::super::frame::{
    Continuation, Data, Entries, Frame, GoAway, Headers, Ping, RstStream, SettingId, SettingsFrame,
    WindowUpdate,
};
use super::super::frame_type::FrameType;
use super::super::role::Role;
use super::super::settings::Settings;
use super::super::stream;
use super::super::streams::Found;
use super::PendingEvent;
use super::core::Core;
use crate::config;

impl Core {
    /// Processes a frame, whose payload begins at `payload` in the input.
    pub(super) fn receive(
        &mut self,
        frame: Frame<'_>,
        payload: usize,
    ) -> Result<Option<PendingEvent>, Violation> {
        if self.block.is_some() && !matches!(frame, Frame::Continuation(_)) {
            return Err(Violation::InterruptedBlock(frame.kind()));
        }
        match frame {
            Frame::Data(data) => self.receive_data(&data, payload),
            Frame::Headers(headers) => self.receive_headers(&headers),
            Frame::Continuation(fragment) => self.receive_continuation(&fragment),
            Frame::RstStream(reset) => self.receive_reset(reset),
            Frame::Settings(SettingsFrame::Values(values)) => self.receive_settings(&values),
            Frame::Ping(ping) => self.receive_ping(ping),
            Frame::GoAway(goaway) => self.receive_goaway(&goaway),
            Frame::WindowUpdate(update) => self.receive_window_update(update),
            // RFC 9113 §6.6: "PUSH_PROMISE MUST NOT be sent if the SETTINGS_ENABLE_PUSH setting of
            // the peer endpoint is set to 0."
            Frame::PushPromise => Err(Violation::Push),
            // Old versions of C-core acknowledge only together with their response, so nothing
            // waits for the acknowledgement.
            Frame::Settings(SettingsFrame::Ack) | Frame::Ignored(_) => self.without_progress(),
        }
    }

    /// Counts a frame that does not advance any call.
    fn without_progress(&mut self) -> Result<Option<PendingEvent>, Violation> {
        self.flood.without_progress(self.now)?;
        Ok(None)
    }

    /// Processes DATA.
    fn receive_data(
        &mut self,
        data: &Data<'_>,
        payload: usize,
    ) -> Result<Option<PendingEvent>, Violation> {
        // The octets are returned to the connection's window whatever happens to the stream.
        // RFC 9113 §6.9: "A receiver that receives a flow-controlled frame MUST always account for
        // its contribution against the connection flow-control window, unless the receiver treats
        // this as a connection error."
        self.receive
            .receive(data.cost)
            .map_err(|_| Violation::WindowExceeded)?;
        if let Some(increment) = self.receive.release(data.cost) {
            self.update_window(WindowUpdate {
                stream: None,
                increment,
            });
        }
        let is_empty = data.content.is_empty();
        if is_empty && !data.end_stream {
            self.flood.empty_data(self.now)?;
        }
        let Found::Open(stream) = self.streams.find(FrameType::Data, data.stream)? else {
            return self.without_progress();
        };
        if let Err(error) = stream.receive_data(data) {
            return self.fail(data.stream, error);
        }
        // Callers do not consume padding, so it is released at once.
        let padding = data.cost - u32::try_from(data.content.len()).unwrap_or(data.cost);
        self.release(data.stream, padding);
        self.streams.remove_if_closed(data.stream);
        if is_empty && !data.end_stream {
            return Ok(None);
        }
        self.flood.progress();
        let begin = payload + data.offset;
        Ok(Some(PendingEvent::Data {
            stream: data.stream,
            at: begin..begin + data.content.len(),
            end_stream: data.end_stream,
        }))
    }

    /// Processes a header block, or its first fragment.
    fn receive_headers(
        &mut self,
        headers: &Headers<'_>,
    ) -> Result<Option<PendingEvent>, Violation> {
        // Checked before fragments are kept.
        self.streams.find(FrameType::Headers, headers.stream)?;
        if headers.is_complete {
            return self.receive_block(headers.stream, headers.end_stream, headers.fragment);
        }
        // The memory of an earlier block is not held in addition to this one's.
        self.fields.shrink();
        self.block = Some(Block::begin(headers, self.now));
        Ok(None)
    }

    /// Processes a further fragment of a header block.
    fn receive_continuation(
        &mut self,
        fragment: &Continuation<'_>,
    ) -> Result<Option<PendingEvent>, Violation> {
        let mut block = self.block.take().ok_or(Violation::StrayContinuation)?;
        if !block.append(fragment)? {
            self.block = Some(block);
            return Ok(None);
        }
        self.receive_block(block.stream, block.end_stream, block.octets())
    }

    /// Processes a complete header block.
    ///
    /// The block is decoded even if its stream has ended, because later blocks depend on it (grpc's
    /// CVE-2023-32731 was caused by skipping one).
    fn receive_block(
        &mut self,
        id: StreamId,
        end_stream: bool,
        block: &[u8],
    ) -> Result<Option<PendingEvent>, Violation> {
        let section = self.decode(block)?;
        let stream = match self.streams.find(FrameType::Headers, id)? {
            Found::Open(stream) => stream,
            Found::New => return self.accept(id, &section, end_stream),
            Found::Ended => return self.without_progress(),
        };
        let received = match stream.receive_headers(&section, end_stream) {
            Ok(received) => received,
            Err(error) => return self.fail(id, error),
        };
        self.streams.remove_if_closed(id);
        match received {
            stream::Headers::Informational => self.without_progress(),
            stream::Headers::Head { status } => {
                self.flood.progress();
                Ok(Some(PendingEvent::Response {
                    stream: id,
                    status,
                    end_stream,
                }))
            }
            stream::Headers::Trailers => {
                self.flood.progress();
                Ok(Some(PendingEvent::Trailers { stream: id }))
            }
        }
    }

    /// Decodes a header block into `fields`.
    fn decode(&mut self, block: &[u8]) -> Result<Section, Violation> {
        #[cfg(test)]
        super::super::testing::work::count(block.len());
        let fields = &mut self.fields;
        fields.begin(block.len());
        let mut section = Section::default();
        self.decoder
            .decode(block, &mut |name, value| section.field(name, value, fields))
            .map_err(Violation::Compression)?;
        if section.is_bomb() {
            return Err(Violation::Excess(Excess::HeaderList));
        }
        Ok(section)
    }

    /// Processes RST_STREAM.
    ///
    /// It is ignored on a stream that has already ended: C-core resets with NO_ERROR after its
    /// response, java resets twice.
    fn receive_reset(&mut self, reset: RstStream) -> Result<Option<PendingEvent>, Violation> {
        self.flood.without_progress(self.now)?;
        let Found::Open(stream) = self.streams.find(FrameType::RstStream, reset.stream)? else {
            return Ok(None);
        };
        let is_answered = stream.is_answered();
        self.streams.ended_by_peer(reset.stream);
        if !is_answered {
            self.cancelled()?;
        }
        Ok(Some(PendingEvent::Reset {
            stream: reset.stream,
            code: reset.code,
        }))
    }

    /// Applies the peer's settings and acknowledges them.
    ///
    /// RFC 9113 §6.5.3: "The values in the SETTINGS frame MUST be processed in the order they
    /// appear, with no other frame processing between values. [...] Once all values have been
    /// processed, the recipient MUST immediately emit a SETTINGS frame with the ACK flag set."
    fn receive_settings(
        &mut self,
        values: &Entries<'_>,
    ) -> Result<Option<PendingEvent>, Violation> {
        self.flood.without_progress(self.now)?;
        if values.count() > config::MAX_SETTINGS {
            return Err(Violation::Excess(Excess::SettingsEntries));
        }
        let mut settings = self.peer.take().unwrap_or_default();
        for (id, value) in values.iter() {
            let before = settings.initial_window_size;
            settings.apply(id, value, self.role)?;
            if id == SettingId::INITIAL_WINDOW_SIZE {
                self.shift_windows(before, &settings)?;
            }
        }
        self.peer = Some(settings);
        self.outbox.answer(&SettingsFrame::ack());
        Ok(None)
    }

    /// Adjusts the windows of all open streams to a new INITIAL_WINDOW_SIZE.
    ///
    /// RFC 9113 §6.9.2: "a receiver MUST adjust the size of all stream flow-control windows that it
    /// maintains by the difference between the new value and the old value. [...] An endpoint MUST
    /// treat a change to SETTINGS_INITIAL_WINDOW_SIZE that causes any flow-control window to exceed
    /// the maximum size as a connection error of type FLOW_CONTROL_ERROR."
    fn shift_windows(&mut self, before: u32, settings: &Settings) -> Result<(), Violation> {
        let by = i64::from(settings.initial_window_size) - i64::from(before);
        for stream in self.streams.iter_mut() {
            stream
                .send
                .shift(by)
                .map_err(|_| Violation::InitialWindow)?;
        }
        Ok(())
    }

    /// Processes a PING; one that is not an acknowledgement is answered ahead of queued frames.
    fn receive_ping(&mut self, ping: Ping) -> Result<Option<PendingEvent>, Violation> {
        self.flood.without_progress(self.now)?;
        if !ping.ack {
            self.outbox.answer(&Ping { ack: true, ..ping }.encode());
        }
        Ok(None)
    }

    /// Processes GOAWAY, which the peer may send more than once.
    ///
    /// RFC 9113 §6.8: "Endpoints MUST NOT increase the value they send in the last stream
    /// identifier". A server's GOAWAY refers to our streams, so an even identifier is an error. A
    /// client's refers to pushes, which we never send.
    fn receive_goaway(&mut self, goaway: &GoAway<'_>) -> Result<Option<PendingEvent>, Violation> {
        self.flood.without_progress(self.now)?;
        let last_stream = goaway.last_stream;
        let is_even = self.role == Role::Client && last_stream != 0 && last_stream % 2 == 0;
        let before = self.goaway_received.as_ref().map(|gone| gone.last_stream);
        if is_even || before.is_some_and(|before| last_stream > before) {
            return Err(Violation::GoAwayStream(last_stream));
        }
        let debug = &goaway.debug[..goaway.debug.len().min(config::MAX_GOAWAY_DEBUG)];
        self.goaway_received = Some(GoAwayReceived {
            last_stream,
            code: goaway.code,
            debug: debug.to_vec(),
        });
        self.streams.remove_above(last_stream);
        Ok(Some(PendingEvent::GoAway {
            last_stream,
            code: goaway.code,
        }))
    }

    /// Processes WINDOW_UPDATE.
    fn receive_window_update(
        &mut self,
        update: WindowUpdate,
    ) -> Result<Option<PendingEvent>, Violation> {
        self.flood.without_progress(self.now)?;
        let by = i64::from(update.increment);
        let Some(id) = update.stream else {
            // RFC 9113 §6.9: "errors on the connection flow-control window MUST be treated as a
            // connection error".
            if by == 0 {
                return Err(Violation::WindowZero);
            }
            return match self.send.shift(by) {
                Ok(()) => Ok(None),
                Err(_) => Err(Violation::WindowOverflow),
            };
        };
        let Found::Open(stream) = self.streams.find(FrameType::WindowUpdate, id)? else {
            return Ok(None);
        };
        if by == 0 {
            return self.fail(id, StreamError::WindowZero);
        }
        match stream.send.shift(by) {
            Ok(()) => Ok(None),
            Err(_) => self.fail(id, StreamError::WindowOverflow),
        }
    }

    /// Resets a stream on which the peer broke a rule.
    fn fail(
        &mut self,
        stream: StreamId,
        error: StreamError,
    ) -> Result<Option<PendingEvent>, Violation> {
        let is_answered = self.streams.get(stream).is_some_and(|it| it.is_answered());
        self.reset(stream, error.code());
        if !is_answered {
            self.cancelled()?;
        }
        Ok(Some(PendingEvent::Failed { stream, error }))
    }
}

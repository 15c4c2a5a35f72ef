//! The streams that a client opens: requests.
//!
//! Pure. A request costs the server work, but the client only one frame. So a request counts as a
//! frame without progress until a response is sent, the number of concurrent requests is limited,
//! and so is the number of requests that a client cancels.

use super::super::StreamId;
use super::super::error::{ErrorCode, StreamError, Violation};
use super::super::fields::Section;
use super::super::frame::RstStream;
use super::super::role::Role;
use super::super::settings::INITIAL_WINDOW;
use super::super::stream::Stream;
use super::PendingEvent;
use super::core::Core;
use crate::config;

impl Core {
    /// Processes the headers that open a stream.
    pub(super) fn accept(
        &mut self,
        id: StreamId,
        section: &Section,
        end_stream: bool,
    ) -> Result<Option<PendingEvent>, Violation> {
        self.flood.without_progress(self.now)?;
        // RFC 9113 §6.8: "Once the GOAWAY is sent, the sender will ignore frames sent on streams
        // initiated by the receiver if the stream has an identifier higher than the included last
        // stream identifier."
        if self.goaway_sent {
            self.streams.refuse(id);
            return Ok(None);
        }
        // RFC 9113 §5.1.2: "An endpoint that receives a HEADERS frame that causes its advertised
        // concurrent stream limit to be exceeded MUST treat this as a stream error of type
        // PROTOCOL_ERROR or REFUSED_STREAM". With the latter, the client knows that a retry is
        // safe.
        if self.streams.count() >= config::MAX_STREAMS as usize {
            self.refuse(id, ErrorCode::REFUSED_STREAM);
            return Ok(None);
        }
        let window = self
            .peer
            .as_ref()
            .map_or(INITIAL_WINDOW, |peer| peer.initial_window_size);
        match Stream::accept(id, window, section, end_stream) {
            Ok(stream) => {
                self.streams.insert(stream);
                self.last_peer_stream = id.get();
                Ok(Some(PendingEvent::Request {
                    stream: id,
                    end_stream,
                }))
            }
            Err(error) => self.reject(id, error),
        }
    }

    /// Counts a request that ended before its complete response, END_STREAM included, was queued.
    ///
    /// A response of which a part waits for a window counts as unanswered: the client decides how
    /// long the response waits, and the work was in vain.
    pub(super) fn cancelled(&mut self) -> Result<(), Violation> {
        match self.role {
            Role::Server => self.flood.cancelled(self.now),
            Role::Client => Ok(()),
        }
    }

    /// Refuses a request that breaks a rule, without an event.
    fn reject(
        &mut self,
        id: StreamId,
        error: StreamError,
    ) -> Result<Option<PendingEvent>, Violation> {
        self.refuse(id, error.code());
        self.cancelled()?;
        Ok(None)
    }

    /// Refuses a stream with RST_STREAM. Nothing is queued for the stream, so the frame may be sent
    /// ahead of frames that are queued for others.
    fn refuse(&mut self, stream: StreamId, code: ErrorCode) {
        self.streams.refuse(stream);
        self.outbox.answer(&RstStream { stream, code }.encode());
    }
}

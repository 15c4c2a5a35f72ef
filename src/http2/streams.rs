//! The streams of a connection: those that are open, and how the last few ended.
//!
//! Streams are opened in the order of their identifiers, and all by the client, because pushes are
//! refused; so they are kept in one list, which needs no sorting. Of the last few streams that
//! ended, only the side that ended each is remembered: late DATA and HEADERS are normal on a stream
//! that this end reset, and an error on one that the peer ended.

use smallvec::SmallVec;

use super::error::Violation;
use super::frame_type::FrameType;
use super::settings::Role;
use super::stream::Stream;
use super::stream_id::StreamId;

/// The streams of one connection.
#[derive(Debug)]
pub(super) struct Streams {
    /// Which end of the connection this is.
    role: Role,
    /// Sorted by identifier. A single stream is stored inline, because nearly every connection
    /// serves one call at a time.
    pub(super) open: SmallVec<[Stream; 1]>,
    /// The highest stream that was opened, always by the client: a server does not push.
    highest: u32,
    /// The last streams that ended, most recent first. A few are enough: a peer that confuses the
    /// state of a stream does so soon after its end.
    ended: [Option<Ended>; 8],
}

/// A record of a stream that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ended {
    stream: StreamId,
    /// Whether the peer ended the stream with END_STREAM or RST_STREAM.
    by_peer: bool,
}

/// The stream of a received frame.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// The stream is open.
    Open(&'a mut Stream),
    /// The stream has ended, and the late frame is to be ignored.
    Ended,
    /// The stream is new: the frame is a client's HEADERS.
    New,
}

impl Streams {
    /// Returns an empty set of streams.
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            open: SmallVec::new(),
            highest: 0,
            ended: Default::default(),
        }
    }

    /// Adds a stream, whose identifier must be higher than all before.
    pub(super) fn insert(&mut self, stream: Stream) {
        debug_assert!(stream.id.get() > self.highest);
        self.highest = stream.id.get();
        self.open.push(stream);
    }

    /// Records a stream that the peer opened and that is not accepted.
    pub(super) fn record_refused(&mut self, id: StreamId) {
        debug_assert!(id.get() > self.highest);
        self.highest = id.get();
        self.record_end(id, false);
    }

    /// Returns the identifier of the next stream that this end opens, or `None` if it cannot open
    /// any.
    pub(super) fn next_id(&self) -> Option<StreamId> {
        if matches!(self.role, Role::Server) {
            return None;
        }
        match self.highest {
            0 => Some(StreamId::FIRST),
            highest => StreamId::new(highest + 2),
        }
    }

    /// Returns the open stream with this identifier.
    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let index = self.index(id)?;
        self.open.get_mut(index)
    }

    /// Finds the stream of a frame from the peer.
    ///
    /// RFC 9113 §5.1, idle: "Receiving any frame other than HEADERS or PRIORITY on a stream in this
    /// state MUST be treated as a connection error [...] of type PROTOCOL_ERROR." HEADERS from a
    /// client open a stream; HEADERS from a server could do so only after a push: §5.1.1: "An
    /// endpoint that receives an unexpected stream identifier MUST respond with a connection error
    /// [...] of type PROTOCOL_ERROR."
    ///
    /// Closed: "An endpoint MAY treat receipt of any other type of frame on a closed stream as a
    /// connection error [...] of type STREAM_CLOSED, except as noted below". The exceptions are
    /// WINDOW_UPDATE, RST_STREAM, and any frame on a stream that this end reset.
    #[inline]
    pub(super) fn find(&mut self, kind: FrameType, id: StreamId) -> Result<Found<'_>, Violation> {
        // §5.1.1: "Streams initiated by a client MUST use odd-numbered stream identifiers".
        let is_of_client = id.get() % 2 == 1;
        if !is_of_client || id.get() > self.highest {
            if let (true, Role::Server, FrameType::HEADERS) = (is_of_client, self.role, kind) {
                return Ok(Found::New);
            }
            return Err(Violation::IdleStream(kind, id.get()));
        }
        match self.index(id) {
            Some(index) => Ok(Found::Open(&mut self.open[index])),
            None => self.check_late_frame(kind, id),
        }
    }

    /// Decides whether a frame on a stream that has ended is ignored or an error.
    ///
    /// RFC 9113 §5.1.1: "The identifier of a newly established stream MUST be numerically greater
    /// than all streams that the initiating endpoint has opened or reserved". HEADERS from a client
    /// are late trailers if this end reset the stream, and count as a request out of order if the
    /// stream has no record.
    fn check_late_frame(&self, kind: FrameType, id: StreamId) -> Result<Found<'_>, Violation> {
        let mut ended = self.ended.iter().flatten();
        let by_peer = ended.find(|ended| ended.stream == id).map(|e| e.by_peer);
        match (kind, by_peer) {
            (FrameType::DATA | FrameType::HEADERS, Some(true)) => {
                Err(Violation::ClosedStream(kind, id))
            }
            (FrameType::HEADERS, None) if matches!(self.role, Role::Server) => {
                Err(Violation::StreamOrder(id.get()))
            }
            _ => Ok(Found::Ended),
        }
    }

    /// Removes a stream, and records whether the peer ended it: by END_STREAM earlier, or now if
    /// `by_peer`.
    pub(super) fn remove(&mut self, id: StreamId, by_peer: bool) {
        if let Some(index) = self.index(id) {
            let stream = self.open.remove(index);
            self.record_end(id, by_peer || !stream.can_receive);
        }
    }

    /// Removes a stream if both sides have ended it.
    #[inline]
    pub(super) fn remove_if_closed(&mut self, id: StreamId) {
        match self.get_mut(id) {
            Some(stream) if !stream.can_send && !stream.can_receive => self.remove(id, true),
            _ => {}
        }
    }

    /// Removes the streams opened by this end above `last`, which the peer has not processed.
    pub(super) fn remove_above(&mut self, last: u32) {
        if matches!(self.role, Role::Client) {
            self.open.retain(|stream| stream.id.get() <= last);
        }
    }

    /// Returns the index of the open stream with this identifier.
    #[inline]
    fn index(&self, id: StreamId) -> Option<usize> {
        // Most frames are on the oldest stream, because most answers come in order.
        if self.open.first()?.id == id {
            return Some(0);
        }
        let found = self.open.binary_search_by_key(&id, |stream| stream.id);
        found.ok()
    }

    /// Records how a stream ended, in place of the oldest record.
    fn record_end(&mut self, stream: StreamId, by_peer: bool) {
        self.ended.rotate_right(1);
        self.ended[0] = Some(Ended { stream, by_peer });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> StreamId {
        StreamId::new(number).expect("a valid number")
    }

    /// Returns the streams of a client, of which 1, 3 and 5 are open.
    fn streams() -> Streams {
        let mut streams = Streams::new(Role::Client);
        for number in [1, 3, 5] {
            assert_eq!(streams.next_id(), Some(id(number)));
            streams.insert(Stream::open(id(number), 0));
        }
        streams
    }

    #[test]
    fn data_on_a_stream_never_opened_is_a_connection_error() {
        for number in [2, 4, 7, 0x7fff_ffff] {
            let found = streams().find(FrameType::DATA, id(number)).map(|_| ());
            assert_eq!(found, Err(Violation::IdleStream(FrameType::DATA, number)));
        }
    }

    #[test]
    fn late_frames_are_ignored_on_a_stream_we_ended() {
        let mut streams = streams();
        streams.remove(id(1), false);
        streams.remove(id(3), true);
        for kind in [FrameType::DATA, FrameType::HEADERS] {
            assert!(matches!(streams.find(kind, id(1)), Ok(Found::Ended)));
            let found = streams.find(kind, id(3)).map(|_| ());
            assert_eq!(found, Err(Violation::ClosedStream(kind, id(3))));
        }
        for kind in [FrameType::RST_STREAM, FrameType::WINDOW_UPDATE] {
            assert!(matches!(streams.find(kind, id(3)), Ok(Found::Ended)));
        }
    }

    #[test]
    fn only_the_streams_above_the_last_are_removed() {
        let mut streams = streams();
        streams.remove_above(3);
        assert_eq!(streams.open.len(), 2);
        assert!(streams.get_mut(id(3)).is_some() && streams.get_mut(id(5)).is_none());
        assert_eq!(streams.next_id(), Some(id(7)));
    }

    #[test]
    fn a_client_opens_streams_in_rising_order() {
        let mut streams = Streams::new(Role::Server);
        assert_eq!(streams.next_id(), None);
        assert!(matches!(
            streams.find(FrameType::HEADERS, id(5)),
            Ok(Found::New)
        ));
        streams.insert(Stream::open(id(5), 0));
        let skipped = streams.find(FrameType::HEADERS, id(3)).map(|_| ());
        assert_eq!(skipped, Err(Violation::StreamOrder(3)));
        streams.remove(id(5), false);
        assert!(matches!(
            streams.find(FrameType::HEADERS, id(5)),
            Ok(Found::Ended)
        ));
        let even = streams.find(FrameType::HEADERS, id(6)).map(|_| ());
        assert_eq!(even, Err(Violation::IdleStream(FrameType::HEADERS, 6)));
        let idle = streams.find(FrameType::DATA, id(7)).map(|_| ());
        assert_eq!(idle, Err(Violation::IdleStream(FrameType::DATA, 7)));
    }

    #[test]
    fn a_client_opens_odd_streams_until_identifiers_run_out() {
        let mut streams = Streams::new(Role::Client);
        for number in [1, 3, 5] {
            assert_eq!(streams.next_id(), Some(id(number)));
            streams.insert(Stream::open(id(number), 0));
        }
        streams.insert(Stream::open(id(0x7fff_ffff), 0));
        assert_eq!(streams.next_id(), None);
    }

    #[test]
    fn memory_does_not_grow_with_the_streams_that_ended() {
        let mut streams = Streams::new(Role::Client);
        for _ in 0..10_000 {
            let id = streams.next_id().expect("there are more");
            streams.insert(Stream::open(id, 0));
            streams.remove(id, true);
        }
        assert!(!streams.open.spilled());
    }
}

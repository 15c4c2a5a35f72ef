//! The streams of a connection: those that are open, and how the last few ended.
//!
//! Pure. Streams are opened in the order of their numbers, so a sorted vector needs no sorting. A
//! stream that has ended is forgotten at once but for a short memory of who ended it, because late
//! frames are natural on a stream that we ended and wrong on one that the peer ended.

use super::StreamId;
use super::error::Violation;
use super::frame::Kind;
use super::stream::{State, Stream};

/// The streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: Vec<Stream>,
    /// The highest stream that was opened.
    highest: u32,
    /// The last streams that ended by the peer's own END_STREAM or RST_STREAM, the latest first.
    ended_by_peer: [Option<StreamId>; REMEMBERED],
}

/// A stream that a frame came on.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// It is open.
    Open(&'a mut Stream),
    /// It has ended, and a late frame on it is to be ignored.
    Ended,
}

impl Streams {
    /// Adds a stream, which is higher than all before.
    pub(super) fn insert(&mut self, stream: Stream) {
        debug_assert!(stream.id.get() > self.highest);
        self.highest = stream.id.get();
        self.open.push(stream);
    }

    /// The number of the next stream that we open, if there are any left.
    pub(super) fn next_id(&self) -> Option<StreamId> {
        StreamId::new(self.highest).map_or(Some(StreamId::FIRST), StreamId::next)
    }

    /// How many streams are open.
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    /// The open stream with this number.
    pub(super) fn get(&mut self, id: StreamId) -> Option<&mut Stream> {
        let index = self.index(id)?;
        self.open.get_mut(index)
    }

    /// The stream that a frame from the peer is on.
    ///
    /// RFC 9113 §5.1, idle: "Receiving any frame other than HEADERS or PRIORITY on a stream in this
    /// state MUST be treated as a connection error of type PROTOCOL_ERROR." HEADERS would open a
    /// stream, which a server can do only after a push: §5.1.1: "An endpoint that receives an
    /// unexpected stream identifier MUST respond with a connection error of type PROTOCOL_ERROR."
    ///
    /// Closed: "An endpoint MAY treat receipt of any other type of frame on a closed stream as a
    /// connection error of type STREAM_CLOSED, except as noted below", which is for WINDOW_UPDATE,
    /// for RST_STREAM, and for anything at all on a stream that we reset.
    pub(super) fn find(&mut self, kind: Kind, id: StreamId) -> Result<Found<'_>, Violation> {
        let is_ours = id.get() % 2 == 1;
        if !is_ours || id.get() > self.highest {
            return Err(Violation::IdleStream(kind, id.get()));
        }
        if let Some(index) = self.index(id) {
            return Ok(Found::Open(&mut self.open[index]));
        }
        let is_message = matches!(kind, Kind::Data | Kind::Headers);
        if is_message && self.ended_by_peer.contains(&Some(id)) {
            return Err(Violation::ClosedStream(kind, id));
        }
        Ok(Found::Ended)
    }

    /// Removes a stream that we ended.
    pub(super) fn ended_by_us(&mut self, id: StreamId) {
        if let Some(index) = self.index(id) {
            let stream = self.open.remove(index);
            if !stream.state.can_receive() {
                self.remember(id);
            }
        }
    }

    /// Removes a stream that the peer ended.
    pub(super) fn ended_by_peer(&mut self, id: StreamId) {
        if let Some(index) = self.index(id) {
            self.open.remove(index);
            self.remember(id);
        }
    }

    /// Removes a stream on which nobody may send any longer.
    pub(super) fn remove_if_closed(&mut self, id: StreamId) {
        let state = self.get(id).map(|stream| stream.state);
        if state == Some(State::Closed) {
            self.ended_by_peer(id);
        }
    }

    /// Removes the streams above `last`, which the peer has not looked at.
    pub(super) fn remove_above(&mut self, last: u32) {
        self.open.retain(|stream| stream.id.get() <= last);
    }

    /// The open streams.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut()
    }

    /// Octets of memory held.
    pub(super) fn mem_used(&self) -> usize {
        self.open.capacity() * size_of::<Stream>()
    }

    /// Where the stream with this number is.
    fn index(&self, id: StreamId) -> Option<usize> {
        self.open.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Remembers that the peer ended the stream, and forgets the one before the last few.
    fn remember(&mut self, id: StreamId) {
        self.ended_by_peer.rotate_right(1);
        self.ended_by_peer[0] = Some(id);
    }
}

/// Of how many ended streams we remember who ended them: a peer that is confused about a stream is
/// so soon after its end, and one that is forgotten is merely ignored.
const REMEMBERED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> StreamId {
        StreamId::new(number).expect("a valid number")
    }

    /// Streams of which 1, 3 and 5 are open.
    fn streams() -> Streams {
        let mut streams = Streams::default();
        for number in [1, 3, 5] {
            assert_eq!(streams.next_id(), Some(id(number)));
            streams.insert(Stream::open(id(number), 0));
        }
        streams
    }

    #[test]
    fn a_frame_on_a_stream_never_opened_or_even_is_a_connection_error() {
        for number in [2, 4, 7, 0x7fff_ffff] {
            let found = streams().find(Kind::Data, id(number)).map(|_| ());
            assert_eq!(found, Err(Violation::IdleStream(Kind::Data, number)));
        }
    }

    #[test]
    fn late_frames_are_ignored_on_a_stream_we_ended_and_wrong_on_one_the_peer_ended() {
        let mut streams = streams();
        streams.ended_by_us(id(1));
        streams.ended_by_peer(id(3));
        for kind in [Kind::Data, Kind::Headers] {
            assert!(matches!(streams.find(kind, id(1)), Ok(Found::Ended)));
            let found = streams.find(kind, id(3)).map(|_| ());
            assert_eq!(found, Err(Violation::ClosedStream(kind, id(3))));
        }
        for kind in [Kind::Reset, Kind::WindowUpdate] {
            assert!(matches!(streams.find(kind, id(3)), Ok(Found::Ended)));
        }
    }

    #[test]
    fn only_the_streams_above_the_last_are_removed() {
        let mut streams = streams();
        streams.remove_above(3);
        assert_eq!(streams.count(), 2);
        assert!(streams.get(id(3)).is_some() && streams.get(id(5)).is_none());
        assert_eq!(streams.next_id(), Some(id(7)));
    }

    #[test]
    fn memory_does_not_grow_with_the_streams_that_ended() {
        let mut streams = Streams::default();
        for _ in 0..10_000 {
            let id = streams.next_id().expect("there are more");
            streams.insert(Stream::open(id, 0));
            streams.ended_by_peer(id);
        }
        assert!(streams.mem_used() < 1024);
    }
}

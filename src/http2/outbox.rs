//! What is to be written and was not yet.
//!
//! Pure. One buffer of whole frames. Answers (PING and SETTINGS acknowledgements, window updates)
//! go ahead of frames that are queued and not begun, so that a peer gets its answer while a large
//! message is under way; everything else keeps its order. How many frames that the peer caused are
//! waiting is counted: a peer that asks and does not read is not listened to any longer.
//!
//! ```text
//! octets: [ sent | rest of a frame | answers ahead of the queue | queued frames ... ]
//!                ^sent             ^next_frame                  ^queue
//! ```

use super::StreamId;
use super::frame::{HEAD, Head, Id, SettingsFrame};
use super::kind::Kind;
use crate::config;

/// The send buffer.
#[derive(Debug)]
pub(super) struct Outbox {
    octets: Vec<u8>,
    /// How much of it is written.
    sent: usize,
    /// Where the first frame begins of which nothing is written.
    next_frame: usize,
    /// Where the frames begin that answers may go ahead of.
    queue: usize,
    /// How many of the frames not begun are there because of the peer.
    answers: u32,
    /// The last stream whose HEADERS are begun; streams are opened in the order of their ids.
    begun: u32,
    /// Nothing can be written any more.
    closed: bool,
}

impl Outbox {
    /// Our first words: the preface, if our role has one, and our SETTINGS.
    ///
    /// RFC 9113 §3.4: "In HTTP/2, each endpoint is required to send a connection preface as a
    /// final confirmation of the protocol in use".
    pub(super) fn new(preface: &[u8], settings: &[(Id, u32)]) -> Self {
        let mut octets = Vec::with_capacity(INITIAL);
        octets.extend_from_slice(preface);
        SettingsFrame::encode(settings, &mut octets);
        Self {
            sent: 0,
            next_frame: preface.len(),
            queue: octets.len(),
            answers: 1,
            begun: 0,
            closed: false,
            octets,
        }
    }

    /// What to write next.
    pub(super) fn transmit(&self) -> &[u8] {
        &self.octets[self.sent..]
    }

    /// Counts octets that were written.
    pub(super) fn sent(&mut self, octets: usize) {
        self.sent = self.sent.saturating_add(octets).min(self.octets.len());
        while self.next_frame < self.sent {
            self.begin_frame();
        }
        self.queue = self.queue.max(self.next_frame);
        if self.sent == self.octets.len() {
            self.rewind();
        }
        self.check_invariants();
    }

    /// Puts an answer ahead of what is queued and not begun.
    pub(super) fn answer(&mut self, frame: &[u8]) {
        if self.closed {
            return;
        }
        self.compact();
        self.octets
            .splice(self.queue..self.queue, frame.iter().copied());
        self.queue += frame.len();
        self.answers += 1;
        self.check_invariants();
    }

    /// Puts a frame of a few octets behind everything else.
    pub(super) fn push_control(&mut self, frame: &[u8]) {
        self.answers += 1;
        self.push(|octets| octets.extend_from_slice(frame));
    }

    /// Puts a frame, which `write` writes whole, behind everything else.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.closed {
            return;
        }
        self.compact();
        write(&mut self.octets);
        self.check_invariants();
    }

    /// Whether the peer reads its answers well enough to be listened to.
    pub(super) fn has_room_to_answer(&self) -> bool {
        self.answers < config::MAX_UNSENT_ANSWERS || self.closed
    }

    /// Whether there is room for a message's headers and data.
    pub(super) fn has_room(&self) -> bool {
        self.octets.len() - self.sent < config::UNSENT_OCTETS && !self.closed
    }

    /// Whether the first octet of the stream's HEADERS, at least, was written.
    pub(super) fn has_begun(&self, stream: StreamId) -> bool {
        stream.get() <= self.begun
    }

    /// Drops all frames that are not begun.
    pub(super) fn drop_queue(&mut self) {
        self.octets.truncate(self.next_frame);
        self.queue = self.next_frame;
        self.answers = 0;
        self.check_invariants();
    }

    /// Drops everything, for good: nobody reads it.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.octets = Vec::new();
        self.rewind();
    }

    /// Octets of memory held.
    pub(super) fn mem_used(&self) -> usize {
        self.octets.capacity()
    }

    /// Counts the next frame as begun.
    fn begin_frame(&mut self) {
        let head = self.octets[self.next_frame..].first_chunk::<HEAD>();
        let head = Head::parse(*head.expect("the buffer holds whole frames"));
        match head.kind {
            Kind::Data => {}
            Kind::Headers => self.begun = self.begun.max(head.stream),
            _ => self.answers = self.answers.saturating_sub(1),
        }
        self.next_frame += HEAD + head.length as usize;
    }

    /// Starts again with an empty buffer; one that had grown large gives its memory back.
    fn rewind(&mut self) {
        self.octets.clear();
        self.octets.shrink_to(KEPT);
        (self.sent, self.next_frame, self.queue, self.answers) = (0, 0, 0, 0);
    }

    /// Moves what is unsent to the front, once that is the smaller part.
    fn compact(&mut self) {
        if self.sent < self.octets.len() - self.sent {
            return;
        }
        self.octets.drain(..self.sent);
        self.next_frame -= self.sent;
        self.queue -= self.sent;
        self.sent = 0;
    }

    /// Holds the order of the marks.
    fn check_invariants(&self) {
        debug_assert!(self.sent <= self.next_frame || self.closed);
        debug_assert!(self.next_frame <= self.queue);
        debug_assert!(self.queue <= self.octets.len());
    }
}

/// The first size of the buffer: preface, SETTINGS and a small call fit (octets).
const INITIAL: usize = 384;

/// What an idle connection keeps of a larger buffer (octets).
const KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::error::ErrorCode;
    use crate::http2::frame::{Data, Headers, Ping, Reset};

    const STREAM: StreamId = StreamId::FIRST;

    fn pong(mark: u8) -> Vec<u8> {
        let opaque = [mark; 8];
        Ping { ack: true, opaque }.encode().to_vec()
    }

    fn data(length: usize) -> Vec<u8> {
        let mut frame = Data::head(STREAM, length, false).encode().to_vec();
        frame.resize(HEAD + length, b'd');
        frame
    }

    /// An outbox whose preface is written.
    fn outbox() -> Outbox {
        let mut outbox = Outbox::new(b"", &[]);
        outbox.sent(outbox.transmit().len());
        outbox
    }

    #[test]
    fn the_preface_and_settings_come_first_whatever_is_answered_meanwhile() {
        let mut outbox = Outbox::new(b"preface", &[(Id::ENABLE_PUSH, 0)]);
        outbox.answer(&pong(1));
        let mut expected = b"preface".to_vec();
        SettingsFrame::encode(&[(Id::ENABLE_PUSH, 0)], &mut expected);
        expected.extend(pong(1));
        assert_eq!(outbox.transmit(), expected);
    }

    #[test]
    fn an_answer_goes_ahead_of_queued_data_but_not_into_a_frame_that_is_begun() {
        let mut outbox = outbox();
        outbox.push(|out| out.extend(data(100)));
        outbox.push(|out| out.extend(data(50)));
        outbox.sent(1);
        outbox.answer(&pong(1));
        outbox.answer(&pong(2));
        let mut expected = data(100)[1..].to_vec();
        expected.extend(pong(1));
        expected.extend(pong(2));
        expected.extend(data(50));
        assert_eq!(outbox.transmit(), expected);
    }

    #[test]
    fn answers_are_counted_until_they_are_begun() {
        let mut outbox = outbox();
        for mark in 0..63 {
            outbox.answer(&pong(mark));
        }
        assert!(outbox.has_room_to_answer());
        outbox.push_control(
            &Reset {
                stream: STREAM,
                code: ErrorCode::CANCEL,
            }
            .encode(),
        );
        assert!(!outbox.has_room_to_answer());
        outbox.sent(1);
        assert!(outbox.has_room_to_answer());
    }

    #[test]
    fn a_stream_has_begun_with_the_first_octet_of_its_headers() {
        let mut outbox = outbox();
        let head = Headers::head(STREAM, 1, true).encode();
        outbox.push(|out| out.extend([&head[..], b"h"].concat()));
        assert!(!outbox.has_begun(STREAM));
        outbox.sent(1);
        assert!(outbox.has_begun(STREAM));
    }

    #[test]
    fn a_frame_that_is_begun_is_finished_even_when_the_rest_is_dropped() {
        let mut outbox = outbox();
        outbox.push(|out| out.extend(data(10)));
        outbox.push(|out| out.extend(data(10)));
        outbox.sent(3);
        outbox.drop_queue();
        assert_eq!(outbox.transmit(), &data(10)[3..]);
    }

    #[test]
    fn memory_does_not_grow_with_what_was_already_sent() {
        let mut outbox = outbox();
        outbox.push(|out| out.extend(data(100)));
        for _ in 0..10_000 {
            outbox.push(|out| out.extend(data(100)));
            outbox.sent(100);
            outbox.answer(&pong(1));
            outbox.sent(26);
        }
        assert!(outbox.mem_used() < 1024, "{}", outbox.mem_used());
    }
}

//! The send buffer: frames that are queued and not yet written.
//!
//! One buffer of whole frames. Answers (PING and SETTINGS acknowledgements, window updates,
//! refusals of streams) are inserted ahead of queued frames that are not begun, so that a peer gets
//! its answer while a large message is being sent; all other frames keep their order. Waiting
//! control frames are counted: if a peer does not read its answers, its next frames are not
//! processed until it does.
//!
//! ```text
//! octets: [ sent | rest of a frame | answers ahead of the queue | queued frames ... ]
//!                ^sent             ^next_frame                  ^queue
//! ```

use super::frame::{HEAD, Head};
use super::frame_type::FrameType;
use super::settings::{ENTRY, SettingId};
use super::{KEPT_OCTETS, StreamId};
use crate::config;

/// A buffer of frames to send.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) octets: Vec<u8>,
    /// The number of octets that were written.
    sent: usize,
    /// The beginning of the first frame of which nothing is written.
    next_frame: usize,
    /// The beginning of the queue: answers are inserted here, ahead of the queued frames.
    queue: usize,
    /// The number of frames not begun that are neither HEADERS nor DATA.
    control_frames: u32,
    /// The highest stream of whose HEADERS an octet was written. A client opens streams in the
    /// order of their identifiers, so the same is true of all lower ones.
    begun: u32,
    /// Whether the buffer is closed: it stays empty, and new frames are dropped.
    closed: bool,
}

impl Outbox {
    /// Returns a send buffer with `preface`, which is empty for a server, and a SETTINGS frame with
    /// `settings`.
    ///
    /// RFC 9113 §3.4: "In HTTP/2, each endpoint is required to send a connection preface as a
    /// final confirmation of the protocol in use".
    pub(super) fn new(preface: &[u8], settings: &[(SettingId, u32)]) -> Self {
        // The preface, SETTINGS and a small call fit.
        let mut octets = Vec::with_capacity(384);
        octets.extend_from_slice(preface);
        let length = settings.len() * ENTRY;
        octets.extend_from_slice(&Head::new(FrameType::SETTINGS, 0, 0, length).encode());
        for (id, value) in settings {
            octets.extend_from_slice(&id.0.to_be_bytes());
            octets.extend_from_slice(&value.to_be_bytes());
        }
        Self {
            sent: 0,
            next_frame: preface.len(),
            queue: octets.len(),
            control_frames: 1,
            begun: 0,
            closed: false,
            octets,
        }
    }

    /// Returns the octets to write next.
    #[inline]
    pub(super) fn transmit(&self) -> &[u8] {
        &self.octets[self.sent..]
    }

    /// Counts octets that were written.
    pub(super) fn sent(&mut self, octets: usize) {
        self.sent = self.sent.saturating_add(octets).min(self.octets.len());
        while self.next_frame < self.sent {
            let head = self.octets[self.next_frame..].first_chunk::<HEAD>();
            let head = Head::parse(*head.expect("the buffer holds whole frames"));
            match head.kind {
                FrameType::DATA => {}
                FrameType::HEADERS => self.begun = self.begun.max(head.stream),
                _ => self.control_frames = self.control_frames.saturating_sub(1),
            }
            self.next_frame += HEAD + head.length as usize;
        }
        self.queue = self.queue.max(self.next_frame);
        if self.sent == self.octets.len() {
            self.clear();
        }
        self.check_invariants();
    }

    /// Inserts a control frame ahead of the queued frames that are not begun.
    pub(super) fn insert_control(
        &mut self,
        kind: FrameType,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) {
        if self.closed {
            return;
        }
        self.compact();
        let head = Head::new(kind, flags, stream, payload.len()).encode();
        let frame = head.iter().chain(payload).copied();
        self.octets.splice(self.queue..self.queue, frame);
        self.queue += HEAD + payload.len();
        self.control_frames += 1;
        self.check_invariants();
    }

    /// Appends DATA, or a control frame, which counts like an answer.
    pub(super) fn push(&mut self, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
        if !matches!(kind, FrameType::DATA) {
            self.control_frames += 1;
        }
        if let Some(octets) = self.queue_buf() {
            octets.extend_from_slice(&Head::new(kind, flags, stream, payload.len()).encode());
            octets.extend_from_slice(payload);
        }
        self.check_invariants();
    }

    /// Returns the buffer, to append a whole frame of HEADERS, or `None` if the buffer is closed.
    pub(super) fn queue_buf(&mut self) -> Option<&mut Vec<u8>> {
        if self.closed {
            return None;
        }
        self.compact();
        Some(&mut self.octets)
    }

    /// Returns whether the peer's next frame may be processed: few answers are unsent, or the
    /// buffer is closed.
    pub(super) fn has_room_to_answer(&self) -> bool {
        self.control_frames < config::MAX_UNSENT_ANSWERS || self.closed
    }

    /// Returns whether another HEADERS or DATA frame may be queued: few octets are unsent, and the
    /// buffer is not closed.
    pub(super) fn has_room(&self) -> bool {
        self.octets.len() - self.sent < config::MAX_UNSENT_OCTETS && !self.closed
    }

    /// Returns whether at least the first octet of the HEADERS with which a client opened `stream`
    /// was written. The result means nothing on a server.
    pub(super) fn has_begun(&self, stream: StreamId) -> bool {
        stream.get() <= self.begun
    }

    /// Drops all frames of which nothing is written yet.
    pub(super) fn drop_queue(&mut self) {
        self.octets.truncate(self.next_frame);
        self.queue = self.next_frame;
        self.control_frames = 0;
        self.check_invariants();
    }

    /// Drops everything and closes the buffer, because the peer cannot receive anything.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.octets = Vec::new();
        self.clear();
    }

    /// Empties the buffer, and frees its memory above [`KEPT_OCTETS`].
    fn clear(&mut self) {
        self.octets.clear();
        self.octets.shrink_to(KEPT_OCTETS);
        (self.sent, self.next_frame, self.queue, self.control_frames) = (0, 0, 0, 0);
    }

    /// Moves the unsent octets to the front if they are at most half of the buffer.
    #[inline]
    fn compact(&mut self) {
        if self.sent < self.octets.len() - self.sent {
            return;
        }
        self.octets.drain(..self.sent);
        self.next_frame -= self.sent;
        self.queue -= self.sent;
        self.sent = 0;
    }

    /// Checks the order of the positions.
    fn check_invariants(&self) {
        debug_assert!(self.sent <= self.next_frame || self.closed);
        debug_assert!(self.next_frame <= self.queue);
        debug_assert!(self.queue <= self.octets.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::frame::flag;

    const STREAM: StreamId = StreamId::FIRST;

    fn insert_ping_ack(outbox: &mut Outbox, mark: u8) {
        outbox.insert_control(FrameType::PING, flag::ACK, 0, &[mark; 8]);
    }

    fn push(outbox: &mut Outbox, frame: &[u8]) {
        let octets = outbox.queue_buf().expect("it is not closed");
        octets.extend_from_slice(frame);
    }

    fn ping_ack(mark: u8) -> Vec<u8> {
        let head = Head::new(FrameType::PING, flag::ACK, 0, 8);
        [&head.encode()[..], &[mark; 8]].concat()
    }

    fn data(length: usize) -> Vec<u8> {
        let head = Head::new(FrameType::DATA, 0, STREAM.get(), length);
        let mut frame = head.encode().to_vec();
        frame.resize(HEAD + length, b'd');
        frame
    }

    /// Returns a send buffer whose preface is written.
    fn outbox() -> Outbox {
        let mut outbox = Outbox::new(b"", &[]);
        outbox.sent(outbox.transmit().len());
        outbox
    }

    #[test]
    fn the_preface_and_settings_come_first() {
        let mut outbox = Outbox::new(b"preface", &[(SettingId::ENABLE_PUSH, 0)]);
        insert_ping_ack(&mut outbox, 1);
        let mut expected = b"preface".to_vec();
        expected.extend(b"\0\0\x06\x04\0\0\0\0\0\0\x02\0\0\0\0");
        expected.extend(ping_ack(1));
        assert_eq!(outbox.transmit(), expected);
    }

    #[test]
    fn an_answer_is_sent_ahead_of_queued_data() {
        let mut outbox = outbox();
        push(&mut outbox, &data(100));
        push(&mut outbox, &data(50));
        outbox.sent(1);
        insert_ping_ack(&mut outbox, 1);
        insert_ping_ack(&mut outbox, 2);
        let mut expected = data(100)[1..].to_vec();
        expected.extend(ping_ack(1));
        expected.extend(ping_ack(2));
        expected.extend(data(50));
        assert_eq!(outbox.transmit(), expected);
    }

    #[test]
    fn answers_are_counted_until_they_are_begun() {
        let mut outbox = outbox();
        for mark in 0..63 {
            insert_ping_ack(&mut outbox, mark);
        }
        assert!(outbox.has_room_to_answer());
        outbox.push(FrameType::RST_STREAM, 0, STREAM.get(), &[0; 4]);
        assert!(!outbox.has_room_to_answer());
        outbox.sent(1);
        assert!(outbox.has_room_to_answer());
    }

    #[test]
    fn a_stream_has_begun_with_the_first_octet_of_its_headers() {
        let mut outbox = outbox();
        let head = Head::new(FrameType::HEADERS, 0, STREAM.get(), 1).encode();
        push(&mut outbox, &[&head[..], b"h"].concat());
        assert!(!outbox.has_begun(STREAM));
        outbox.sent(1);
        assert!(outbox.has_begun(STREAM));
    }

    #[test]
    fn a_frame_that_is_begun_is_finished() {
        let mut outbox = outbox();
        push(&mut outbox, &data(10));
        push(&mut outbox, &data(10));
        outbox.sent(3);
        outbox.drop_queue();
        assert_eq!(outbox.transmit(), &data(10)[3..]);
    }

    #[test]
    fn memory_does_not_grow_with_what_was_already_sent() {
        let mut outbox = outbox();
        push(&mut outbox, &data(100));
        for _ in 0..10_000 {
            push(&mut outbox, &data(100));
            outbox.sent(100);
            insert_ping_ack(&mut outbox, 1);
            outbox.sent(26);
        }
        let held = outbox.octets.capacity();
        assert!(held < 1024, "{held}");
    }
}

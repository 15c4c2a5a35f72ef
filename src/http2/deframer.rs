//! The receive buffer, cut into frames.
//!
//! The caller reads into one buffer, and frames are taken without being copied out of it: the last
//! one stays in the buffer until the next is requested. The buffer grows with what was received,
//! never to a length that a frame announces, and never beyond one frame of the largest accepted
//! size. Until a frame is complete, only its head is examined, so a peer that sends one octet at a
//! time does not cause the whole frame to be read again and again.

use super::error::Violation;
use super::frame::{HEAD, Head, INITIAL_MAX_FRAME_SIZE};
#[cfg(test)]
use super::testing::work;

/// A buffer of received octets.
#[derive(Debug, Default)]
pub(super) struct Deframer {
    pub(super) octets: Vec<u8>,
    /// The beginning of the frame that was taken last.
    start: usize,
    /// The end of that frame: the beginning of the octets that are not yet taken.
    next: usize,
    /// The end of the received octets, where the free room begins.
    end: usize,
}

impl Deframer {
    /// Moves the octets in use to the front, and returns the room behind them to read into. Grows
    /// the buffer if it is full, unless the next frame is complete or too large, or the buffer has
    /// its largest size: then the room is empty.
    pub(super) fn recv_buf(&mut self) -> &mut [u8] {
        // A frame that arrives octet by octet is not moved for each octet.
        if self.start > 0 {
            #[cfg(test)]
            work::count(self.end - self.start);
            self.octets.copy_within(self.start..self.end, 0);
            self.next -= self.start;
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.octets.len() && !self.has_frame() {
            let size = (self.octets.len() * 2).clamp(INITIAL, LARGEST);
            self.octets.reserve_exact(size - self.octets.len());
            self.octets.resize(size, 0);
        }
        &mut self.octets[self.end..]
    }

    /// Counts octets that were read into the room.
    pub(super) fn received(&mut self, octets: usize) {
        self.end = self.end.saturating_add(octets).min(self.octets.len());
    }

    /// Releases the frame that was taken last, and takes the next one if it is complete.
    pub(super) fn next(&mut self) -> Result<Option<Head>, Violation> {
        self.start = self.next;
        let head = self.peek_head()?;
        if let Some(head) = head {
            self.next += HEAD + head.length as usize;
            #[cfg(test)]
            work::count(HEAD + head.length as usize);
        }
        Ok(head)
    }

    /// Returns whether the next frame is complete or too large.
    pub(super) fn has_frame(&self) -> bool {
        self.peek_head() != Ok(None)
    }

    /// Returns the payload of the frame that was taken last.
    #[inline]
    pub(super) fn payload(&self) -> &[u8] {
        self.octets[self.start..self.next]
            .get(HEAD..)
            .unwrap_or_default()
    }

    /// Skips octets that are not part of a frame.
    pub(super) fn skip(&mut self, octets: usize) {
        self.next = self.next.saturating_add(octets).min(self.end);
        self.start = self.next;
    }

    /// Returns the octets that were received and not yet taken.
    #[inline]
    pub(super) fn untaken_octets(&self) -> &[u8] {
        &self.octets[self.next..self.end]
    }

    /// Returns the head of the next frame, if the frame is complete.
    ///
    /// RFC 9113 §4.2: "An endpoint MUST send an error code of FRAME_SIZE_ERROR if a frame exceeds
    /// the size defined in SETTINGS_MAX_FRAME_SIZE": the head is enough to return this error.
    #[inline]
    fn peek_head(&self) -> Result<Option<Head>, Violation> {
        let waiting = self.untaken_octets();
        let Some(head) = waiting.first_chunk() else {
            return Ok(None);
        };
        let head = Head::parse(*head);
        if head.length > INITIAL_MAX_FRAME_SIZE {
            return Err(Violation::FrameTooLarge(head.length));
        }
        let is_complete = waiting.len() - HEAD >= head.length as usize;
        Ok(is_complete.then_some(head))
    }
}

/// The initial size of the buffer (octets): a whole response to a small call fits. A little less
/// than 512, because the allocator adds octets of its own: musl keeps larger buffers in pages with
/// so few others that it maps and unmaps these pages again and again.
const INITIAL: usize = 480;

/// The largest size of the buffer (octets): one frame of the largest accepted size.
const LARGEST: usize = HEAD + INITIAL_MAX_FRAME_SIZE as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::frame_type::FrameType;

    fn frame(length: usize) -> Vec<u8> {
        let mut octets = Head::new(FrameType::DATA, 0, 1, length).encode().to_vec();
        octets.resize(HEAD + length, 7);
        octets
    }

    /// Copies as much of `octets` into the room as fits, and returns how much that is.
    fn feed(deframer: &mut Deframer, octets: &[u8]) -> usize {
        let room = deframer.recv_buf();
        let n = room.len().min(octets.len());
        room[..n].copy_from_slice(&octets[..n]);
        deframer.received(n);
        n
    }

    #[test]
    fn a_frame_is_taken_when_its_last_octet_was_received() {
        let mut deframer = Deframer::default();
        let octets = frame(5);
        for octet in &octets[..octets.len() - 1] {
            feed(&mut deframer, &[*octet]);
            assert_eq!(deframer.next(), Ok(None));
        }
        feed(&mut deframer, &octets[octets.len() - 1..]);
        let head = deframer.next().expect("fine").expect("complete");
        assert_eq!((head.length, deframer.payload()), (5, &[7; 5][..]));
        feed(&mut deframer, &[1; 400]);
        assert_eq!(
            deframer.payload(),
            [7; 5],
            "the payload stays until the next frame is taken"
        );
        assert_eq!(
            deframer.next().map(|_| ()),
            Err(Violation::FrameTooLarge(0x01_0101))
        );
        assert_eq!(deframer.payload(), [0; 0]);
    }

    #[test]
    fn a_frame_of_16384_octets_is_taken() {
        let mut deframer = Deframer::default();
        let octets = frame(16_384);
        let mut fed = 0;
        while fed < octets.len() {
            assert_eq!(deframer.next(), Ok(None));
            fed += feed(&mut deframer, &octets[fed..]);
        }
        assert!(deframer.next().expect("fine").is_some());
        assert_eq!(deframer.next(), Ok(None));

        feed(&mut deframer, &frame(16_385)[..HEAD]);
        assert_eq!(deframer.next(), Err(Violation::FrameTooLarge(16_385)));
    }

    #[test]
    fn memory_grows_with_received_and_not_with_announced_octets() {
        let mut deframer = Deframer::default();
        assert_eq!(deframer.octets.capacity(), 0);
        let octets = frame(16_384);
        let mut came = 0;
        while came < octets.len() {
            came += feed(&mut deframer, &octets[came..=came]);
            assert!(deframer.octets.capacity() <= (2 * came).max(INITIAL));
        }
        assert!(deframer.recv_buf().is_empty());
        assert_eq!(deframer.octets.capacity(), LARGEST);
    }

    #[test]
    fn there_is_no_room_while_a_frame_waits_in_a_full_buffer() {
        let mut deframer = Deframer::default();
        let many = frame(91).repeat(20);
        assert_eq!(feed(&mut deframer, &many), INITIAL);
        assert!(deframer.recv_buf().is_empty());
        for _ in 0..2 {
            assert!(deframer.next().expect("fine").is_some());
        }
        assert_eq!(deframer.recv_buf().len(), 100);
    }
}

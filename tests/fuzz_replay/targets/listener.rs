//! A strict listener: checks that one side obeys the rules for what it writes, whatever its peer
//! does.
//!
//! Frames are whole, and small enough for every peer. A client opens streams in order. After the
//! end of a stream, only RST_STREAM and WINDOW_UPDATE are sent on it, and nothing at all after a
//! reset.

use std::collections::BTreeMap;

use super::wire::{
    self, CONTINUATION, DATA, END_STREAM, GOAWAY, HEADERS, Head, LARGEST_FRAME, PING, PREFACE,
    PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};

/// The state after what was written so far.
#[derive(Debug)]
pub(super) struct Listener {
    /// Whether the writer is a client.
    is_client: bool,
    /// The octets of an incomplete frame.
    octets: Vec<u8>,
    /// Whether the preface was written, if there is one.
    greeted: bool,
    streams: BTreeMap<u32, State>,
}

/// What may still be sent on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    Reset,
}

impl Listener {
    /// Returns a listener for a client.
    pub(super) fn client() -> Self {
        Self::new(true)
    }

    /// Returns a listener for a server.
    pub(super) fn server() -> Self {
        Self::new(false)
    }

    fn new(is_client: bool) -> Self {
        Self {
            is_client,
            octets: Vec::new(),
            greeted: !is_client,
            streams: BTreeMap::new(),
        }
    }

    /// Checks the octets that were written next, however they are split.
    pub(super) fn hear(&mut self, octets: &[u8]) {
        self.octets.extend(octets);
        if !self.greeted {
            let common = self.octets.len().min(PREFACE.len());
            assert_eq!(self.octets[..common], PREFACE[..common], "the preface");
            if common < PREFACE.len() {
                return;
            }
            self.octets.drain(..common);
            self.greeted = true;
        }
        while let Some(head) = wire::head(&self.octets) {
            assert!(head.length <= LARGEST_FRAME, "a long frame: {head:?}");
            if wire::take(&mut self.octets).is_none() {
                return;
            }
            self.hear_frame(head);
        }
    }

    /// Returns whether everything that was written ends with the end of a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        self.octets.is_empty()
    }

    /// Returns whether nothing more can be written on a stream.
    pub(super) fn has_ended(&self, stream: u32) -> bool {
        let state = self.streams.get(&stream);
        state.is_some_and(|state| *state != State::Open)
    }

    fn hear_frame(&mut self, head: Head) {
        let Head {
            length,
            kind,
            flags,
            stream,
        } = head;
        match kind {
            HEADERS if self.is_client => self.opens(stream, flags),
            HEADERS => self.answers(stream, flags),
            DATA => self.sends(stream, flags),
            RST_STREAM => self.resets(stream),
            WINDOW_UPDATE => {
                assert_eq!(length, 4);
                let state = self.streams.get(&stream);
                assert_ne!(state, Some(&State::Reset), "WINDOW_UPDATE {stream}");
            }
            SETTINGS => assert_eq!((stream, length % 6), (0, 0)),
            PING => assert_eq!((stream, length), (0, 8)),
            GOAWAY => assert!(stream == 0 && length >= 8),
            PUSH_PROMISE | CONTINUATION => panic!("unexpected frame type {kind}"),
            _ => panic!("unknown frame type {kind}"),
        }
    }

    /// RFC 9113 §5.1.1: "The identifier of a newly established stream MUST be numerically greater
    /// than all streams that the initiating endpoint has opened or reserved."
    fn opens(&mut self, stream: u32, flags: u8) {
        let last = self.streams.last_key_value().map_or(0, |(last, _)| *last);
        assert!(stream % 2 == 1 && stream > last, "{last} before {stream}");
        self.streams.insert(stream, State::Open);
        self.note_end(stream, flags);
    }

    /// Checks the headers or the trailers of an answer.
    fn answers(&mut self, stream: u32, flags: u8) {
        let state = *self.streams.entry(stream).or_insert(State::Open);
        assert_eq!(state, State::Open, "HEADERS on stream {stream}");
        assert!(stream % 2 == 1, "a push");
        self.note_end(stream, flags);
    }

    /// Checks a reset; a server may also refuse a stream on which it has sent nothing.
    fn resets(&mut self, stream: u32) {
        let before = self.streams.insert(stream, State::Reset);
        let is_refused = !self.is_client && before.is_none();
        assert!(
            is_refused || matches!(before, Some(State::Open | State::Ended)),
            "RST_STREAM on stream {stream}, which is {before:?}"
        );
    }

    fn sends(&mut self, stream: u32, flags: u8) {
        let state = self.streams.get(&stream);
        assert_eq!(state, Some(&State::Open), "DATA on stream {stream}");
        self.note_end(stream, flags);
    }

    fn note_end(&mut self, stream: u32, flags: u8) {
        if flags & END_STREAM != 0 {
            self.streams.insert(stream, State::Ended);
        }
    }
}

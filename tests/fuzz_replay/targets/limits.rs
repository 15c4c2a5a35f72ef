//! The octets that a machine has read, and whether it must have ended the connection by now.
//!
//! The limits on header blocks are checked a second time here, frame by frame.

use plugind::config::{MAX_CONTINUATIONS, MAX_DECODED_HEADERS, MAX_HEADER_LIST};

use super::wire::{
    self, CONTINUATION, END_HEADERS, GOAWAY, HEADERS, LARGEST_FRAME, PADDED, PREFACE, WITH_PRIORITY,
};

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Limits {
    octets: Vec<u8>,
    /// The part of the preface that has not arrived yet.
    preface: usize,
    /// The header block that is incomplete, and the number of its CONTINUATION frames.
    block: Option<(Vec<u8>, u32)>,
    /// The reason why the connection must have ended.
    exceeded: Option<&'static str>,
    /// The last stream ID of the last GOAWAY.
    last_stream: Option<u32>,
}

impl Limits {
    /// Returns limits for what a server reads.
    pub(super) fn of_server() -> Self {
        Self {
            preface: PREFACE.len(),
            ..Self::default()
        }
    }

    /// Returns the reason why the connection must have ended, if it must.
    pub(super) fn exceeded(&self) -> Option<&'static str> {
        self.exceeded
    }

    /// Returns the last stream that the peer will answer, once it has sent GOAWAY.
    pub(super) fn last_stream(&self) -> Option<u32> {
        self.last_stream
    }

    /// Takes the octets that were read next, however they are split.
    pub(super) fn read(&mut self, mut octets: &[u8]) {
        let preface = self.preface.min(octets.len());
        self.preface -= preface;
        octets = &octets[preface..];
        self.octets.extend(octets);
        while let Some(head) = wire::head(&self.octets) {
            if head.length > LARGEST_FRAME {
                self.exceeded.get_or_insert("a frame is too large");
            }
            let Some((head, payload)) = wire::take(&mut self.octets) else {
                return;
            };
            self.frame(head.kind, head.flags, &payload);
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        match (kind, self.block.take()) {
            (HEADERS, None) => {
                if let Some(fragment) = fragment(flags, payload) {
                    self.fragment(fragment.to_vec(), 0, flags);
                }
            }
            (CONTINUATION, Some((mut block, continuations))) => {
                block.extend(payload);
                self.fragment(block, continuations + 1, flags);
            }
            (CONTINUATION, None) => {
                self.exceeded.get_or_insert("no block is under way");
            }
            (_, Some(_)) => {
                self.exceeded.get_or_insert("a block is interrupted");
            }
            (GOAWAY, None) => {
                if let Some(last) = payload.first_chunk() {
                    self.last_stream = Some(u32::from_be_bytes(*last) & !(1 << 31));
                }
            }
            _ => {}
        }
    }

    /// Checks a block that may be incomplete.
    fn fragment(&mut self, block: Vec<u8>, continuations: u32, flags: u8) {
        if continuations > MAX_CONTINUATIONS {
            self.exceeded.get_or_insert("a block has too many frames");
        }
        if block.len() > MAX_HEADER_LIST {
            self.exceeded.get_or_insert("a block is too long");
        }
        if flags & END_HEADERS == 0 {
            self.block = Some((block, continuations));
        } else if block.iter().all(|octet| *octet == BOMB)
            && block.len() * DECODED > MAX_DECODED_HEADERS
        {
            self.exceeded.get_or_insert("a block decodes to too much");
        }
    }
}

/// Returns the part of a HEADERS frame that belongs to the block, or `None` if it does not fit the
/// frame.
fn fragment(flags: u8, mut payload: &[u8]) -> Option<&[u8]> {
    let mut padding = 0;
    if flags & PADDED != 0 {
        let (&first, rest) = payload.split_first()?;
        (padding, payload) = (usize::from(first), rest);
    }
    if flags & WITH_PRIORITY != 0 {
        payload = payload.get(5..)?;
    }
    payload.get(..payload.len().checked_sub(padding)?)
}

/// A field from the static table in one octet: `:method: GET`.
pub(super) const BOMB: u8 = 0x82;

/// The decoded size of that field: name, value, and 32 (RFC 9113 §6.5.2; octets).
const DECODED: usize = 7 + 3 + 32;

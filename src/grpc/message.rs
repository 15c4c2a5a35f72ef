//! The length prefix in front of every gRPC message.
//!
//! "Length-Prefixed-Message → Compressed-Flag Message-Length Message": a flag of one octet, a
//! length of four, and the message. DATA frames split this stream anywhere, so prefix and message
//! are reassembled here. A message that is too large is rejected as soon as its prefix is complete.
//! Memory is allocated for what was received, not for the length that the prefix announces.

use super::error::{CallError, ProtocolError};
use crate::budget::grow_capacity;

/// The length of the prefix in octets.
pub(super) const PREFIX: usize = 5;

/// Appends a message, uncompressed, with its prefix.
///
/// Messages here are far below 4 GiB. The prefix of a longer message would be too small, and the
/// receiver would reject the message.
pub(super) fn encode(message: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    out.push(0);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
}

/// Reassembles messages from the pieces in which they are received.
#[derive(Debug)]
pub(super) struct Assembler {
    /// The largest message that is accepted.
    limit: usize,
    expected: Expected,
}

/// The part of the stream that is to be received next.
#[derive(Debug)]
enum Expected {
    /// The rest of a prefix.
    Prefix {
        /// The octets received.
        octets: [u8; PREFIX],
        /// The number of octets received.
        received: usize,
    },
    /// The rest of a message.
    Message {
        /// The octets received.
        octets: Vec<u8>,
        /// The number of octets still to be received.
        missing: usize,
    },
}

impl Expected {
    /// The state before a message.
    const NOTHING: Self = Self::Prefix {
        octets: [0; PREFIX],
        received: 0,
    };
}

impl Assembler {
    /// Returns an assembler for messages of at most `limit` octets.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            expected: Expected::NOTHING,
        }
    }

    /// Consumes `input` from its front until a message is complete or `input` is empty; returns the
    /// complete message.
    pub(super) fn receive(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        if let Expected::Prefix { octets, received } = &mut self.expected {
            let piece = take(input, PREFIX - *received);
            octets[*received..*received + piece.len()].copy_from_slice(piece);
            *received += piece.len();
            if *received < PREFIX {
                return Ok(None);
            }
            let missing = parse_prefix(*octets, self.limit)?;
            self.expected = Expected::Message {
                octets: Vec::new(),
                missing,
            };
        }
        if let Expected::Message { octets, missing } = &mut self.expected {
            let piece = take(input, *missing);
            let size = octets.len() + piece.len();
            grow_capacity(octets, size, octets.len().saturating_add(*missing));
            octets.extend_from_slice(piece);
            *missing -= piece.len();
            if *missing == 0 {
                let message = std::mem::take(octets);
                self.expected = Expected::NOTHING;
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Returns whether a message has begun and is incomplete.
    pub(super) fn is_inside_message(&self) -> bool {
        !matches!(self.expected, Expected::Prefix { received: 0, .. })
    }

    /// Returns the number of octets of memory held.
    pub(super) fn mem_used(&self) -> usize {
        match &self.expected {
            Expected::Prefix { .. } => 0,
            Expected::Message { octets, .. } => octets.capacity(),
        }
    }
}

/// Removes at most `octets` from the front of `input` and returns them.
fn take<'a>(input: &mut &'a [u8], octets: usize) -> &'a [u8] {
    let (piece, rest) = input.split_at(octets.min(input.len()));
    *input = rest;
    piece
}

/// Parses a prefix; returns the length of the message, or an error if it exceeds `limit`, or if
/// the flag is not that of an uncompressed message.
fn parse_prefix(prefix: [u8; PREFIX], limit: usize) -> Result<usize, CallError> {
    let [flag, l1, l2, l3, l4] = prefix;
    match flag {
        0 => {}
        // "If the Message-Encoding header is omitted then the Compressed-Flag must be 0": here,
        // a message must not be compressed, whatever that header says.
        1 => return Err(CallError::Protocol(ProtocolError::Compressed)),
        _ => return Err(CallError::Protocol(ProtocolError::UnknownFlag(flag))),
    }
    let announced = u32::from_be_bytes([l1, l2, l3, l4]);
    match usize::try_from(announced) {
        Ok(length) if length <= limit => Ok(length),
        _ => Err(CallError::TooLarge { announced, limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(message: &[u8]) -> Vec<u8> {
        let mut octets = Vec::new();
        super::encode(message, &mut octets);
        octets
    }

    /// Reassembles all messages in `pieces`, with a limit of ten octets each.
    fn assemble<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(Vec<Vec<u8>>, bool), CallError> {
        let mut assembler = Assembler::new(10);
        let mut messages = Vec::new();
        for mut piece in pieces {
            while let Some(message) = assembler.receive(&mut piece)? {
                messages.push(message);
            }
            assert!(piece.is_empty());
        }
        Ok((messages, assembler.is_inside_message()))
    }

    #[test]
    fn messages_are_the_same_wherever_the_stream_is_cut() {
        let stream = [encode(b"first"), encode(b""), encode(b"0123456789")].concat();
        let expected = vec![b"first".to_vec(), vec![], b"0123456789".to_vec()];
        for cut in 0..=stream.len() {
            let (left, right) = stream.split_at(cut);
            assert_eq!(
                assemble([left, right]),
                Ok((expected.clone(), false)),
                "cut at {cut}"
            );
        }
        assert_eq!(assemble(stream.chunks(1)), Ok((expected, false)));
    }

    #[test]
    fn the_empty_message_is_five_octets() {
        assert_eq!(encode(b""), [0; 5]);
        assert_eq!(assemble([&[0; 5][..]]), Ok((vec![vec![]], false)));
    }

    #[test]
    fn a_stream_that_ends_inside_a_message_is_detected() {
        for cut in 1..10 {
            let (messages, inside) = assemble([&encode(b"12345")[..cut]]).expect("well formed");
            assert!(messages.is_empty() && inside, "cut at {cut}");
        }
    }

    #[test]
    fn a_message_above_the_limit_is_refused_on_its_prefix() {
        let mut assembler = Assembler::new(10);
        let mut prefix = &b"\0\xff\xff\xff\xff"[..];
        let too_large = CallError::TooLarge {
            announced: u32::MAX,
            limit: 10,
        };
        assert_eq!(assembler.receive(&mut prefix), Err(too_large));
        assert_eq!(assembler.mem_used(), 0);
        assert!(assemble([&b"\0\0\0\0\x0b"[..]]).is_err());
    }

    #[test]
    fn memory_grows_with_what_is_received_not_what_is_announced() {
        let mut assembler = Assembler::new(usize::MAX);
        assert_eq!(assembler.receive(&mut &b"\0\xff\xff\xff\xff"[..]), Ok(None));
        assert_eq!(assembler.receive(&mut &[7; 100][..]), Ok(None));
        assert!(assembler.mem_used() <= 200);
    }

    #[test]
    fn a_compressed_message_and_an_unknown_flag_are_errors() {
        let compressed = Err(CallError::Protocol(ProtocolError::Compressed));
        assert_eq!(assemble([&b"\x01\0\0\0\0"[..]]), compressed);
        let unknown = Err(CallError::Protocol(ProtocolError::UnknownFlag(2)));
        assert_eq!(assemble([&b"\x02\0\0\0\0"[..]]), unknown);
    }
}

//! The content of a gRPC answer, in any pieces: the one message that it must be, or an error.
//!
//! An input is the largest message that is accepted, the sizes of the DATA frames and of the reads,
//! the end of the answer, and its content. The expected outcome is derived from the content as a
//! whole.

use plugind::grpc::{CallError, ProtocolError};

use super::input::Input;
use super::{answer, wire};

/// Plays an answer with this content.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let limit = input.pick(&LIMITS);
    let ends_with_data = input.coin();
    let count = input.below(6);
    let frames = input.take(count);
    let count = input.below(4);
    let reads = input.take(count);
    let content = input.rest();
    if content.len() > WINDOW {
        return;
    }
    let answer = answer_with(content, frames, ends_with_data);
    let mut expected = message_in(content, limit);
    // A status must follow; its absence is noticed last.
    let is_whole = matches!(
        expected,
        Ok(_) | Err(CallError::Protocol(ProtocolError::NoMessage))
    );
    if ends_with_data && is_whole {
        expected = Err(CallError::Protocol(ProtocolError::NoStatus));
    }
    assert_eq!(answer::outcome(limit, &answer, reads), expected);
}

/// Returns an answer with this content in DATA frames of these sizes.
fn answer_with(content: &[u8], sizes: &[u8], ends_with_data: bool) -> Vec<u8> {
    let mut answer = wire::headers(1, &wire::ANSWER, 0);
    let mut rest = content;
    for size in sizes.iter().cycle().take(content.len().min(MOST_FRAMES)) {
        let (piece, behind) = rest.split_at(rest.len().min(usize::from(*size)));
        answer.extend(wire::frame(wire::DATA, 0, 1, piece));
        rest = behind;
    }
    if ends_with_data {
        answer.extend(wire::frame(wire::DATA, wire::END_STREAM, 1, rest));
    } else {
        answer.extend(wire::frame(wire::DATA, 0, 1, rest));
        let status: [(&[u8], &[u8]); 1] = [(b"grpc-status", b"0")];
        answer.extend(wire::headers(1, &status, wire::END_STREAM));
    }
    answer
}

/// Returns the only message in the content, which the status OK follows, or the call's error.
fn message_in(content: &[u8], limit: usize) -> Result<Vec<u8>, CallError> {
    let mut message = None;
    let mut rest = content;
    while !rest.is_empty() {
        let Some((&[flag, ref length @ ..], behind)) = rest.split_first_chunk::<5>() else {
            return Err(CallError::Protocol(ProtocolError::CutMessage));
        };
        let announced = u32::from_be_bytes(*length);
        let length = announced as usize;
        match flag {
            0 if length > limit => return Err(CallError::TooLarge { announced, limit }),
            0 => {}
            1 => return Err(CallError::Protocol(ProtocolError::Compressed)),
            _ => return Err(CallError::Protocol(ProtocolError::UnknownFlag(flag))),
        }
        let Some((octets, behind)) = behind.split_at_checked(length) else {
            return Err(CallError::Protocol(ProtocolError::CutMessage));
        };
        if message.replace(octets.to_vec()).is_some() {
            return Err(CallError::Protocol(ProtocolError::SecondMessage));
        }
        rest = behind;
    }
    message.ok_or(CallError::Protocol(ProtocolError::NoMessage))
}

/// The limits on messages (octets).
const LIMITS: [usize; 4] = [0, 3, 100, 1 << 20];

/// The most DATA frames that the content is split into, so that the number of empty ones is
/// tolerated.
const MOST_FRAMES: usize = 50;

/// The largest content that is played, within all windows (octets).
const WINDOW: usize = 16_000;

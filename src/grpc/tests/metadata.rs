//! The metadata of responses is accepted up to several limits; an error names the limit that was
//! exceeded.

use super::{outcome, reply, trailers};
use crate::config::{MAX_CONTINUATIONS, MAX_HEADER_LIST};
use crate::grpc::{CallError, Code};
use crate::http2::testing::{self as wire, ONE};

/// The first fields of a response: 102 octets of a header list, including 32 for each field.
const HEAD: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc")];

/// The fields of successful trailers: 44 octets of a header list.
const END: [(&str, &str); 1] = [("grpc-status", "0")];

/// Returns a header block in fragments of this size: a HEADERS frame and CONTINUATION frames.
fn fragments(block: &[u8], size: usize, end_stream: bool) -> Vec<u8> {
    let mut pieces = block.chunks(size).peekable();
    let mut octets = Vec::new();
    while let Some(piece) = pieces.next() {
        let (kind, flags) = if octets.is_empty() {
            (wire::HEADERS, u8::from(end_stream))
        } else {
            (wire::CONTINUATION, 0)
        };
        let is_last = pieces.peek().is_none();
        let flags = flags | if is_last { wire::END_HEADERS } else { 0 };
        octets.extend(wire::frame(kind, flags, ONE, piece));
    }
    octets
}

/// Returns the block of a header list of this many octets: `fields` and metadata.
fn block_with_list_size(fields: &[(&str, &str)], octets: usize) -> Vec<u8> {
    let counted = fields
        .iter()
        .map(|(name, value)| name.len() + value.len() + 32);
    let value = "v".repeat(octets - counted.sum::<usize>() - "x".len() - 32);
    wire::block(&[fields, &[("x", &value)]].concat())
}

/// Returns the results of two calls: one whose response has headers of this size, and one whose
/// response has trailers of this size.
fn results_with_metadata(octets: usize) -> [Result<Vec<u8>, CallError>; 2] {
    let first = fragments(&block_with_list_size(&HEAD, octets), 16_384, false);
    let last = fragments(&block_with_list_size(&END, octets), 16_384, true);
    [
        outcome(&[first, reply(b"info"), trailers(&END)]),
        outcome(&[wire::ok(ONE), reply(b"info"), last]),
    ]
}

#[test]
fn a_reply_with_20_kib_of_metadata_is_accepted() {
    for octets in [16 * 1024, 16 * 1024 + 1, 20 * 1024] {
        for result in results_with_metadata(octets) {
            assert_eq!(result, Ok(b"info".to_vec()), "{octets} octets");
        }
    }
}

#[test]
fn a_header_list_of_64_kib_is_accepted() {
    for result in results_with_metadata(MAX_HEADER_LIST) {
        assert_eq!(result, Ok(b"info".to_vec()));
    }
    for result in results_with_metadata(MAX_HEADER_LIST + 1) {
        let error = result.expect_err("the list is too large");
        assert_eq!(error.code(), Code::ResourceExhausted);
        let words = "the peer caused an HTTP/2 stream error: \
                     a header list of more than 65536 octets";
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn a_block_in_more_than_8_continuations_is_refused() {
    let block = block_with_list_size(&HEAD, 2_000);
    let frames = MAX_CONTINUATIONS as usize + 1;
    let answer = |frames| {
        let first = fragments(&block, block.len().div_ceil(frames), false);
        outcome(&[first, reply(b"info"), trailers(&END)])
    };
    assert_eq!(answer(frames), Ok(b"info".to_vec()));
    let error = answer(frames + 1).expect_err("the block is cut into too many frames");
    let words = "the peer caused an HTTP/2 connection error: \
                 a header block in more than 8 CONTINUATION frames code=ENHANCE_YOUR_CALM";
    assert_eq!(error.to_string(), words);
}

/// A block that refers to one large table entry again and again is smaller than its list.
#[test]
fn a_list_that_decodes_to_four_times_the_limit_is_refused() {
    let entry = [
        &b"\x88\x40\x01a\x7f\xa1\x1e"[..],
        &[b'v'; 4000],
        &[0xbe; 65],
    ]
    .concat();
    let error = outcome(&[fragments(&entry, 16_384, false)]).expect_err("the list is too large");
    let words = "the peer caused an HTTP/2 connection error: \
                 a header list of more than 262144 octets code=ENHANCE_YOUR_CALM";
    assert_eq!(error.to_string(), words);
}

#[test]
fn a_block_of_more_than_64_kib_is_refused() {
    let block = vec![0; 64 * 1024 + 1];
    let error = outcome(&[fragments(&block, 16_384, false)]).expect_err("the block is too large");
    let words = "the peer caused an HTTP/2 connection error: \
                 a header block of more than 65536 octets code=ENHANCE_YOUR_CALM";
    assert_eq!(error.to_string(), words);
}

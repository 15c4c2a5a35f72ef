//! See `tests/fuzz_replay/targets/hpack_decode.rs`; and `loona-hpack` must decode the same from
//! every block.

#![no_main]

use loona_hpack::decoder::DecoderError;
use plugind::hpack::Error;
use plugind_fuzz::hpack_decode::{TABLE, blocks, decode};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let blocks = blocks(bytes);
    let mut oracle = loona_hpack::Decoder::new();
    oracle.set_max_allowed_table_size(TABLE);
    for (ours, block) in decode(&blocks).into_iter().zip(blocks) {
        // Unlike us, `loona-hpack` accepts a size update between fields.
        if ours == Err(Error::LateSizeUpdate) {
            return;
        }
        match oracle.decode(block) {
            // `loona-hpack` rejects blocks that end with a size update, although a block with
            // nothing else is allowed.
            Err(DecoderError::SizeUpdateAtEnd) => {
                let fields = ours.unwrap_or_default();
                assert!(fields.is_empty(), "{block:02x?}");
            }
            theirs => assert_eq!(ours.ok(), theirs.ok(), "{block:02x?}"),
        }
    }
});

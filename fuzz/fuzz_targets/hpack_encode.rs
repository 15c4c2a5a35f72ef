//! See `tests/fuzz_replay/targets/hpack_encode.rs`; and `loona-hpack` must decode what we encode.

#![no_main]

use plugind_fuzz::hpack_encode::{check, encode};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let (fields, block) = encode(bytes);
    // `loona-hpack` rejects a block that only sets the size of the table to zero.
    if fields.is_empty() {
        return;
    }
    assert_eq!(loona_hpack::Decoder::new().decode(&block), Ok(fields));
});

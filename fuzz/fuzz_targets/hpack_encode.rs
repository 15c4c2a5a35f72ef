//! See `tests/fuzz_replay/targets/hpack_encode.rs`; and `loona-hpack` must read what we write.

#![no_main]

use plugind_fuzz::hpack_encode::{check, encode};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let (fields, block) = encode(bytes);
    // A block that says nothing but that there is no table is more than it likes.
    if fields.is_empty() {
        return;
    }
    assert_eq!(loona_hpack::Decoder::new().decode(&block), Ok(fields));
});

//! See `tests/fuzz_replay/targets/huffman.rs`; and a code is accepted exactly if `httlib-huffman`
//! encodes the string to it: of all codes with the same meaning, only one has the right padding.

#![no_main]

use plugind_fuzz::huffman::{check, decode};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if let Ok(string) = decode(bytes) {
        assert_eq!(encode(&string), bytes);
    }
    assert_eq!(decode(&encode(bytes)).as_deref(), Ok(bytes));
});

fn encode(string: &[u8]) -> Vec<u8> {
    let mut code = Vec::new();
    httlib_huffman::encode(string, &mut code).expect("every octet has a code");
    code
}

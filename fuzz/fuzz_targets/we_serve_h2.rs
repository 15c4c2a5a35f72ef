//! See `tests/fuzz_replay/targets/we_serve_h2.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::we_serve_h2::check(bytes));

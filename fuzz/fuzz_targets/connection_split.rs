//! See `tests/fuzz_replay/targets/connection_split.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::connection_split::check(bytes));

//! See `tests/fuzz_replay/targets/frames.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::frames::check(bytes));

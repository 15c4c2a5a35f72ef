//! See `tests/fuzz_replay/targets/h2_serves_us.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::h2_serves_us::check(bytes));

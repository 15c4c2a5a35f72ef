//! See `tests/fuzz_replay/targets/device_lists.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::device_lists::check(bytes));

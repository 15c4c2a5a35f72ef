//! See `tests/fuzz_replay/targets/config_file.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::config_file::check(bytes));

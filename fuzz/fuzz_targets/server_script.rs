//! See `tests/fuzz_replay/targets/server_script.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::server_script::check(bytes));

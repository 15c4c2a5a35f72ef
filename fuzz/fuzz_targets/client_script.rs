//! See `tests/fuzz_replay/targets/client_script.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::client_script::check(bytes));

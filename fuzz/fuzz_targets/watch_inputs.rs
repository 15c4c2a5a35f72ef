//! See `tests/fuzz_replay/targets/watch_inputs.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::watch_inputs::check(bytes));

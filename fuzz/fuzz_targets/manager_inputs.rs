//! See `tests/fuzz_replay/targets/manager_inputs.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::manager_inputs::check(bytes));

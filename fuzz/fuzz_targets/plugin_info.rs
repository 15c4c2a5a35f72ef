//! See `tests/fuzz_replay/targets/plugin_info.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::plugin_info::check(bytes));

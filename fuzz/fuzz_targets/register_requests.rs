//! See `tests/fuzz_replay/targets/register_requests.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::register_requests::check(bytes));

//! See `tests/fuzz_replay/targets/api_requests.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::api_requests::check(bytes));

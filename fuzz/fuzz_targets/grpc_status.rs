//! See `tests/fuzz_replay/targets/grpc_status.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::grpc_status::check(bytes));

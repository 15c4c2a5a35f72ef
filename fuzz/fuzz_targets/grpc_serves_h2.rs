//! See `tests/fuzz_replay/targets/grpc_serves_h2.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::grpc_serves_h2::check(bytes));

//! See `tests/fuzz_replay/targets/grpc_server_script.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::grpc_server_script::check(bytes));

//! See `tests/fuzz_replay/targets/grpc_message.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plugind_fuzz::grpc_message::check(bytes));

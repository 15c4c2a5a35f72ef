//! The fuzz targets: one function each, which takes any octets and panics on a bug.
//!
//! Plain functions, so that two programs can call them: the fuzzer (`fuzz/fuzz_targets/`), which
//! looks for new inputs, and an ordinary test (`tests/fuzz_replay`), which replays the corpus. What
//! needs a package that the tests do not have stays in the fuzzer.
//!
//! Each target reads its input by [`input::Input`], which never runs out, so that every input is
//! valid; plays a peer with the frames of [`wire`], which share no code with ours; and checks the
//! octets that ours writes with [`listener`]. Memory is compared with a bound after every step.
//! Targets that play any sequence of operations are a [`script`].

// A target panics to report a bug.
#![allow(clippy::missing_panics_doc)]

pub mod api_requests;
pub mod client_script;
pub mod config_file;
pub mod connection_split;
pub mod frames;
pub mod grpc_message;
pub mod grpc_server_script;
pub mod grpc_serves_h2;
pub mod grpc_status;
pub mod h2_serves_us;
pub mod hpack_decode;
pub mod hpack_encode;
pub mod huffman;
pub mod manager_inputs;
pub mod register_requests;
pub mod server_script;
pub mod watch_inputs;

mod answer;
mod h2_client;
mod input;
mod limits;
mod listener;
mod naive_table;
mod pipe;
mod script;
#[path = "../../support/frames.rs"]
mod wire;

/// A target, which panics on a bug.
pub type Check = fn(&[u8]);

/// The name and the function of every target.
pub const TARGETS: [(&str, Check); 17] = [
    ("api_requests", api_requests::check),
    ("connection_split", connection_split::check),
    ("client_script", client_script::check),
    ("server_script", server_script::check),
    ("grpc_server_script", grpc_server_script::check),
    ("h2_serves_us", h2_serves_us::check),
    ("grpc_serves_h2", grpc_serves_h2::check),
    ("hpack_decode", hpack_decode::check),
    ("hpack_encode", hpack_encode::check),
    ("huffman", huffman::check),
    ("frames", frames::check),
    ("grpc_message", grpc_message::check),
    ("grpc_status", grpc_status::check),
    ("register_requests", register_requests::check),
    ("config_file", config_file::check),
    ("manager_inputs", manager_inputs::check),
    ("watch_inputs", watch_inputs::check),
];

/// The most that one connection may hold, whatever its peer does: a frame being received (16 KiB),
/// a header block (64 KiB), its decoded fields (64 KiB and 4 KiB of marks), the dynamic table (8
/// KiB), and the octets to be written (32 KiB; twice, because a vector doubles). A block and its
/// decoded fields are not held at the same time: the memory of a large header list is freed before
/// the next one begins (octets).
const CONNECTION_BOUND: usize = 192 * 1024;

//! The gRPC client against peers of other implementations.

#[path = "../support/mod.rs"]
mod support;

mod peers;

//! HTTP/2, HPACK and gRPC against peers of other implementations.

#[path = "../support/mod.rs"]
mod support;

mod grpc_h2;
mod hpack_h2;
mod peers;

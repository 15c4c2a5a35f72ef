//! gRPC calls on an HTTP/2 connection: unary and server-streaming, from the client's side.
//!
//! Pure: bytes, moments and requests come in through [`Client`]'s methods; bytes to write and
//! [`Event`]s come out. It never reads a clock, opens a socket, or decodes a message: a message is
//! octets here. Compression is not offered, and metadata beyond the status is not kept.
//!
//! ```text
//! unary(), server_streaming() -> call ------> http2 ---> transmit(), sent()      bytes out
//!                                  ^            |
//! poll_event() <-------------------+--- Event <-+ <----- recv_buf(), received()  bytes in
//! ```
//!
//! Read in this order: [`client`] (the verbs), `call` (one call's states), `message` (the length
//! prefix), [`status`] (codes), `timeout` (`grpc-timeout`), [`error`] (what goes wrong).

// Frames, settings and codes are called what their specifications call them.
#![allow(clippy::doc_markdown)]

mod call;
pub mod client;
pub mod error;
mod event;
mod headers;
mod message;
pub mod status;
mod timeout;

pub use client::Client;
pub use error::{Broken, CallError, NotGrpc, Retry};
pub use event::{CallId, Event};
pub use status::{Code, Status};

#[cfg(test)]
mod tests;

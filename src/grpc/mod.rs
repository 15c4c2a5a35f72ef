//! gRPC calls on an HTTP/2 connection: unary and server-streaming, as a client and as a server.
//!
//! Pure: bytes, moments and requests come in through the methods of [`Client`] and [`Server`];
//! bytes to write and events come out. It never reads a clock, opens a socket, or decodes a
//! message: a message is octets here. Compression is not offered, and no metadata is kept but the
//! status and its details.
//!
//! ```text
//! unary(), server_streaming() -> call ------> http2 ---> transmit(), sent()      bytes out
//!                                  ^            |
//! poll_event() <-------------------+--- Event <-+ <----- recv_buf(), received()  bytes in
//!
//! poll_event() <------------- served <-- Incoming <- http2 <--- recv_buf(), received()  bytes in
//!                                v                     ^
//! reply(), send(), finish() -> served -----------------+------> transmit(), sent()      bytes out
//! ```
//!
//! Read in this order: [`client`] and [`server`] (the verbs), `call` and `served` (one call's
//! states), `message` (the length prefix), [`status`] (codes), `binary` (`-bin` fields), `headers`,
//! `timeout` (`grpc-timeout`), [`error`] (what goes wrong).

// Frames, settings and codes are called what their specifications call them.
#![allow(clippy::doc_markdown)]

mod binary;
mod call;
pub mod client;
pub mod error;
mod event;
mod headers;
mod message;
mod served;
pub mod server;
pub mod status;
mod timeout;

pub use client::Client;
pub use error::{Broken, CallError, NotGrpc, Retry};
pub use event::{CallId, Event};
pub use server::{Incoming, Server, Unread};
pub use status::{Code, Status};

#[cfg(test)]
mod tests;

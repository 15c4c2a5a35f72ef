//! gRPC calls on an HTTP/2 connection: unary and server-streaming, as a client and as a server.
//!
//! All of this folder is pure: octets, times and requests are arguments of the methods of
//! [`Client`] and [`Server`], which return octets to write and events. The module never reads a
//! clock, opens a socket, or decodes a message: here, a message is octets. Compression is not
//! offered, and the only metadata kept is the status with its details.
//!
//! ```text
//! unary(), server_streaming() -> call ------> http2 ---> transmit(), sent()      bytes out
//!                                  ^            |
//! poll_event() <-------------------+--- Event <-+ <----- recv_buf(), received()  bytes in
//!
//! poll_event() <-------------- call <--- Incoming <- http2 <--- recv_buf(), received()  bytes in
//!                                v                     ^
//! reply(), send(), finish() --> call ------------------+------> transmit(), sent()      bytes out
//! ```
//!
//! # Driving calls
//!
//! A [`Client`] and a [`Server`] are driven by the methods of [`Endpoint`](crate::http2::Endpoint),
//! like the connection under them; see [`http2`](crate::http2). Their requests and events differ:
//!
//! - A client starts calls at any time, even before the server has sent anything:
//!   [`unary`](Client::unary) or [`server_streaming`](Client::server_streaming). Each call ends
//!   exactly once, with [`Event::Finished`] or [`Event::Closed`], at the latest at its deadline if
//!   it has one, even if it was started on a closed connection: the caller need not keep track of
//!   calls. [`CallError::transparent_retry`] returns how often a failed call may be retried.
//! - A server reports a call when its request is complete. The response can be sent at any time
//!   later: [`reply`](Server::reply), or [`send`](Server::send) and [`finish`](Server::finish). On
//!   a call that has ended, these do nothing.
//! - Flow-control windows are updated here: while a client's events are not polled, the server of
//!   a stream has to wait once its window is used up. A server that sends faster than its client
//!   reads gets [`Backpressure`].
//!
//! # Example
//!
//! A call and its reply, with both ends in one program that carries the octets:
//!
//! ```
//! use plugind::grpc::{CallError, Client, Event, Incoming, Server};
//! use plugind::http2::carry;
//! use plugind::time::Time;
//!
//! # fn main() -> Result<(), CallError> {
//! let now = Time::ZERO; // Here, no time passes.
//! let mut client = Client::new(now);
//! let mut server = Server::new(&["/hello.Greeter/Greet"], 1024, now);
//!
//! let deadline = Time::from_millis(1000);
//! client.unary("/hello.Greeter/Greet", b"world", 1024, deadline, now);
//! let reply = loop {
//!     carry(&mut client, &mut server, now);
//!     while let Some(incoming) = server.poll_event(now) {
//!         if let Incoming::Called { call, message, .. } = incoming {
//!             server.reply(call, &[b"hello, ", &*message].concat(), now);
//!         }
//!     }
//!     carry(&mut server, &mut client, now);
//!     if let Some(Event::Finished { result, .. }) = client.poll_event(now) {
//!         break result;
//!     }
//! };
//! assert_eq!(reply?, b"hello, world");
//! # Ok(())
//! # }
//! ```
//!
//! The examples `request` and `serve` in `tests/examples/` drive an HTTP/2 connection, the layer
//! below calls, on a TCP stream.
//!
//! # Inside
//!
//! Read in this order: [`client`] and [`server`] (the public methods), `client_call` and
//! `server_call` (the states of a call), `message` (the length prefix), [`status`] (codes),
//! `binary` (`-bin` fields), `headers` (with `grpc-timeout`), [`error`] (errors).

// Frames, settings and codes have the names that their specifications give them.
#![allow(clippy::doc_markdown)]

mod binary;
pub mod client;
mod client_call;
pub mod error;
mod event;
mod headers;
mod message;
pub mod server;
mod server_call;
pub mod status;

pub use client::Client;
pub use error::{CallError, NotGrpc, ProtocolError, TransparentRetry};
pub use event::{CallId, Event};
pub use server::{Backpressure, Incoming, Server};
pub use status::{Code, Status};

#[cfg(test)]
mod tests;

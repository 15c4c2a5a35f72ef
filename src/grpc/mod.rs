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
//! # Driving calls
//!
//! A [`Client`] and a [`Server`] are driven as the connection under them is, by the methods of
//! [`Endpoint`](crate::http2::Endpoint): [`http2`](crate::http2) says how. What differs is what
//! happens and what is said:
//!
//! - A client makes calls at any time, also before the server has said a word:
//!   [`unary`](Client::unary) or [`server_streaming`](Client::server_streaming). Each ends exactly
//!   once, with [`Event::Finished`] or [`Event::Closed`], at its deadline at the latest, and also
//!   when the connection was closed before it began: so nobody has to look after a call.
//!   [`CallError::retry`] says whether one that failed may be made again.
//! - A server is told of a call when all of its request is there, and answers it at any time later:
//!   [`reply`](Server::reply), or [`send`](Server::send) and [`finish`](Server::finish). What is
//!   said of a call that nobody waits for any more changes nothing.
//! - Windows are given back here: a stream's server is held up by a client that polls no events,
//!   and a server that sends faster than its client reads is told so by [`Unread`].
//!
//! # Example
//!
//! A call and its reply, with both ends in one place and the octets carried by hand:
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
//! The example `call` in `tests/examples/` is the same over any stream that can be read and
//! written.
//!
//! # Inside
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
